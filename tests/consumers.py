"""Builds the projects of examples/consumer in a scratch folder, with one nvcc and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from kgen.build.process import scrubbed_env
from kgen.sweep.child import death_of

REPOSITORY = Path(__file__).resolve().parents[1]
CONSUMERS = REPOSITORY / "examples" / "consumer"
LONGEST_SECONDS = 500.0


def build(
    command: Sequence[str | Path], cwd: Path, nvcc: Path, extra: dict[str, str] | None = None
) -> str:
    """Output of a build step. Its environment names this nvcc, no toolkit and no host compiler."""
    environment = scrubbed_env()
    # A compiler that these name may link libstdc++ statically. An extension that is built so
    # has a second one beside torch's, and crashes where it formats a number in an error.
    for name in ("CC", "CXX"):
        environment.pop(name, None)
    return _output(command, cwd, environment | {"NVCC": str(nvcc), "MAX_JOBS": "2"} | (extra or {}))


def run(command: Sequence[str | Path], cwd: Path, extra: dict[str, str] | None = None) -> str:
    """Output of something that was built, in the environment of these tests."""
    return _output(command, cwd, {**os.environ, **(extra or {})})


def _output(command: Sequence[str | Path], cwd: Path, environment: dict[str, str]) -> str:
    """What a command printed. A command that fails, dies or hangs is shown with all of it."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={"PYTHONFAULTHANDLER": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        printed = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        raise AssertionError(f"{words} did not end in {late.timeout:g} s\n{printed}") from None
    ended = f"{words} ended by {death_of(done.returncode)}\n{done.stdout}"
    assert done.returncode == 0, ended
    return done.stdout


def copy(name: str, scratch: Path) -> Path:
    """A copy of one example, to build in."""
    return Path(shutil.copytree(CONSUMERS / name, scratch / name))


def build_cmake(scratch: Path, nvcc: Path, extra: dict[str, str] | None = None) -> Path:
    """The CMake project, built; returns its build folder."""
    source, built = copy("cmake", scratch), scratch / "build"
    configure = ["cmake", "-S", source, "-B", built, f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    build(configure, scratch, nvcc, extra)
    build(["cmake", "--build", built, "--parallel", "2"], scratch, nvcc, extra)
    return built


def build_program(scratch: Path, nvcc: Path) -> Path:
    """The CMake project's program without CMake: the loader's `build`, then one nvcc command."""
    source = copy("cmake", scratch)
    make = "import gemm, sys; gemm.build(sys.argv[1])"
    build([sys.executable, "-c", make, scratch], source / "kernels", nvcc)
    program = scratch / "test_gemm"
    command = [nvcc, "-std=c++17", "-Ikernels", "test_gemm.cu", "-o", program, f"-L{scratch}"]
    build([*command, "-lgemm", f"-Xlinker=-rpath={scratch}"], source, nvcc)
    return program


def build_torch(scratch: Path, nvcc: Path, extra: dict[str, str] | None = None) -> Path:
    """The torch extension project, built; returns the folder to import it from."""
    source, built = copy("torch", scratch), scratch / "built"
    # torch itself may be found through these; a compiler is not.
    paths = {x: os.environ[x] for x in ("LD_LIBRARY_PATH", "PYTHONPATH") if x in os.environ}
    build(
        [sys.executable, "setup.py", "-q", "build", "--build-lib", built],
        source,
        nvcc,
        {**paths, **(extra or {})},
    )
    return built


def build_operators(folder: Path, sources: Sequence[str], library: Path, *flags: str) -> None:
    """Torch operators of a shipped folder as a library for torch.ops.load_library."""
    from torch.utils import cpp_extension

    paths = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", *(f"-isystem{path}" for path in paths)]
    command += [*sources, "-o", str(library), *flags]
    command += [f"-L{path}" for path in cpp_extension.library_paths()]
    run([*command, "-ltorch", "-ltorch_cpu", "-lc10"], folder)


def run_torch_tests(scratch: Path, built: Path) -> str:
    """Output of the torch project's own tests."""
    own = [path for path in sys.path if path and not Path(path).is_relative_to(REPOSITORY)]
    own += [path for path in sys.path if path.endswith("site-packages")]
    paths = os.pathsep.join([str(built), *dict.fromkeys(own)])
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests"]
    return run(command, scratch / "torch", {"PYTHONPATH": paths})
