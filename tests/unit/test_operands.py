"""Number formats, operands and references: the material that the gates judge with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.dtypes import dtype
from kgen.errors import VerifyError
from kgen.minifloat import encode
from kgen.verify import inputs
from kgen.verify.numbers import (
    FORMATS,
    Numerics,
    from_float32,
    is_poison,
    number_format,
    poisoned,
    round_trip,
    to_float32,
)
from kgen.verify.reference import numpy_product, reference, torch_product
from kgen.verify.small_floats import SCALES, SMALL

F16_F16 = Numerics("f16", "f16", "f16", "f16", 256, 256, 64, 64)
F16_F32 = Numerics("f16", "f16", "f32", "f16", 128, 256, 64, 64)
BF16_F32 = Numerics("bf16", "bf16", "f32", "bf16", 128, 256, 64, 64)
E4M3_F32 = Numerics("e4m3", "e4m3", "f32", "bf16", 128, 256, 128, 64, mma_k=32)
ALL = pytest.mark.parametrize(
    "numerics",
    [F16_F16, F16_F32, BF16_F32, E4M3_F32],
    ids=["f16_f16", "f16_f32", "bf16_f32", "e4m3_f32"],
)


# --- number formats


FLOATS = [name for name in FORMATS if dtype(name).float_bits]
# What a kernel may write; the others are only read, and have no pattern to spare.
OUTPUTS = [name for name in FLOATS if name not in ("e2m1", *SCALES)]


# Without a fraction, 1 is an odd pattern of ue8m0, and ties go to 2.
@pytest.mark.parametrize("name", [name for name in FLOATS if name != "ue8m0"])
def test_unit_roundoff_is_the_largest_relative_error(name: str) -> None:
    """1 + u is a tie that rounds to 1, and the next integer after the last exact one is lost."""
    form = number_format(name)
    tie = np.array([1 + form.unit_roundoff, form.exact_integer + 1], dtype="float64")
    expected = [1.0, float(form.exact_integer)]
    assert round_trip(tie, name).tolist() == expected


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1.0, 0x3F80),
        (1 + 2**-8, 0x3F80),  # tie to even, downward
        (1 + 3 * 2**-8, 0x3F82),  # tie to even, upward
        (1 + 2**-8 + 2**-20, 0x3F81),
        (3.4e38, 0x7F80),  # past the largest value: infinity
        (-0.0, 0x8000),
    ],
)
def test_bf16_rounds_to_nearest_even(value: float, bits: int) -> None:
    """Hand-computed patterns."""
    assert int(from_float32(np.array([value], "float32"), "bf16")[0]) == bits


def test_bf16_keeps_nan() -> None:
    """Adding the rounding term must not carry a NaN into another value."""
    patterns = np.array([0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF], "uint32").view("float32")
    assert np.isnan(to_float32(from_float32(patterns, "bf16"), "bf16")).all()


@given(st.integers(0, 0xFFFF))
@settings(max_examples=100, deadline=None)
def test_every_bf16_survives_the_way_through_f32(bits: int) -> None:
    """Storage -> float32 -> storage is the identity, NaNs stay NaN."""
    stored = np.array([bits], "uint16")
    value = to_float32(stored, "bf16")
    back = from_float32(value, "bf16")
    assert (np.isnan(value[0]) and np.isnan(to_float32(back, "bf16")[0])) or back[0] == bits


@pytest.mark.parametrize("name", SMALL)
def test_small_floats_round_as_their_tables_say(name: str) -> None:
    """Every pattern, every tie between neighbours, and what lies beyond the largest."""
    patterns = np.arange(128 if name == "ue4m3" else 1 << dtype(name).bits, dtype="uint8")
    values = to_float32(patterns, name)
    finite = np.isfinite(values)
    assert (from_float32(values[finite], name) == patterns[finite]).all()
    numbers = np.sort(values[finite]).astype("float64")
    ties = ((numbers[1:] + numbers[:-1]) / 2).astype("float32")
    rng = np.random.default_rng(0)
    others = (rng.standard_normal(9999) * 10.0 ** rng.uniform(-9, 9, 9999)).astype("float32")
    others = np.abs(others) if name in SCALES else others
    for x in (ties, np.nextafter(ties, np.float32(9e9)), others):
        assert np.array_equal(from_float32(x, name), encode(x.astype("float64"), name))
    if name == "e2m1":  # it has none
        others = np.array([np.nan, -np.inf], "float32")
        assert from_float32(others, name).tolist() == [7, 15]
        return
    assert np.isnan(to_float32(from_float32(np.array([np.nan], "float32"), name), name)).all()


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (1 + 2**-11, 0x3F800000),  # tie to even, downward
        (1 + 3 * 2**-11, 0x3F804000),  # tie to even, upward
        (-1 - 2**-11 - 2**-20, 0xBF802000),
        (np.inf, 0x7F800000),
    ],
)
def test_tf32_rounds_to_nearest_even(value: float, bits: int) -> None:
    """Hand-computed patterns; the last 13 bits do not count."""
    assert int(from_float32(np.array([value], "float32"), "tf32").view("uint32")[0]) == bits


def test_integers_round_and_saturate() -> None:
    """s32 goes through float64, which holds every one of its values."""
    assert from_float32(np.array([1.5, -300, 127.4], "float32"), "s8").tolist() == [2, -128, 127]
    largest = np.array([2**31 - 1, -(2**31)], "int32")
    assert (from_float32(to_float32(largest, "s32"), "s32") == largest).all()
    with pytest.raises(VerifyError, match="rounding to s32 starts from float64, got float32"):
        from_float32(np.zeros(1, "float32"), "s32")


@pytest.mark.parametrize("k", [1, 300, 8192, 400_000])
def test_full_range_integers_never_wrap(k: int) -> None:
    """The largest sum that may come of them fits in s32, and half of it does not leave room."""
    numerics = Numerics("s8", "s8", "s32", "s32", 128, 256, 128, 64, mma_k=32)
    operands = inputs.full_range(2, 3, k, numerics)
    largest = int(operands.note.split()[3].rstrip(","))
    assert k * largest**2 < 2**31
    assert largest == 127 or k * (largest + 1) ** 2 >= 2**31
    assert np.abs(operands.a.astype(int)).max() <= largest


@pytest.mark.parametrize("name", OUTPUTS)
def test_poison_is_a_nan_that_arithmetic_does_not_make(name: str) -> None:
    """inf - inf gives another pattern: an unwritten element is told from a computed NaN."""
    form = number_format(name)
    assert np.isnan(to_float32(poisoned((1,), name), name)[0])
    with np.errstate(invalid="ignore"):
        computed = from_float32(np.array([np.inf], "float32") - np.float32(np.inf), name)
    assert is_poison(poisoned((2,), name), name).all()
    assert not is_poison(computed, name).any()
    assert form.poison < 1 << (8 * form.bytes)


def test_wrong_storage_is_refused() -> None:
    """A bf16 pattern read as f16 would give plausible numbers."""
    with pytest.raises(VerifyError, match="bf16 is stored as uint16"):
        to_float32(np.zeros(1, "float16"), "bf16")
    with pytest.raises(VerifyError, match="starts from float32"):
        from_float32(np.zeros(1, "float64"), "f16")
    with pytest.raises(VerifyError, match="no number format 'fp16'"):
        number_format("fp16")


# --- operands


@ALL
@pytest.mark.parametrize("k", [1, 8, 64, 200, 1024, 8192, 65536])
def test_exact_operands_keep_every_partial_sum_exact(numerics: Numerics, k: int) -> None:
    """|A||B| stays within the accumulator's exact integers, and the result within the output's."""
    operands = inputs.exact(48, 40, k, numerics, seed=3)
    ref = reference(operands.a, operands.b, numerics)
    assert ref.magnitude is not None
    assert ref.magnitude.max() <= numerics.exact_sum
    assert np.array_equal(round_trip(ref.product, numerics.output), ref.product)
    assert np.abs(ref.product).max() > 0


@ALL
def test_exact_operands_touch_every_k_tile(numerics: Numerics) -> None:
    """A K tile that is left out changes most outputs, not a few."""
    operands = inputs.exact(64, 64, 8192, numerics)
    a, b = to_float32(operands.a, numerics.a), to_float32(operands.b, numerics.b)
    for start in (0, 4096, 8192 - 64):
        part = a[:, start : start + 64] @ b[:, start : start + 64].T
        assert (part != 0).mean() > 0.6


def test_operands_are_reproducible_and_differ_between_seeds_and_operands() -> None:
    """The seed decides, and A and B of one seed are different matrices."""
    for make in inputs.GENERATORS.values():
        one, same = (make(16, 16, 64, F16_F32, seed=5) for _ in range(2))
        other = make(16, 16, 64, F16_F32, seed=6)
        assert np.array_equal(one.a, same.a) and np.array_equal(one.b, same.b)
        assert not np.array_equal(one.a, other.a) and not np.array_equal(one.a, one.b)


@ALL
def test_unit_variance_operands_give_unit_variance_outputs(numerics: Numerics) -> None:
    """Deviation of the outputs is 1 whatever K."""
    for k in (64, 2048):
        operands = inputs.unit_variance(256, 256, k, numerics)
        assert reference(operands.a, operands.b, numerics).product.std() == pytest.approx(
            1, abs=0.05
        )


# --- references


def test_numpy_and_torch_agree() -> None:
    """Two libraries, one product, in both precisions."""
    pytest.importorskip("torch", reason="torch is not installed: no second reference")
    operands = inputs.normal(70, 50, 130, BF16_F32, seed=1)
    for precision, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        ours, theirs = (
            reference(operands.a, operands.b, BF16_F32, precision=precision, product=product)
            for product in (numpy_product, torch_product)
        )
        np.testing.assert_allclose(
            ours.product, theirs.product, rtol=tolerance, atol=tolerance * 20
        )
        assert ours.magnitude is not None and theirs.magnitude is not None
        np.testing.assert_allclose(ours.magnitude, theirs.magnitude, rtol=tolerance)
        np.testing.assert_allclose(ours.partial_rms, theirs.partial_rms, rtol=tolerance)


def test_partial_sums_match_a_direct_computation() -> None:
    """Root mean square over prefixes of K and over each tile, edge tiles included."""
    numerics = replace(F16_F16, tile_m=32, tile_n=32)
    operands = inputs.normal(40, 33, 64, numerics)
    a, b = operands.a.astype("float64"), operands.b.astype("float64")
    prefixes = [a[:, :k] @ b[:, :k].T for k in (16, 32, 48, 64)]
    expected = [
        [math.sqrt(np.mean([p[r, c] ** 2 for p in prefixes])) for c in (np.s_[:32], np.s_[32:])]
        for r in (np.s_[:32], np.s_[32:])
    ]
    np.testing.assert_allclose(reference(operands.a, operands.b, numerics).partial_rms, expected)
