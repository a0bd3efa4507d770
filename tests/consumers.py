"""Builds the projects of examples/consumer in a scratch folder, with one nvcc and no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kgen.build.process import scrubbed_env

CONSUMERS = Path(__file__).resolve().parents[1] / "examples" / "consumer"
MINUTES = 60.0


def run(
    command: list[str | Path], cwd: Path, nvcc: Path, extra: dict[str, str] | None = None
) -> str:
    """Output of a command that must succeed. Its environment names this nvcc and no toolkit."""
    environment = scrubbed_env({"NVCC": str(nvcc), "MAX_JOBS": "2", **(extra or {})})
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=9 * MINUTES,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def copy(name: str, scratch: Path) -> Path:
    """A copy of one example, to build in."""
    return Path(shutil.copytree(CONSUMERS / name, scratch / name))


def build_cmake(scratch: Path, nvcc: Path, extra: dict[str, str] | None = None) -> Path:
    """The CMake project, built; returns its build folder."""
    source, build = copy("cmake", scratch), scratch / "build"
    configure = ["cmake", "-S", source, "-B", build, f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    configure += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    run(configure, scratch, nvcc, extra)
    run(["cmake", "--build", build, "--parallel", "2"], scratch, nvcc, extra)
    return build


def build_program(scratch: Path, nvcc: Path) -> Path:
    """The CMake project's program without CMake: the loader's `build`, then one nvcc command."""
    source = copy("cmake", scratch)
    make = "import gemm, sys; gemm.build(sys.argv[1])"
    run([sys.executable, "-c", make, scratch], source / "kernels", nvcc)
    program = scratch / "test_gemm"
    command = [nvcc, "-std=c++17", "-Ikernels", "test_gemm.cu", "-o", program, f"-L{scratch}"]
    run([*command, "-lgemm", f"-Xlinker=-rpath={scratch}"], source, nvcc)
    return program


def build_torch(scratch: Path, nvcc: Path, extra: dict[str, str] | None = None) -> Path:
    """The torch extension project, built; returns the folder to import it from."""
    source, built = copy("torch", scratch), scratch / "built"
    run([sys.executable, "setup.py", "-q", "build", "--build-lib", built], source, nvcc, extra)
    return built


def run_torch_tests(scratch: Path, built: Path, nvcc: Path) -> str:
    """Output of the torch project's own tests."""
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "tests"]
    paths = os.pathsep.join([str(built), *(p for p in sys.path if p.endswith("site-packages"))])
    return run(command, scratch / "torch", nvcc, {"PYTHONPATH": paths})
