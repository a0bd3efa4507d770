"""Device halves of the bug reports about rings, resident grids, workspaces and overlapped launches.

The kernels are those of tests/persistent.py; each test names its row.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from device import Loaded, bits, load_plan
from persistent import on_device

from kgen.errors import DeviceError

pytestmark = pytest.mark.gpu

CUT = (67 * 256, 256, 8192)
"""M, N, K: one cluster tile more than the clusters of two CTAs on an H200; tiles are cut."""


@cache
def kernel(name: str) -> Loaded:
    try:
        return load_plan(on_device()[name])
    except DeviceError as error:
        pytest.skip(str(error))


def same_product(loaded: Loaded, a: Any, b: Any, d: Any) -> bool:
    """D holds the product of integers, rounded once."""
    return loaded.torch.equal(d, (a.double() @ b.double().t()).to(loaded.dtype))


@pytest.fixture(autouse=True)
def free_memory(gpu: None) -> Iterator[None]:
    yield
    import torch

    torch.cuda.empty_cache()


@pytest.mark.parametrize("k", [4 * 64 + 8, 8 * 64 + 40, 4 * 64 - 8, 4 * 64])
def test_a1_tails_where_k_tiles_end_with_the_ring(k: int) -> None:
    loaded = kernel("a1_four_stages")
    for m, n in ((128, 256), (2100, 3352)):
        a, b, d = loaded.integers(m, k), loaded.integers(n, k), loaded.output(m, n)
        loaded.launch_python(a, b, d)
        assert same_product(loaded, a, b, d)


@pytest.mark.parametrize("k_tiles", [1, 4, 5, 7])
@pytest.mark.parametrize("name", ["a3_deferred", "a3_at_once"])
def test_a3_several_tiles_a_cta_are_those_of_one_tile_a_cta(name: str, k_tiles: int) -> None:
    """Buffers of D are used again and again: 50 runs, equal, and equal to a CTA for each tile."""
    resident, single, torch = kernel(name), kernel("a3_not_resident"), kernel(name).torch
    m, n, k = 16384, 2048, k_tiles * 64
    a, b = resident.integers(m, k), resident.integers(n, k)
    a.copy_(torch.randn(m, k, device="cuda"))
    b.copy_(torch.randn(n, k, device="cuda"))
    want, d = resident.output(m, n), resident.output(m, n)
    single.launch_python(a, b, want)
    assert not torch.isnan(want).any()
    launch = resident.kernel.prepare(resident.arguments(a, b, d))
    for _ in range(50):
        d.fill_(float("nan"))
        torch.cuda.synchronize()
        launch()
        torch.cuda.synchronize()
        assert torch.equal(bits(d), bits(want))


@pytest.mark.parametrize("n", [8192, 12288])
@pytest.mark.parametrize("name", ["a3_deferred", "a6_four_ctas", "a6_no_producer"])
def test_a5_few_rows_and_many_columns(name: str, n: int) -> None:
    loaded = kernel(name)
    a, b, d = loaded.integers(8, 8192), loaded.integers(n, 8192), loaded.output(8, n)
    loaded.launch_python(a, b, d)
    assert same_product(loaded, a, b, d)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("a6_four_ctas", (8, 8192, 8192)), ("a6_no_producer", (80 * 256, 192, 8192))],
)
def test_a6_a_thousand_launches_on_one_workspace(name: str, shape: tuple[int, int, int]) -> None:
    """Tiles are cut, and nobody touches the workspace between the launches, through both ways."""
    loaded, (m, n, k) = kernel(name), shape
    torch = loaded.torch
    a, b, d = loaded.integers(m, k), loaded.integers(n, k), loaded.output(m, n)
    size = loaded.library.workspace_bytes(m, n, k)
    grid = loaded.kernel.grid(loaded.arguments(a, b, d))
    assert grid.share > 0, "the shape is cut"
    assert size == grid.workspace_bytes
    launch = loaded.kernel.prepare(loaded.arguments(a, b, d))
    launch()
    torch.cuda.synchronize()
    assert same_product(loaded, a, b, d)
    want, wrong = d.clone(), torch.zeros((), dtype=torch.int64, device="cuda")
    workspace = torch.zeros(size, dtype=torch.uint8, device="cuda")
    for i in range(1000):
        d.fill_(float("nan"))
        torch.cuda.synchronize()
        if i % 2:
            loaded.launch_c(a, b, d, workspace)
        else:
            launch()
            torch.cuda.synchronize()
        wrong += (bits(d) != bits(want)).sum()
    assert int(wrong) == 0
    flags = workspace[: grid.flag_bytes]
    assert int(flags.count_nonzero()) == 0, "every flag is down again"


FIRST_CALL = """
    import sys, torch
    from dataclasses import replace
    from pathlib import Path
    from kgen.run import Arguments, SharedLibrary
    name, path, m, n, k, size = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    library = SharedLibrary(name, path)
    a = torch.randint(-2, 3, (m, k), device="cuda").bfloat16()
    b = torch.randint(-2, 3, (n, k), device="cuda").bfloat16()
    d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    workspace = torch.zeros(size, dtype=torch.uint8, device="cuda")
    x = Arguments(a.data_ptr(), b.data_ptr(), d.data_ptr(), m, n, k, k, k, n)
    x = replace(x, workspace=workspace.data_ptr())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        status = library.launch(x, torch.cuda.current_stream().cuda_stream)
    assert status == 0, (library.status_string(status), library.last_error())
    for _ in range(2):
        a.copy_(torch.randint(-2, 3, a.shape, device="cuda"))
        b.copy_(torch.randint(-2, 3, b.shape, device="cuda"))
        d.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(d, (a.double() @ b.double().t()).bfloat16())
    print("replayed")
"""


@pytest.mark.parametrize("name", ["a6_no_producer", "i3_overlaps"])
def test_i1_first_call_of_a_process_may_be_captured(name: str) -> None:
    """No init, capture in global mode, two replays on new data; cut tiles, or an overlapped one."""
    loaded = kernel(name)
    m, n, k = (80 * 256, 192, 8192) if name == "a6_no_producer" else CUT
    size = loaded.library.workspace_bytes(m, n, k)
    assert (size > 0) == loaded.plan.cuts_tiles
    script, numbers = textwrap.dedent(FIRST_CALL), map(str, (m, n, k, size))
    command = [sys.executable, "-c", script, loaded.plan.name, str(loaded.library_path), *numbers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "replayed\n", done.stderr


def test_i1_cut_tiles_without_a_workspace_are_refused() -> None:
    loaded = kernel("a6_four_ctas")
    a, b, d = loaded.integers(8, 8192), loaded.integers(8192, 8192), loaded.output(8, 8192)
    status = loaded.library.launch(loaded.arguments(a, b, d))
    assert next(s.name for s in loaded.plan.statuses if s.value == status) == "workspace_unusable"
    assert loaded.torch.isnan(d).all()


@pytest.mark.parametrize("through", ["python", "c"])
def test_i3_a_launch_that_overlaps_waits_for_the_operands_of_the_one_before(through: str) -> None:
    """1000 launches, each reading what the one before wrote: columns move one to the left."""
    loaded = kernel("i3_overlaps")
    torch, size = loaded.torch, 1024
    x = loaded.integers(size, size)
    b = torch.roll(torch.eye(size, device="cuda"), 1, dims=1).to(loaded.dtype)
    first, buffers = x.clone(), [x, loaded.output(size, size)]
    steps = [loaded.arguments(buffers[i], b, buffers[1 - i]) for i in range(2)]
    launches = [loaded.kernel.prepare(step) for step in steps]
    stream = torch.cuda.current_stream().cuda_stream
    torch.cuda.synchronize()
    for i in range(1000):
        if through == "python":
            launches[i % 2]()
        else:
            assert loaded.library.launch(steps[i % 2], stream) == 0
    torch.cuda.synchronize()
    assert torch.equal(buffers[0], torch.roll(first, -1000, dims=1))


def test_i3_operands_written_late_by_another_kernel() -> None:
    loaded = kernel("i3_overlaps")
    torch = loaded.torch
    a, b, d = loaded.integers(512, 512), loaded.integers(512, 512), loaded.output(512, 512)
    sources = [loaded.integers(512, 512) for _ in range(2)]
    wanted = [(s.double() @ b.double().t()).to(loaded.dtype) for s in sources]
    launch = loaded.kernel.prepare(loaded.arguments(a, b, d))
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    import cupy

    stream = torch.cuda.current_stream()
    with cupy.cuda.Stream.from_external(stream):
        for i in range(1000):
            torch.cuda._sleep(20_000)
            a.copy_(sources[i % 2])
            launch()
            wrong += (d != wanted[i % 2]).sum()
    torch.cuda.synchronize()
    assert int(wrong) == 0
