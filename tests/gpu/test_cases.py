"""Device halves of the bug reports that kgen promises to handle; each test names its row."""

from __future__ import annotations

import pytest
from device import Loaded, bits

from kgen.verify.device import judge
from kgen.verify.inputs import constant
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.shapes import shape

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("m", [1, 8, 32, 128, 129, 512, 1024, 2048])
def test_c1_no_m_gives_zeros(loaded: Loaded, m: int) -> None:
    a, b, d = loaded.integers(m, 256), loaded.integers(512, 256), loaded.output(m, 512)
    loaded.launch_python(a, b, d)
    assert loaded.torch.equal(d.double(), a.double() @ b.double().t())
    assert (d != 0).any(dim=1).all()


@pytest.mark.parametrize(("m", "n"), [(4194305, 512), (131072, 16384)], ids=["2^31+512", "2^31"])
def test_d1_more_than_two_to_the_31_elements(loaded: Loaded, m: int, n: int) -> None:
    torch, k = loaded.torch, 64
    a, b = loaded.integers(m, k), loaded.integers(n, k)
    d = loaded.output(m, n)
    loaded.launch_python(a, b, d)
    for start in range(0, m, 1 << 19):  # in blocks: the whole reference would not fit
        rows = slice(start, min(m, start + (1 << 19)))
        assert torch.equal(d[rows].float(), a[rows].float() @ b.float().t()), rows
    del d
    torch.cuda.empty_cache()


def test_d1_guarded_stores_beyond_two_to_the_31_elements(loaded: Loaded) -> None:
    """The element-wise store path has index arithmetic of its own."""
    torch, m, n, k, ldd = loaded.torch, 4200, 9, 64, 524289
    a, b = loaded.integers(m, k), loaded.integers(n, k)
    buffer = torch.full((m * ldd,), float("nan"), device="cuda", dtype=loaded.dtype)
    d = buffer.as_strided((m, n), (ldd, 1))
    loaded.launch_python(a, b, d)
    assert torch.equal(d.double(), a.double() @ b.double().t())
    assert int((~torch.isnan(buffer)).sum()) == m * n, "nothing but D was written"
    del buffer, d
    torch.cuda.empty_cache()


def test_d3_more_tile_rows_than_grid_y_allows(loaded: Loaded) -> None:
    m = 65536 * loaded.plan.tile[0] + 1
    a, b, d = loaded.integers(m, 8), loaded.integers(8, 8), loaded.output(m, 8)
    loaded.launch_python(a, b, d)
    assert loaded.torch.equal(d.float(), a.float() @ b.float().t())
    del a, d
    loaded.torch.cuda.empty_cache()


def test_g1_the_limits_of_f16_accumulation(loaded: Loaded) -> None:
    """A = 1, B = 1/16: each MMA adds 1 and the sum is 4096; an f16 accumulator stops at 2048."""
    torch = loaded.torch
    a = torch.ones(128, 65536, device="cuda", dtype=loaded.dtype)
    b = torch.full((128, 65536), 1 / 16, device="cuda", dtype=loaded.dtype)
    d = loaded.output(128, 128)
    loaded.launch_python(a, b, d)
    f16 = loaded.plan.budget.spec.gemm.accumulator == "f16"
    assert (d == (2048 if f16 else 4096)).all()

    a, b = (
        torch.full_like(a[:, :2048], 8).contiguous(),
        torch.full_like(b[:, :2048], 8).contiguous(),
    )
    loaded.launch_python(a, b, d)
    largest = torch.finfo(loaded.dtype).max
    assert (d == (131072 if largest > 131072 else float("inf"))).all()


def test_twenty_runs_are_equal(loaded: Loaded) -> None:
    torch = loaded.torch
    a, b = loaded.integers(2100, 2056), loaded.integers(3352, 2056)
    a.copy_(torch.randn(2100, 2056, device="cuda"))
    b.copy_(torch.randn(3352, 2056, device="cuda"))
    first, again = loaded.output(2100, 3352), loaded.output(2100, 3352)
    loaded.launch_python(a, b, first)
    for _ in range(20):
        again.fill_(float("nan"))
        loaded.launch_python(a, b, again)
        assert torch.equal(bits(first), bits(again))


@pytest.mark.parametrize(
    ("k", "value_a", "value_b", "limits"),
    [
        (65536, 1.0, 1 / 16, {"lost increments"}),
        (2048, 8.0, 8.0, {"accumulator overflow", "output overflow"}),
    ],
    ids=["increments vanish", "overflow"],
)
def test_g1_verify_names_the_limit(
    loaded: Loaded, k: int, value_a: float, value_b: float, limits: set[str]
) -> None:
    """What accumulator or output cannot hold fails, and the report says which limit."""
    import cupy

    numerics = numerics_of(loaded.plan)
    operands = constant(128, 256, k, numerics, value_a, value_b, xp=cupy)
    size = shape(tile_of(loaded.plan), 128, 256, k, "declared limit")
    case = judge(loaded.plan, loaded.kernel, size, operands)
    exact_sum = k * value_a * value_b
    f16_accumulator = numerics.accumulator == "f16"
    if f16_accumulator or (numerics.output == "f16" and exact_sum > 65504):
        assert not case.passed
        assert case.report.declared_limit in limits
    else:
        assert case.passed, case.report
