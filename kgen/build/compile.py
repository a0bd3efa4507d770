"""From CUDA text to an artefact in the cache: the calls that the rest of kgen uses."""

from __future__ import annotations

import dataclasses
import platform
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgen.build import cache, gate, nvcc, pool, process, sass
from kgen.build.gate import Finding, Resources
from kgen.build.process import Compiled
from kgen.build.toolchain import locate, lock
from kgen.errors import CompileError, ToolchainError

Compiler = Literal["nvrtc", "nvcc"]
Emit = Literal["cubin", "ptx"]
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class Artifact:
    """One build result in the cache.

    Units   seconds that the compiler took when it was built; a cache hit keeps the first figure
    resources has one item per function that ptxas reported; empty for PTX.
    """

    key: str
    name: str
    target: str
    kind: str
    path: Path
    resources: tuple[Resources, ...]
    notes: tuple[str, ...]
    log: str
    compiler: str
    seconds: float
    cached: bool

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the ptxas gate refuses in this build; empty for a good one."""
        return gate.check(self.log)

    def require_clean(self) -> None:
        """Hold the build against the ptxas gate; the kernel must have the artefact's name.

        PTX has not met ptxas yet, so there is nothing to hold.

        Raises  CompileError with every finding, and the spec field to change for each
        """
        if self.kind != "ptx":
            gate.require_reported(self.name, self.log)
            gate.require_clean(self.name, self.log)


def compile_source(
    source: str,
    *,
    name: str,
    target: str,
    compiler: Compiler = "nvrtc",
    emit: Emit = "cubin",
    toolchain: str = "private",
    line_info: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> Artifact:
    """Compile one CUDA text, or take the result from the cache, where no compiler is needed.

    name is the C identifier that the file is called by in messages. toolchain is "private",
    "system", or the root of a CUDA toolkit; the last two offer nvcc only. The ptxas gate is not
    applied: look at the artefact's `findings`, or call its `require_clean`.

    Units   timeout in seconds
    Raises  CompileError with the log if the source is refused, or the compiler dies or hangs;
            ToolchainError if the compiler is missing
    """
    _require_plain(source, name, target)
    if toolchain != "private" and compiler == "nvrtc":
        raise ToolchainError(
            f"toolchain {toolchain} offers nvcc only: NVRTC runs in kgen's private toolchain\n"
            "    fix: use compiler nvcc with it"
        )
    flags = _FLAGS[compiler](target, emit, line_info)
    file = f"{name}.{emit}"
    return _from_cache(_Job(source, name, target, emit, compiler, toolchain, flags, file, timeout))


def build_shared_library(
    source: str | Path,
    *,
    name: str,
    target: str,
    toolchain: str = "private",
    timeout: float = TIMEOUT_SECONDS,
) -> Path:
    """Build kernel and host launcher into a shared library and return its path in the cache.

    source is CUDA text, or a Path to read it from. The CUDA runtime is linked statically and
    libcuda not at all: a launcher finds the driver's entry points at run time, so the library
    loads on machines without a driver. Undefined symbols fail here, not at load time.

    Raises  CompileError as compile_source; ToolchainError also if no host C++ compiler is found
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    _require_plain(text, name, target)
    flags = (
        "-shared",
        "-std=c++17",
        "-O3",
        _gencode(target),
        "-Xcompiler=-fPIC",
        "-Xlinker=-z,defs",
        "-Xptxas=-v",
        "--cudart=static",
    )
    job = _Job(text, name, target, "so", "nvcc", toolchain, flags, f"lib{name}.so", timeout)
    return _from_cache(job).path


def disassemble(cubin: Path) -> str:
    """SASS text of a cubin, by the private toolchain's nvdisasm (code sections only).

    Raises  CompileError if the file is no cubin
    """
    tool = locate().nvdisasm
    done = process.run([tool, "-c", cubin], env=process.scrubbed_env(), timeout=TIMEOUT_SECONDS)
    if done.status:
        raise CompileError(f"{cubin}: nvdisasm refuses it: {done.output.strip()}", done.output)
    return done.output


@dataclass(frozen=True)
class _Job:
    source: str
    name: str
    target: str
    kind: str
    compiler: Compiler
    toolchain: str
    flags: tuple[str, ...]
    file: str
    timeout: float

    @property
    def identity(self) -> str:
        """The compiler as cache keys name it; for the private one nothing need be installed."""
        if self.toolchain == "private":
            return lock().identity(self.compiler)
        return nvcc.named(self.toolchain).identity

    @property
    def key(self) -> str:
        return cache.key(
            source=self.source,
            name=self.name,
            target=self.target,
            flags=self.flags,
            emit=self.kind,
            compiler=self.identity,
            # A shared library runs on one kind of host; a cubin or PTX does not care.
            host=platform.machine() if self.kind == "so" else "",
        )


def _from_cache(job: _Job) -> Artifact:
    """The artefact of a job, built first if the cache does not hold it."""
    identity, key = job.identity, job.key
    entry = cache.load(key)
    cached = entry is not None
    if entry is None:
        made = _build(job)
        if not made.ok:
            raise CompileError(_refusal(job, identity, made.log), made.log)
        report = {
            "name": job.name,
            "target": job.target,
            "kind": job.kind,
            "compiler": identity,
            "flags": list(job.flags),
            "seconds": round(made.seconds, 3),
            "resources": [dataclasses.asdict(item) for item in gate.resources(made.log)],
            "notes": list(gate.notes(made.log)),
        }
        log = made.log + _main_loop_notes(job, made.data)
        entry = cache.store(key, job.file, made.data, log, report)
    return Artifact(
        key=key,
        name=job.name,
        target=job.target,
        kind=job.kind,
        path=entry.path,
        # From the log, not the report, so that an old entry meets the gate of today.
        resources=gate.resources(entry.log),
        notes=gate.notes(entry.log),
        log=entry.log,
        compiler=identity,
        seconds=float(entry.report["seconds"]),
        cached=cached,
    )


def _main_loop_notes(job: _Job, data: bytes) -> str:
    """Lines for the gate about fences in a main loop; only the private toolchain can look."""
    if job.kind != "cubin" or job.toolchain != "private":
        return ""
    with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
        cubin = Path(folder, job.file)
        cubin.write_bytes(data)
        return "".join(f"\n{gate.FENCE_NOTE} {x}" for x in sass.fences(disassemble(cubin)))


def _build(job: _Job) -> Compiled:
    if job.compiler == "nvrtc":
        return pool.compile_text(locate(), job.source, job.name, job.flags, job.kind, job.timeout)
    driver = nvcc.private(locate()) if job.toolchain == "private" else nvcc.named(job.toolchain)
    return nvcc.run(driver, job.source, f"{job.name}.cu", job.file, job.flags, job.timeout)


def _nvrtc_flags(target: str, emit: Emit, line_info: bool) -> tuple[str, ...]:
    # A virtual architecture stops after PTX; a real one would run ptxas for nothing.
    arch = target if emit == "cubin" else _virtual(target)
    report = ("--ptxas-options=-v",) if emit == "cubin" else ()
    lines = ("--generate-line-info",) if line_info else ()
    # --no-cache: NVRTC's own cache would hide the ptxas report that kgen stores.
    return (f"--gpu-architecture={arch}", "--std=c++17", "--no-cache", *report, *lines)


def _nvcc_flags(target: str, emit: Emit, line_info: bool) -> tuple[str, ...]:
    arch = _gencode(target) if emit == "cubin" else f"-arch={_virtual(target)}"
    report = ("-Xptxas=-v",) if emit == "cubin" else ()
    lines = ("-lineinfo",) if line_info else ()
    return (f"-{emit}", arch, "-std=c++17", *report, *lines)


_FLAGS = {"nvrtc": _nvrtc_flags, "nvcc": _nvcc_flags}


def _virtual(target: str) -> str:
    return "compute_" + target.removeprefix("sm_")


def _gencode(target: str) -> str:
    return f"-gencode=arch={_virtual(target)},code={target}"


def _require_plain(source: str, name: str, target: str) -> None:
    """Names go into files and command lines; a compiler would read a text up to its first NUL."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise CompileError(f"name {name!r}: not a C identifier of at most 63 characters")
    if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", target):
        raise CompileError(f"target {target!r}: not a real architecture such as sm_90a")
    if re.search("[\0\ud800-\udfff]", source):
        raise CompileError(f"{name}.cu: not plain text: it holds a NUL or half a character")


def _refusal(job: _Job, identity: str, log: str) -> str:
    """Message of a refused source: who refused it, the first errors, and what ptxas points at."""
    errors = [
        line.strip() for line in log.splitlines() if re.search(r"\b(error|fatal|undefined)\b", line)
    ]
    compiler = " ".join(identity.split()[:2])
    lines = [f"{job.name}.cu: {compiler} refuses the source for {job.target}"]
    lines += [f"    {line}" for line in errors[:5] or log.strip().splitlines()[-5:]]
    for finding in gate.check(log):
        spec_field, text = gate.advice(finding)
        lines.append(f"    fix: {spec_field}: {text}")
    return "\n".join(dict.fromkeys(lines))
