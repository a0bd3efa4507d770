"""Both example projects built and run on a GPU, and the Python loader with cupy and torch.

nvcc is that of KGEN_TEST_NVCC, else that of kgen's private toolchain; a machine that has only a
toolkit of its own names it, so that none is found by accident.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import types
from pathlib import Path

import consumers
import pytest

from kgen.build.toolchain import locate
from kgen.errors import ToolchainError

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def nvcc() -> Path:
    """The one nvcc of these tests."""
    named = os.environ.get("KGEN_TEST_NVCC")
    if named:
        assert Path(named).is_file(), f"KGEN_TEST_NVCC: {named} is no file"
        return Path(named)
    try:
        return locate().nvcc
    except ToolchainError:
        pytest.skip("no nvcc: run kgen toolchain install, or name one with KGEN_TEST_NVCC")


@pytest.fixture
def hopper(gpu: None) -> None:
    """A GPU that runs the examples' kernels."""
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip(f"{torch.cuda.get_device_name()} is not of compute capability 9.0")


def test_the_cmake_project(hopper: None, nvcc: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on PATH; its program is tested without")
    build = consumers.build_cmake(tmp_path, nvcc)
    out = consumers.run(["ctest", "--test-dir", build, "-V"], tmp_path)
    assert "100% tests passed" in out and "Skipped" not in out, out
    assert "hopper_v6: 300 x 520 x 136 is right" in out


def test_the_program_of_the_cmake_project(hopper: None, nvcc: Path, tmp_path: Path) -> None:
    program = consumers.build_program(tmp_path, nvcc)
    for name in ("dispatch", "refusals", "multiply"):
        out = consumers.run([program, name], tmp_path)
    assert "hopper_f16_f32acc: 257 x 264 x 200 is right" in out


def test_the_torch_project(hopper: None, nvcc: Path, tmp_path: Path) -> None:
    """Its own tests, among them the first call of a process inside a captured graph."""
    built = consumers.build_torch(tmp_path, nvcc)
    out = consumers.run_torch_tests(tmp_path, built)
    assert re.search(r"\d+ passed", out) and "skipped" not in out, out


# --- the Python loader ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library_path(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels of the torch example as one shared library, built by its own loader."""
    folder = tmp_path_factory.mktemp("library")
    make = "import gemm, sys; gemm.build(sys.argv[1])"
    kernels = consumers.CONSUMERS / "torch" / "kernels"
    consumers.build([sys.executable, "-B", "-c", make, folder], kernels, nvcc)
    return folder / "libgemm.so"


@pytest.fixture(scope="module")
def loader() -> types.ModuleType:
    """The shipped gemm.py of the torch example."""
    path = consumers.CONSUMERS / "torch" / "kernels" / "gemm.py"
    found = importlib.util.spec_from_file_location("gemm", path)
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_cupy_arrays_on_a_cupy_stream(
    hopper: None, loader: types.ModuleType, library_path: Path
) -> None:
    import cupy

    library = loader.Library(library_path)
    for name in ("hopper_v6", "sm_90a_f16_f32acc"):
        a, b = (cupy.random.randint(-2, 3, (rows, 136)).astype("f2") for rows in (300, 520))
        d = cupy.full((300, 520), cupy.nan, "f2")
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        library.launch(name, a, b, d, stream)
        stream.synchronize()
        assert (d == (a.astype("f8") @ b.astype("f8").T).astype("f2")).all()


def test_torch_tensors_and_raw_addresses(
    hopper: None, loader: types.ModuleType, library_path: Path
) -> None:
    import torch

    library = loader.Library(library_path)
    library.init("hopper_bf16_f32acc")
    a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").bfloat16() for rows in (300, 520))
    want = (a.double() @ b.double().t()).bfloat16()
    stream = torch.cuda.current_stream()
    for view in (lambda x: x, loader.matrix):
        d = torch.full((300, 520), float("nan"), device="cuda", dtype=torch.bfloat16)
        library.launch("sm_90a_bf16_f32acc", view(a), view(b), view(d), stream)
        torch.cuda.synchronize()
        assert torch.equal(d, want)
    odd = torch.zeros(300, 137, device="cuda").bfloat16()[:, :136]
    with pytest.raises(loader.LaunchError, match="lda must be a multiple of 8"):
        library.launch("hopper_bf16_f32acc", odd, b, d, stream)


SWEPT = consumers.REPOSITORY / "benchmarks" / "hopper_fast" / "kernels"

USED_MEMORY = """
import sys, torch
kernels, built = sys.argv[1:]
sys.path.insert(0, kernels)
import gemm
torch.ops.load_library(f"{built}/operators.so")
library = gemm.Library(f"{built}/libgemm.so")
m, n, k = 17152, 256, 8192
a, b = (torch.randint(-1, 2, (rows, k), device="cuda").bfloat16() for rows in (m, n))
want = (a.float() @ b.float().t()).bfloat16()
cut = 0
for name in gemm.KERNELS:
    size = library.workspace_bytes(name, m, n, k)
    cut += size > 0
    for _ in range(20):
        if size:
            torch.full((size,), 255, dtype=torch.uint8, device="cuda")  # freed, and taken again
        assert torch.equal(getattr(torch.ops.gemm, name)(a, b), want), name
print(cut, "cut tiles")
"""


def test_operators_that_cut_tiles_take_memory_as_it_comes(
    hopper: None, nvcc: Path, tmp_path: Path
) -> None:
    """They zero the flags of a workspace and nothing else, here where every byte was 0xFF."""
    make = "import gemm, sys; gemm.build(sys.argv[1])"
    consumers.build([sys.executable, "-B", "-c", make, tmp_path], SWEPT, nvcc)
    flags = (f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-lgemm")
    consumers.build_operators(SWEPT, ["gemm_torch.cpp"], tmp_path / "operators.so", *flags)
    out = consumers.run([sys.executable, "-B", "-c", USED_MEMORY, SWEPT, tmp_path], tmp_path)
    cut = re.match(r"(\d+) cut tiles", out.splitlines()[-1])
    assert cut and int(cut[1]) > 0, out


FIRST_CALL = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import gemm
library = gemm.Library(sys.argv[2])
a = torch.randint(-2, 3, (300, 200), device="cuda").half()
b = torch.randint(-2, 3, (264, 200), device="cuda").half()
d = torch.full((300, 264), float("nan"), device="cuda", dtype=torch.half)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    library.launch("sm_90a_f16_f32acc", a, b, d, torch.cuda.current_stream())
for _ in range(2):
    a.copy_(torch.randint(-2, 3, a.shape, device="cuda"))
    b.copy_(torch.randint(-2, 3, b.shape, device="cuda"))
    d.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(d, (a.double() @ b.double().t()).half())
print("replayed")
"""


def test_the_first_call_through_the_loader_may_be_captured(
    hopper: None, library_path: Path
) -> None:
    """By the Python loader, through a dispatch table: no init, two replays on new data."""
    kernels = consumers.CONSUMERS / "torch" / "kernels"
    command = [sys.executable, "-B", "-c", FIRST_CALL, kernels, library_path]
    assert consumers.run(command, kernels).splitlines()[-1] == "replayed"
