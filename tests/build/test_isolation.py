"""No compiler, header or library of another toolkit gets into a build by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from provoke import LAUNCHER, TINY

from kgen.build import toolchain
from kgen.build.compile import Compiler, build_shared_library, compile_source, disassemble
from kgen.errors import ToolchainError

COMPILERS: tuple[Compiler, ...] = ("nvrtc", "nvcc")


def build(source: str = TINY, **options):
    return compile_source(source, name="tiny", target="sm_90a", **options)


def sabotage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point every variable that could lead a compiler astray at traps; return what they touch."""
    touched = folder / "touched"
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "lib64").mkdir()
    for tool in ("nvcc", "ptxas", "cicc", "cudafe++", "fatbinary", "nvlink", "nvdisasm"):
        trap = folder / "bin" / tool
        trap.write_text(f"#!/bin/sh\necho {tool} >> {touched}\nexit 1\n")
        trap.chmod(0o755)
    for header in ("cuda_fp16.h", "cuda_runtime.h", "crt/host_config.h", "cuda/std/cstdint"):
        path = folder / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#error a header of a toolkit that nobody asked for\n")
    for library in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.5", "libcudart_static.a"):
        (folder / "lib64" / library).write_bytes(b"trap")
    (folder / "json.py").write_text(f"open({str(touched)!r}, 'a').write('json.py')\n")
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_PATH", "CONDA_PREFIX"):
        monkeypatch.setenv(variable, str(folder))
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "CUDA_INC_PATH"):
        monkeypatch.setenv(variable, str(folder / "include"))
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
        monkeypatch.setenv(variable, str(folder / "lib64"))
    for variable in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
        monkeypatch.setenv(variable, "--no-such-flag")
    monkeypatch.setenv("NVCC_CCBIN", str(folder / "bin" / "nvcc"))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("PYTHONHOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return touched


def test_nothing_in_the_environment_leads_to_another_toolkit(
    fresh_workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    touched = sabotage(tmp_path / "bogus", monkeypatch)
    source = "#include <cuda_fp16.h>\n#include <cuda/std/cstdint>\n" + TINY
    for compiler in COMPILERS:
        made = compile_source(source, name="tiny", target="sm_90a", compiler=compiler)
        assert made.data[:4] == b"\x7fELF"
        assert disassemble(made.path)
    assert build_shared_library(LAUNCHER, name="tiny", target="sm_90a").is_file()
    assert not touched.exists()


def test_nvrtc_needs_nothing_on_path(fresh_workers, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert disassemble(build().path)
    assert not (tmp_path / "home").exists()


def test_nvcc_without_a_host_compiler_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (
        lambda: build(compiler="nvcc"),
        lambda: build_shared_library(LAUNCHER, name="tiny", target="sm_90a"),
    ):
        with pytest.raises(ToolchainError, match=r"g\+\+"):
            call()


def test_another_toolkit_only_when_asked(tmp_path: Path, monkeypatch):
    """The private toolkit serves as the other one: its path is given, as a user would."""
    root = str(toolchain.locate().toolkit)
    with pytest.raises(ToolchainError, match="nvcc only"):
        build(toolchain=root)
    with pytest.raises(ToolchainError, match="nvcc only"):
        build(toolchain="system")
    made = build(compiler="nvcc", toolchain=root)
    assert made.compiler.startswith("nvcc 13.5.37 build ")
    assert made.key != build(compiler="nvcc").key
    assert made.data == build(compiler="nvcc").data
