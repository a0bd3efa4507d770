"""Sums of the tensor core against exact rationals, rounded by the rule and not by the code."""

from __future__ import annotations

from fractions import Fraction
from math import floor, log2

import numpy as np
import pytest

from kgen.emu import numerics as nm
from kgen.emu.tensor_core import ADDER, FP8_ADDER, accumulate, is_exact

HALVES, BYTES = ("f16", "f16"), ("s8", "s8")


@pytest.mark.parametrize(
    ("a_dtype", "b_dtype", "k", "kind"),
    [
        ("f16", "f16", 16, "f32"),
        ("bf16", "bf16", 16, "f32"),
        ("e4m3", "e5m2", 32, "f32"),
        ("tf32", "tf32", 8, "f32"),
        ("f16", "f16", 16, "f16"),
        ("u8", "s8", 32, "s32"),
    ],
)
@pytest.mark.parametrize("accumulates", [False, True])
def test_accumulate_is_exact_on_integers(a_dtype, b_dtype, k, kind, accumulates):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-8, 9, (64, k)), rng.integers(-8, 9, (24, k))
    d = rng.integers(-100, 101, (64, 24)) if accumulates else None
    if a_dtype == "u8":
        a = np.abs(a)

    def through_bits(x: np.ndarray, dtype: str) -> np.ndarray:
        if dtype in ("s8", "u8"):
            return nm.decode_tile(x.astype(np.int8).view(np.uint8), dtype)
        return nm.decode_tile(nm.encode(x.astype(np.float32), dtype), dtype)

    start = None if d is None else d.astype(np.int32 if kind == "s32" else np.float32)
    got = accumulate(
        start, through_bits(a, a_dtype), through_bits(b, b_dtype), kind, (a_dtype, b_dtype)
    )
    c = np.zeros((64, 24), int) if d is None else d
    expected = [
        [int(c[i, j]) + sum(int(a[i, x]) * int(b[j, x]) for x in range(k)) for j in range(24)]
        for i in range(64)
    ]
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == (np.int32 if kind == "s32" else np.float32)


def test_integer_accumulators_wrap_or_clamp():
    a, b = np.full((1, 32), 127, np.float32), np.full((1, 32), 127, np.float32)
    d = np.array([[2**31 - 1]], np.int32)
    assert accumulate(d, a, b, "s32", BYTES)[0, 0] == (2**31 - 1 + 32 * 127 * 127) - 2**32
    assert accumulate(d, a, b, "s32.satfinite", BYTES)[0, 0] == 2**31 - 1
    assert accumulate(-d, a, -b, "s32.satfinite", BYTES)[0, 0] == -(2**31)


def test_f16_accumulator_rounds_once_per_instruction():
    """2048 + 16 x (1/16 x 1) = 2049, midway between the f16 values 2048 and 2050: ties to even."""
    a, b = np.full((1, 16), 1 / 16, np.float32), np.ones((1, 16), np.float32)
    assert accumulate(np.array([[2048.0]], np.float32), a, b, "f16", HALVES)[0, 0] == 2048
    assert accumulate(np.array([[2050.0]], np.float32), a, b, "f16", HALVES)[0, 0] == 2052


def exponent(x: Fraction, dtype: str) -> int:
    """Of the leading bit, at least that of the smallest normal number."""
    smallest = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14, "f32": -126}
    if x == 0:
        return -126
    return max(floor(log2(abs(float(x)))), smallest[dtype])


def toward_zero(x: Fraction, place: int) -> Fraction:
    """A multiple of 2**place."""
    unit = Fraction(2) ** place
    return int(x / unit) * unit


def reference(
    d: float,
    a: list[float],
    b: list[float],
    types: tuple[str, str],
    kind: str,
    aligned: int,
    result: int,
) -> float:
    """The published model, one element at a time."""
    terms = [(Fraction(d), exponent(Fraction(d), kind))]
    for x, y in zip(map(Fraction, a), map(Fraction, b), strict=True):
        terms.append((x * y, exponent(x, types[0]) + exponent(y, types[1])))
    largest = max(e for _, e in terms)
    total = sum(toward_zero(x, largest - aligned) for x, _ in terms)
    if kind == "f16":
        return float(np.float16(float(total)))
    return float(toward_zero(total, exponent(total, "f32") - result)) if total else 0.0


@pytest.mark.parametrize(
    ("types", "k", "kind", "adder"),
    [
        (("f16", "f16"), 16, "f32", ADDER),
        (("bf16", "bf16"), 16, "f32", ADDER),
        (("tf32", "tf32"), 8, "f32", ADDER),
        (("f16", "f16"), 16, "f16", ADDER),
        (("e4m3", "e5m2"), 32, "f32", FP8_ADDER),
        (("e4m3", "e4m3"), 32, "f16", FP8_ADDER),
        (("e4m3", "e5m2"), 32, "f32", ADDER),
    ],
)
@pytest.mark.parametrize("spread", [1, 6])
def test_against_rationals(types, k, kind, adder, spread):
    """Random values of many exponents, subnormal ones among them."""
    rng = np.random.default_rng(17 + spread)

    def values(rows: int, columns: int, dtype: str) -> np.ndarray:
        x = rng.standard_normal((rows, columns)) * 2.0 ** rng.integers(
            -spread, spread + 1, (rows, columns)
        )
        return nm.decode(nm.encode(x.astype(np.float32), dtype), dtype)

    a, b = values(12, k, types[0]), values(10, k, types[1])
    d = values(12, 10, kind) * np.float32(8)
    assert not is_exact(d, a, b, adder)
    got = accumulate(d, a, b, kind, types, adder)
    expected = [
        [
            reference(
                float(d[i, j]),
                a[i].tolist(),
                b[j].tolist(),
                types,
                kind,
                adder.aligned,
                adder.result,
            )
            for j in range(10)
        ]
        for i in range(12)
    ]
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


def test_fp8_sums_keep_14_bits():
    """2^14 + 1 + 1 loses both ones: each is cut off where 2^14 ends."""
    a, b = np.ones((1, 2), np.float32), np.ones((1, 2), np.float32)
    d = np.array([[2.0**14]], np.float32)
    assert accumulate(d, a, b, "f32", ("e4m3", "e4m3"), FP8_ADDER)[0, 0] == 2**14
    assert accumulate(d, a, b, "f32", ("e4m3", "e4m3"), ADDER)[0, 0] == 2**14 + 2


def test_f32_results_are_cut_off():
    """2^24 + 3 lies between the f32 values 2^24 + 2 and 2^24 + 4; so does its negative."""
    a, b = np.ones((1, 1), np.float32), np.full((1, 1), 3, np.float32)
    d = np.array([[2.0**24]], np.float32)
    assert accumulate(d, a, b, "f32", HALVES)[0, 0] == 2**24 + 2
    assert accumulate(-d, a, -b, "f32", HALVES)[0, 0] == -(2**24) - 2


def test_special_values():
    bad = np.array([[0xFFC12345], [0x7F800001], [0x7F800000], [0x40200000]], np.uint32)
    a, one = bad.view(np.float32), np.ones((4, 1), np.float32)
    got = accumulate(one, a, np.ones((1, 1), np.float32), "f32", ("tf32", "tf32"))
    expected = [0x7FFFFFFF, 0x7FFFFFFF, 0x7F800000, 0x40600000]
    np.testing.assert_array_equal(got.view(np.uint32).ravel(), expected)
    huge = np.full((1, 1), 2.0**100, np.float32)
    assert accumulate(None, huge, huge, "f32", ("bf16", "bf16"))[0, 0] == np.inf


def test_a_sum_of_negative_zeros_is_positive():
    zero = np.zeros((1, 4), np.float32)
    assert not np.signbit(accumulate(None, -zero, zero + 1, "f32", HALVES)[0, 0])
