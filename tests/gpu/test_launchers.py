"""The C launcher and the Python launcher run the same device code: same bits, same refusals."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from device import Loaded, bits

from kgen.errors import LaunchError
from kgen.run import Arguments

pytestmark = pytest.mark.gpu

SHAPES = [
    (256, 256, 64),
    (300, 520, 136),
    (1, 8, 64),
    (129, 257, 4104),
    (4001, 4093, 520),
    (70, 90, 0),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_launchers_give_the_same_bits(loaded: Loaded, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = loaded.torch.randn(m, k, device="cuda"), loaded.torch.randn(n, k, device="cuda")
    a, b = loaded.integers(m, k).copy_(a), loaded.integers(n, k).copy_(b)
    from_python, from_c = loaded.output(m, n), loaded.output(m, n)
    loaded.launch_python(a, b, from_python)
    loaded.launch_c(a, b, from_c)
    assert not loaded.torch.isnan(from_python).any()
    assert loaded.torch.equal(bits(from_python), bits(from_c))


def test_k_zero_writes_zeros_without_looking_at_the_operands(loaded: Loaded) -> None:
    d = loaded.output(70, 96)
    x = Arguments(0, 0, d.data_ptr(), 70, 96, 0, 0, 0, d.stride(0))
    loaded.kernel.prepare(x)()
    loaded.torch.cuda.synchronize()
    assert (bits(d) == 0).all()
    d.fill_(float("nan"))
    assert loaded.library.launch(x) == 0
    loaded.torch.cuda.synchronize()
    assert (bits(d) == 0).all()


@pytest.mark.parametrize("n", range(81, 97))
def test_columns_beyond_n_are_left_alone(loaded: Loaded, n: int) -> None:
    """TMA clips stores in 16-byte units; a ragged N must not spill into the padding of D."""
    m, k, ldd = 70, 64, 104
    a, b, d = loaded.integers(m, k), loaded.integers(n, k), loaded.output(m, ldd, ldd)
    loaded.launch_python(a, b, d[:, :n])
    assert loaded.torch.equal(d[:, :n].double(), a.double() @ b.double().t())
    assert loaded.torch.isnan(d[:, n:]).all()


@pytest.mark.parametrize("k", [1, 7, 8, 9, 57, 63, 64, 65, 100])
def test_padding_of_k_never_reaches_the_sum(loaded: Loaded, k: int) -> None:
    """TMA clips loads element by element; NaN behind the last K element stays out."""
    a, b = loaded.integers(70, k), loaded.integers(96, k)
    d = loaded.output(70, 96)
    loaded.launch_python(a, b, d)
    assert loaded.torch.equal(d.double(), a.double() @ b.double().t())


def test_refusals_agree(loaded: Loaded) -> None:
    """Each broken precondition has its own status, in C and in Python."""
    a, b, d = loaded.integers(64, 64), loaded.integers(64, 64), loaded.output(64, 64)
    good = loaded.arguments(a, b, d)
    cases = {
        "lda_unaligned": {"lda": 65},
        "a_unaligned": {"a": good.a + 2},
        "ldb_too_small": {"ldb": 56},
        "d_unaligned": {"d": good.d + 1},
        "b_null": {"b": 0},
        "k_out_of_range": {"k": -1},
    }
    for name, change in cases.items():
        bad = Arguments(**{**vars(good), **change})
        with pytest.raises(LaunchError) as error:
            loaded.kernel.prepare(bad)
        assert error.value.status == name
        row = next(s for s in loaded.plan.statuses if s.name == name)
        assert loaded.library.launch(bad) == row.value
    single_row = Arguments(**{**vars(good), "m": 1, "lda": 65})
    assert loaded.library.launch(single_row) == 0, "lda of a single row is ignored"
    loaded.kernel.prepare(single_row)()
    loaded.torch.cuda.synchronize()


def test_host_memory_is_refused_as_d(loaded: Loaded) -> None:
    a, b = loaded.integers(64, 64), loaded.integers(64, 64)
    host = loaded.torch.zeros(64, 64, dtype=loaded.dtype)
    status = loaded.library.launch(loaded.arguments(a, b, host))
    names = {s.value: s.name for s in loaded.plan.statuses}
    assert names[status] == "d_not_on_device"


FIRST_CALL = """
    import sys, torch
    from pathlib import Path
    from kgen.run import Arguments, SharedLibrary
    name, path, dtype = sys.argv[1], Path(sys.argv[2]), getattr(torch, sys.argv[3])
    library = SharedLibrary(name, path)
    a = torch.randint(-2, 3, (300, 200), device="cuda").to(dtype)
    b = torch.randint(-2, 3, (264, 200), device="cuda").to(dtype)
    d = torch.full((300, 264), float("nan"), device="cuda", dtype=dtype)
    x = Arguments(a.data_ptr(), b.data_ptr(), d.data_ptr(), 300, 264, 200, 200, 200, 264)
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
        assert torch.equal(d.double(), a.double() @ b.double().t())
    print("replayed")
"""


def test_first_call_of_a_process_may_be_captured(loaded: Loaded) -> None:
    """By the C launcher: no init, capture in global mode, two replays on new data."""
    dtype = str(loaded.dtype).removeprefix("torch.")
    script = textwrap.dedent(FIRST_CALL)
    command = [sys.executable, "-c", script, loaded.plan.name, str(loaded.library_path), dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "replayed\n", done.stderr


def test_d_may_be_allocated_inside_the_capture(loaded: Loaded) -> None:
    """Memory that the captured graph itself allocates has no attributes yet."""
    import cupy

    a, b, d = loaded.integers(300, 200), loaded.integers(264, 200), loaded.output(300, 264)
    runtime, stream = cupy.cuda.runtime, cupy.cuda.Stream(non_blocking=True)
    loaded.torch.cuda.synchronize()
    size = 300 * 264 * 2
    with stream:
        stream.begin_capture()
        temporary = runtime.mallocAsync(size, stream.ptr)
        x = Arguments(**{**vars(loaded.arguments(a, b, d)), "d": temporary})
        status = loaded.library.launch(x, stream.ptr)
        runtime.memcpyAsync(d.data_ptr(), temporary, size, 3, stream.ptr)
        runtime.freeAsync(temporary, stream.ptr)
        graph = stream.end_capture()
    assert loaded.library.status_string(status) == "success"
    graph.launch(stream)
    stream.synchronize()
    assert loaded.torch.equal(d.double(), a.double() @ b.double().t())


def test_any_stream(loaded: Loaded) -> None:
    """The launch is ordered on the stream that it is given, not on the default one."""
    torch = loaded.torch
    a, b, d = loaded.integers(512, 4096), loaded.integers(512, 4096), loaded.output(512, 512)
    new_a, new_b = loaded.integers(512, 4096), loaded.integers(512, 4096)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # the operands change long after the launch was enqueued
        a.copy_(new_a)
        b.copy_(new_b)
        assert loaded.library.launch(loaded.arguments(a, b, d), stream.cuda_stream) == 0
    stream.synchronize()
    want = (new_a.float() @ new_b.float().t()).to(loaded.dtype)
    assert torch.equal(d, want)


def test_another_device_may_be_current(loaded: Loaded) -> None:
    """d decides the device; the caller's current device is restored."""
    torch = loaded.torch
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs: there is one")
    with torch.cuda.device(1):
        a, b, d = loaded.integers(300, 200), loaded.integers(264, 200), loaded.output(300, 264)
        stream = torch.cuda.current_stream().cuda_stream
        x = loaded.arguments(a, b, d)
        torch.cuda.synchronize()
    torch.cuda.set_device(0)
    assert loaded.library.launch(x, stream) == 0
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(1)
    assert torch.equal(d.double(), a.double() @ b.double().t())
