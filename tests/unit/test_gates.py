"""The gates: right outputs pass, every broken one fails, and the cause is named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from kgen.emu import tensor_core
from kgen.errors import VerifyError
from kgen.verify import causes, inputs
from kgen.verify.buffers import place, place_operand, place_output
from kgen.verify.check import check, error_figures, make_reference
from kgen.verify.gates import (
    bound_gate,
    exact_gate,
    guard_gate,
    repeat_gate,
    statistical_gate,
    unwritten_gate,
)
from kgen.verify.numbers import (
    Numerics,
    from_float32,
    to_float32,
)
from kgen.verify.reference import reference
from kgen.verify.simulate import Defect, accumulate, simulated_kernel, with_defect

F16_F16 = Numerics("f16", "f16", "f16", "f16", 256, 256, 64, 64)
F16_F32 = Numerics("f16", "f16", "f32", "f16", 128, 256, 64, 64)
BF16_F32 = Numerics("bf16", "bf16", "f32", "bf16", 128, 256, 64, 64)
ALL = pytest.mark.parametrize(
    "numerics", [F16_F16, F16_F32, BF16_F32], ids=["f16_f16", "f16_f32", "bf16_f32"]
)
KINDS = pytest.mark.parametrize("kind", ["exact", "normal", "unit_variance"])
LARGE_K, SIDE = 8192, 512


def four_tiles(numerics: Numerics) -> Numerics:
    """The same arithmetic on 128 x 128 tiles, for the long simulations of 256 x 256 outputs."""
    return replace(numerics, tile_m=128, tile_n=128)


# --- fast accumulation of fp8


def fp8_kernel(a: np.ndarray, b: np.ndarray, numerics: Numerics) -> np.ndarray:
    """What Hopper's tensor cores make of fp8, by the emulator's adder; D in raw storage."""
    types = (numerics.a, numerics.b)
    left, right = to_float32(a, types[0]), to_float32(b, types[1])
    total = None
    for start in range(0, a.shape[1], numerics.mma_k):
        k = slice(start, start + numerics.mma_k)
        total = tensor_core.accumulate(
            total, left[:, k], right[:, k], "f32", types, tensor_core.FP8_ADDER
        )
    assert total is not None
    return from_float32(total, numerics.output)


FP8 = [Numerics(a, b, "f32", d, 64, 32, 128, 32, mma_k=32) for a, b, d in (
    ("e4m3", "e4m3", "bf16"), ("e4m3", "e5m2", "f32"), ("e5m2", "e5m2", "f16"))]  # fmt: skip


@pytest.mark.parametrize("numerics", FP8, ids=["e4m3", "mixed", "e5m2"])
@pytest.mark.parametrize("kind", ["exact", "normal", "unit_variance"])
@pytest.mark.parametrize(("m", "n", "k"), [(70, 40, 1536), (1, 1, 32), (3, 2, 16), (8, 8, 128)])
def test_fast_accumulation_passes_and_a_lost_k_tile_does_not(
    numerics: Numerics, kind: str, m: int, n: int, k: int
) -> None:
    """The gate knows what the sums lose, and nothing else may be lost."""
    for seed in range(6):
        operands = inputs.GENERATORS[kind](m, n, k, numerics, seed=seed)
        got = fp8_kernel(operands.a, operands.b, numerics)
        assert check(got, operands, numerics).passed
        lost = operands.a.copy()
        lost[:, :128] = 0
        if operands.a[:, :128].any() and m > 4:
            assert not check(fp8_kernel(lost, operands.b, numerics), operands, numerics).passed


def test_fast_accumulation_is_less_exact_than_the_f32_it_is_stored_in() -> None:
    """What makes the gate of f32 sums useless here: the figures of the two differ a lot."""
    numerics = replace(FP8[0], output="f32")
    operands = inputs.normal(64, 64, 2048, numerics, seed=1)
    report = check(fp8_kernel(operands.a, operands.b, numerics), operands, numerics)
    exact = check(accumulate(operands.a, operands.b, numerics), operands, numerics)
    ratios = [r.results[-1].figures["worst_rms_ratio"] for r in (report, exact)]
    assert 0.3 < ratios[0] < 1.0
    assert ratios[1] < 0.01


# --- integers


def test_one_wrong_unit_of_a_large_integer_fails() -> None:
    """Sums past 2**24, where float32 would not see it."""
    numerics = Numerics("s8", "s8", "s32", "s32", 64, 32, 128, 32, mma_k=32)
    random = inputs.full_range(70, 40, 8192, numerics, seed=3)
    operands = replace(random, a=np.abs(random.a), b=np.abs(random.b))
    got = accumulate(operands.a, operands.b, numerics).astype("int32")
    assert np.abs(got).max() > 1 << 24
    assert check(got, operands, numerics).passed
    row, col = np.unravel_index(np.abs(got).argmax(), got.shape)
    got[row, col] += 1
    report = check(got, operands, numerics)
    assert not report.passed
    assert report.results[-1].failed == 1


# --- gates on right and broken kernels


class Case:
    """One problem with a right output; computed once per process because K = 8192 takes seconds."""

    _made: ClassVar[dict] = {}

    def __init__(self, numerics: Numerics, kind: str, m: int, n: int, k: int) -> None:
        self.numerics = numerics
        self.operands = inputs.GENERATORS[kind](m, n, k, numerics, seed=7)
        self.ref = make_reference(self.operands, numerics)
        self.right = simulated_kernel(self.operands.a, self.operands.b, numerics)

    @classmethod
    def of(cls, *key) -> Case:
        """The case for these arguments."""
        if key not in cls._made:
            cls._made[key] = cls(*key)
        return cls._made[key]

    def broken(self, defect: Defect) -> np.ndarray:
        """The output with one defect."""
        if defect is Defect.DROPPED_K_TILE:
            return simulated_kernel(self.operands.a, self.operands.b, self.numerics, defect)
        return with_defect(self.right, self.numerics, defect)

    def check(self, got: np.ndarray):
        """The verdict on an output of this problem."""
        return check(got, self.operands, self.numerics, self.ref)


EXPECTED_CAUSE = {
    Defect.DROPPED_K_TILE: "K tile 1 (k 64 to 127) is missing",
    Defect.SWAPPED_TILES: "holds the values of tile (0,",
    Defect.ZERO_TILE: "tile (0,0) holds zeros",
    Defect.UNWRITTEN_TILE: "tile (0,0) was never written",
    Defect.UNWRITTEN_SLAB: "only slab 0 (rows 0 to 63) of tile (0,0) was not written",
    Defect.REPEATED_SLAB: "only slab 0 (rows 0 to 63) of tile (0,0) is wrong",
}


@ALL
@KINDS
@pytest.mark.parametrize("k", [256, LARGE_K])
def test_gates_accept_the_right_kernel_and_refuse_every_broken_one(
    numerics: Numerics, kind: str, k: int
) -> None:
    """The self-test of the gates: a verifier that passes any of these is worthless."""
    side = SIDE
    if k == LARGE_K:
        if kind == "normal":
            kind = "unit_variance"  # the same problem but for its scale, and simulated already
        numerics, side = four_tiles(numerics), 256
    case = Case.of(numerics, kind, side, side, k)
    report = case.check(case.right)
    assert report.passed, report
    assert report.cause == ""
    for defect in Defect:
        report = case.check(case.broken(defect))
        assert not report.results[-1].passed, f"{defect.value}: the value gate passed"
        assert EXPECTED_CAUSE[defect] in report.cause, f"{defect.value}: {report}"
        assert report.declared_limit == "", defect.value
        assert report.results[0].passed == (
            defect not in (Defect.UNWRITTEN_TILE, Defect.UNWRITTEN_SLAB)
        )


@ALL
@KINDS
def test_gates_see_a_single_wrong_element(numerics: Numerics, kind: str) -> None:
    """One element off by one deviation of the outputs, somewhere in a right result."""
    case = Case.of(numerics, kind, SIDE, SIDE, 256)
    got = case.right.copy()
    wrong = to_float32(got[300:301, 400], numerics.output) + np.float32(case.ref.product.std())
    got[300, 400] = from_float32(np.round(wrong) if kind == "exact" else wrong, numerics.output)[0]
    result = case.check(got).results[-1]
    assert not result.passed and result.failed == 1
    assert result.worst is not None and (result.worst.row, result.worst.col) == (300, 400)
    assert result.tile is not None
    assert (result.tile.row, result.tile.col) == (300 // numerics.tile_m, 400 // numerics.tile_n)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@ALL
def test_non_finite_elements_fail(numerics: Numerics, value: float) -> None:
    """NaN compares false with everything, so it has its own gate; no other gate may pass it."""
    case = Case.of(numerics, "normal", SIDE, SIDE, 256)
    got = case.right.copy()
    got[1, 2] = from_float32(np.array([value], "float32"), numerics.output)[0]
    unwritten, finite, accuracy = case.check(got).results
    assert unwritten.passed and not finite.passed and not accuracy.passed
    assert finite.failed == 1 and finite.worst is not None
    assert (finite.worst.row, finite.worst.col) == (1, 2)


@pytest.mark.parametrize("k", [1024, 7168, 16384])
@pytest.mark.parametrize("numerics", [F16_F32, BF16_F32], ids=["f16", "bf16"])
@pytest.mark.parametrize("signs", ["normal", "positive"])
def test_element_bound_grows_with_k(numerics: Numerics, k: int, signs: str) -> None:
    """Accumulation toward zero passes at every K, a kernel without one K tile never does."""
    numerics = replace(numerics, tile_m=32, tile_n=32, slab_m=16)
    operands = inputs.normal(64, 64, k, numerics, seed=k)
    if signs == "positive":
        a, b = (
            from_float32(np.abs(to_float32(x, numerics.a)), numerics.a)
            for x in (operands.a, operands.b)
        )
        operands = inputs.Operands(a, b, "normal", "magnitudes of normal numbers")
    ref = make_reference(operands, numerics)
    right = accumulate(operands.a, operands.b, numerics, truncate=True)
    # Also straight from the accumulator, where the output's own rounding hides nothing.
    for output in (numerics.output, "f32"):
        made = replace(numerics, output=output)
        assert bound_gate(from_float32(right, output), ref, operands, made).passed
    broken = simulated_kernel(operands.a, operands.b, numerics, Defect.DROPPED_K_TILE)
    result = bound_gate(broken, ref, operands, numerics)
    assert not result.passed
    named = "K tile 1 (k 64 to 127) is missing from the sums"
    # Among positive sums the output's rounding may hide which tile it was; no other may be named.
    assert result.cause == named or (signs == "positive" and result.cause == "")


def test_element_bound_follows_each_element() -> None:
    """A row of small numbers has a small bound, whatever stands in the rows beside it."""
    numerics = replace(F16_F32, output="f32")
    operands = inputs.normal(8, 8, 256, numerics)
    operands.a[3] *= np.float16(2**-8)
    ref = make_reference(operands, numerics)
    got = accumulate(operands.a, operands.b, numerics)
    assert ref.magnitude is not None and bound_gate(got, ref, operands, numerics).passed
    bound = 2**-24 * (abs(ref.product[3, 5]) + 4 * math.sqrt(256) * ref.magnitude[3, 5])
    got[3, 5] = ref.product[3, 5] + 1.5 * bound
    result = bound_gate(got, ref, operands, numerics)
    assert result.failed == 1 and result.worst is not None
    assert (result.worst.row, result.worst.col) == (3, 5)
    assert result.worst.limit == pytest.approx(bound, rel=1e-6)


def test_f16_accumulation_in_place_of_f32_fails() -> None:
    """The element bound notices an accumulator that is narrower than declared."""
    case = Case.of(four_tiles(F16_F32), "unit_variance", 256, 256, LARGE_K)
    narrow = Case.of(four_tiles(F16_F16), "unit_variance", 256, 256, LARGE_K)
    assert np.array_equal(case.operands.a, narrow.operands.a)
    assert not bound_gate(narrow.right, case.ref, case.operands, case.numerics).passed


def test_f16_accumulation_has_the_published_errors() -> None:
    """The simulation and the figures reproduce the published K = 8192 error of the V6 kernel.

    Source  tilus, Hopper matmul tutorial V6: mean 0.0023, 99th percentile 0.0117, largest 0.047
    (of 2**26 elements; here 2**16, so the largest is only bounded)
    """
    case = Case.of(four_tiles(F16_F16), "unit_variance", 256, 256, LARGE_K)
    figures = case.check(case.right).results[-1].figures
    assert figures["mean_error"] == pytest.approx(0.0023, rel=0.05)
    assert figures["p99_error"] == pytest.approx(0.0117, rel=0.1)
    assert 0.015 < figures["max_error"] < 0.047


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (8, 8), (33, 7), (256, 256)])
def test_statistical_gate_passes_small_tiles(shape: tuple[int, int]) -> None:
    """Few elements stray further: every tile of each size passes, and fails without a K tile."""
    m, n = shape
    numerics = replace(F16_F16, tile_m=m, tile_n=n)
    operands = inputs.normal(256 // m * m, 256 // n * n, 512, numerics, seed=11)
    ref = make_reference(operands, numerics)
    right = simulated_kernel(operands.a, operands.b, numerics)
    assert statistical_gate(right, ref, operands, numerics).passed
    broken = simulated_kernel(operands.a, operands.b, numerics, Defect.DROPPED_K_TILE)
    assert not statistical_gate(broken, ref, operands, numerics).passed


def test_statistical_gate_fails_on_the_mean_alone() -> None:
    """A larger error everywhere keeps each element under the maximum but moves the mean."""
    case = Case.of(F16_F16, "unit_variance", SIDE, SIDE, 256)
    noise = to_float32(case.right, "f16") - case.ref.product.astype("float32")
    got = from_float32(to_float32(case.right, "f16") + 0.8 * noise, "f16")
    result = statistical_gate(got, case.ref, case.operands, F16_F16)
    assert result.figures["worst_max_ratio"] < 1 < result.figures["worst_rms_ratio"]
    assert not result.passed and result.failed == SIDE * SIDE


def test_statistical_gate_fails_on_one_element_alone() -> None:
    """An error of 12 s in one element leaves the mean of its tile as it was."""
    case = Case.of(F16_F16, "unit_variance", SIDE, SIDE, 256)
    scale = 2**-11 * math.sqrt(256 / 16) * case.ref.partial_rms[1, 0]
    got = case.right.copy()
    got[300, 100] = case.ref.product[300, 100] + 12 * scale
    result = statistical_gate(got, case.ref, case.operands, F16_F16)
    assert result.figures["worst_rms_ratio"] < 1 < result.figures["worst_max_ratio"]
    assert not result.passed and result.failed == 1


# --- declared range limits


@pytest.mark.parametrize("wide", [False, True], ids=["f16", "f32"])
def test_lost_increments_are_named(wide: bool) -> None:
    """A = 1, B = 1/16, K = 65536: each instruction adds 1, and f16 stays at 2048, not 4096."""
    numerics = F16_F32 if wide else F16_F16
    operands = inputs.constant(4, 8, 65536, numerics, 1.0, 1 / 16)
    got = simulated_kernel(operands.a, operands.b, numerics)
    report = check(got, operands, numerics)
    if wide:
        assert report.passed and float(got[0, 0]) == 4096
    else:
        assert float(got[0, 0]) == 2048
        assert report.declared_limit == causes.LOST_INCREMENTS
        assert "has reached 2048" in report.cause and "exact result is 4096" in report.cause


@pytest.mark.parametrize(
    ("accumulator", "output", "limit"),
    [
        ("f16", "f16", causes.ACCUMULATOR_OVERFLOW),
        ("f16", "f32", causes.ACCUMULATOR_OVERFLOW),
        ("f32", "f16", causes.OUTPUT_OVERFLOW),
        ("f32", "bf16", ""),
        ("f32", "f32", ""),
    ],
)
def test_overflow_is_named(accumulator: str, output: str, limit: str) -> None:
    """A = B = 8, K = 2048: 131072 leaves f16 in the accumulator, or only in the output."""
    numerics = replace(F16_F16, accumulator=accumulator, output=output)
    operands = inputs.constant(4, 8, 2048, numerics, 8.0, 8.0)
    got = simulated_kernel(operands.a, operands.b, numerics)
    report = check(got, operands, numerics)
    assert report.declared_limit == limit
    assert report.passed == (limit == "")
    if limit:
        assert "65504" in report.cause and "131072" in report.cause
    else:
        assert float(to_float32(got, output)[0, 0]) == 131072


def test_rounded_increments_are_named_only_for_a_right_accumulator() -> None:
    """Steps of 17 are rounded above 2048 and 136 of 4352 is lost; any other loss has no such
    excuse.
    """
    operands = inputs.constant(4, 8, 4096, F16_F16, 1.0, 17 / 16)
    got = simulated_kernel(operands.a, operands.b, F16_F16)
    assert float(got[0, 0]) == 4216
    report = check(got, operands, F16_F16)
    assert report.declared_limit == causes.LOST_INCREMENTS
    assert "a right kernel gives the same, 4216; the exact result is 4352" in report.cause
    got[...] = 4216 - 64
    report = check(got, operands, F16_F16)
    assert not report.passed and report.declared_limit == ""


def test_a_limit_does_not_excuse_a_broken_kernel() -> None:
    """Zeros where the accumulator would have overflowed are not explained by the overflow."""
    operands = inputs.constant(4, 8, 2048, F16_F16, 8.0, 8.0)
    report = check(np.zeros((4, 8), "float16"), operands, F16_F16)
    assert not report.passed and report.declared_limit == ""
    assert report.cause == "tile (0,0) holds zeros"


# --- gates on memory


def test_guard_sees_each_kind_of_stray_write() -> None:
    """Before the matrix, behind it, and in the padding between rows; writes inside are allowed."""
    strays = (
        (-1, "-1 elements"),
        (20, "row 0, column 20"),
        (5 * 24 - 1, "row 4, column 23"),
        (5 * 24 + 2000, "2120 elements"),
    )
    for step, text in strays:
        placed = place_output(5, 20, 24, "bf16", offset=8)
        placed.view[...] = 0x3F80
        assert guard_gate(placed).passed
        placed.buffer[placed.start + step] = 0
        result = guard_gate(placed)
        assert not result.passed and result.failed == 1 and text in result.cause


@pytest.mark.parametrize(("m", "n"), [(0, 8), (8, 0)])
def test_guard_covers_an_empty_output(m: int, n: int) -> None:
    """A kernel with nothing to write must write nothing."""
    placed = place_output(m, n, 8, "f16")
    assert placed.view.shape == (m, n) and guard_gate(placed).passed
    placed.buffer[placed.start] = 1
    assert not guard_gate(placed).passed


def test_placed_operands_keep_alignment_and_poison_their_padding() -> None:
    """The base is `offset` past an aligned address, and the columns past K are NaN."""
    matrix = inputs.normal(6, 1, 20, F16_F32).a
    placed = place_operand(matrix, 32, "f16", offset=8)
    assert np.array_equal(placed.view, matrix)
    address = placed.buffer.ctypes.data + 2 * placed.start
    assert address % 256 == 16 and placed.view.ctypes.data == address
    assert np.isnan(placed.buffer).sum() == placed.buffer.size - matrix.size
    with pytest.raises(VerifyError, match="leading dimension 16 is shorter than a row of 20"):
        place(2, 20, 16, "f16")


def test_strided_outputs_are_judged_like_dense_ones() -> None:
    """A padded output gives the same verdicts as a contiguous one."""
    case = Case.of(F16_F32, "normal", SIDE, SIDE, 256)
    placed = place_output(SIDE, SIDE, SIDE + 8, "f16")
    assert unwritten_gate(placed.view, F16_F32).failed == SIDE * SIDE
    placed.view[...] = case.right
    assert case.check(placed.view).passed
    assert str(case.check(placed.view)) == str(case.check(case.right))


def test_repeats_must_be_bitwise_equal() -> None:
    """One differing bit in one of several runs is a race; no run at all is an error."""
    first = Case.of(F16_F32, "normal", SIDE, SIDE, 256).right
    other = first.copy()
    other.view("uint16")[400, 10] ^= 1
    assert repeat_gate(first, [first.copy(), first.copy()], F16_F32).passed
    result = repeat_gate(first, (x for x in (first.copy(), other)), F16_F32)
    assert not result.passed and "1 of 2 runs" in result.cause
    assert result.tile is not None and (result.tile.row, result.tile.col) == (3, 0)
    with pytest.raises(VerifyError, match="nothing was compared"):
        repeat_gate(first, [], F16_F32)


# --- edges


@ALL
@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 64), (8, 0, 64), (8, 8, 0), (1, 8, 8)])
@KINDS
def test_empty_and_tiny_problems(numerics: Numerics, kind: str, m: int, n: int, k: int) -> None:
    """Nothing to compare passes with a word about it; K = 0 wants zeros and nothing else."""
    operands = inputs.GENERATORS[kind](m, n, k, numerics)
    got = simulated_kernel(operands.a, operands.b, numerics)
    report = check(got, operands, numerics)
    assert report.passed, report
    if not m * n:
        assert all("nothing to compare" in r.cause for r in report.results)
    else:
        got[0, 0] = from_float32(np.array([9.0], "float32"), numerics.output)[0]
        assert k or not check(got, operands, numerics).passed


def test_mismatched_arguments_are_errors() -> None:
    """A comparison that cannot be made is not a failed comparison."""
    operands = inputs.normal(8, 8, 64, F16_F32)
    with pytest.raises(VerifyError, match="does not belong"):
        check(np.zeros((8, 9), "float16"), operands, F16_F32)
    ref = reference(operands.a, operands.b, F16_F32, magnitude=False)
    with pytest.raises(VerifyError, match="magnitude=True"):
        bound_gate(np.zeros((8, 8), "float16"), ref, operands, F16_F32)
    with pytest.raises(VerifyError, match="needs results that f16 can hold"):
        exact_gate(np.zeros((8, 8), "float16"), ref, operands, F16_F32)


def test_reports_are_plain_data() -> None:
    """A failed report turns into JSON types and into text that names place and values."""
    case = Case.of(F16_F32, "exact", SIDE, SIDE, 256)
    report = case.check(case.broken(Defect.ZERO_TILE))
    data = report.as_json()
    assert data["passed"] is False
    assert [r["gate"] for r in data["results"]] == ["unwritten", "finite", "exact"]
    assert data["results"][2]["tile"]["row"] == 0
    assert "exact: FAILED" in str(report) and "cause: tile (0,0) holds zeros" in str(report)


def test_error_figures_are_those_of_the_differences() -> None:
    """Mean, 99th percentile and maximum by hand."""
    operands = inputs.constant(10, 10, 16, F16_F32, 1.0, 1.0)
    got = np.full((10, 10), 16, "float16")
    got[0, 0], got[0, 1] = 18, 17
    figures = error_figures(got, make_reference(operands, F16_F32), F16_F32)
    assert figures["mean_error"] == pytest.approx(0.03) and figures["max_error"] == 2.0
    assert figures["p99_error"] == pytest.approx(1.01)
