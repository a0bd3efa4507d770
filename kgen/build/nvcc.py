"""The nvcc driver: of the private toolchain, or of a toolkit that was asked for by name or path."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.build import process
from kgen.build.process import Compiled
from kgen.build.toolchain import Toolchain, lock
from kgen.errors import CompileError, ToolchainError

_HOST_COMPILERS = ("g++", "clang++")


@dataclass(frozen=True)
class Nvcc:
    """One nvcc. `identity` enters cache keys: release and build, never a path."""

    binary: Path
    identity: str

    @property
    def toolkit(self) -> Path:
        return self.binary.parent.parent


def private(toolchain: Toolchain) -> Nvcc:
    return Nvcc(toolchain.nvcc, lock().identity("nvcc"))


def named(which: str) -> Nvcc:
    """nvcc of a toolkit that the user asked for: "system", or the path of a toolkit's root.

    "system" is CUDA_HOME, then CUDA_PATH, then the nvcc on PATH.

    Raises  ToolchainError if there is none, or it does not say its version
    """
    if which != "system":
        return _identified(Path(which).absolute() / "bin" / "nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            return _identified(Path(value) / "bin" / "nvcc")
    found = shutil.which("nvcc")
    if not found:
        raise ToolchainError(
            "toolchain system: no nvcc on PATH, and neither CUDA_HOME nor CUDA_PATH is set"
        )
    return _identified(Path(found))


def run(
    nvcc: Nvcc, source: str, file: str, product: str, flags: Sequence[str], timeout: float
) -> Compiled:
    """Compile a source text in a temporary folder that is gone afterwards.

    Raises  CompileError if nvcc does not end in time; ToolchainError without a host compiler
    """
    host = _host_compiler()
    with tempfile.TemporaryDirectory(prefix="kgen-nvcc-") as folder:
        work = Path(folder)
        (work / file).write_text(source, encoding="utf-8")
        # Relative names from inside the folder, so that no temporary path enters the log.
        start = time.perf_counter()
        command = [nvcc.binary, "-ccbin", host, *flags, "-o", product, file]
        env = process.scrubbed_env({"TMPDIR": folder})
        try:
            done = process.run(command, env=env, cwd=work, timeout=timeout)
        except TimeoutError as error:
            raise CompileError(
                f"{file}: nvcc did not finish in {timeout:g} s and was stopped"
            ) from error
        except OSError as error:
            raise ToolchainError(f"{nvcc.binary} does not start: {error}") from error
        seconds = time.perf_counter() - start
        made = work / product
        if done.status == 0 and made.is_file():
            return Compiled(True, done.output, made.read_bytes(), seconds)
        log = done.output or f"{file}: error: nvcc ended with status {done.status}\n"
        return Compiled(False, log, b"", seconds)


def _host_compiler() -> str:
    for name in _HOST_COMPILERS:
        if found := shutil.which(name):
            return found
    raise ToolchainError(
        "nvcc needs a host C++ compiler and neither g++ nor clang++ is on PATH\n"
        "    fix: install one (Debian: g++), or build the cubin with compiler nvrtc, "
        "which needs none"
    )


@functools.cache
def _identified(binary: Path) -> Nvcc:
    if not binary.is_file():
        raise ToolchainError(f"{binary}: no such nvcc")
    try:
        done = process.run([binary, "--version"], env=process.scrubbed_env(), timeout=60.0)
    except (OSError, TimeoutError) as error:
        raise ToolchainError(f"{binary} --version: {error}") from error
    version = re.search(r"\bV(\d+\.\d+\.\d+)", done.output)
    build = re.search(r"Build (\S+)", done.output)
    if done.status or not version:
        raise ToolchainError(f"{binary} --version does not name a release:\n{done.output}")
    return Nvcc(binary, f"nvcc {version[1]} build {build[1] if build else 'unknown'}")
