"""Conversions against definitions by exact rational arithmetic, one element at a time."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.emu import alu
from kgen.emu import numerics as nm

# name: (exponent bits, mantissa bits, bias, largest finite value), as in the format specifications
PUBLISHED = {
    "f16": (5, 10, 15, 65504.0),
    "bf16": (8, 7, 127, (2 - 2**-7) * 2.0**127),
    "tf32": (8, 10, 127, (2 - 2**-10) * 2.0**127),
    "e4m3": (4, 3, 7, 448.0),
    "e5m2": (5, 2, 15, 57344.0),
    "f32": (8, 23, 127, (2 - 2**-23) * 2.0**127),
}
F32_BITS = st.integers(0, 2**32 - 1)


def all_finite(name: str) -> list[Fraction]:
    """Every non-negative finite value of a small format, from its definition."""
    exponent_bits, mantissa_bits, bias, largest = PUBLISHED[name]
    values = []
    for exponent in range(1 << exponent_bits):
        for mantissa in range(1 << mantissa_bits):
            lead = 1 if exponent else 0
            significand = lead + Fraction(mantissa, 1 << mantissa_bits)
            value = significand * Fraction(2) ** (max(exponent, 1) - bias)
            if value <= Fraction(largest):
                values.append(value)
    return values


def reference(x: float, name: str, rounding: str) -> Fraction | str:
    """Rounded value of x, or 'inf', by the definition of the quantum."""
    _, mantissa_bits, bias, largest = PUBLISHED[name]
    magnitude = abs(Fraction(x))
    exponent = 1 - bias
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - mantissa_bits)
    places = magnitude / quantum
    low = floor(places)
    rest = places - low
    if rounding == "rz":
        up = False
    elif rounding == "rna":
        up = rest >= Fraction(1, 2)
    else:
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    rounded = (low + up) * quantum
    if rounded > Fraction(largest):
        return Fraction(largest) if rounding == "rz" else "inf"
    return rounded


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "f16"])
def test_decode_lists_every_value_in_order(name):
    expected = [float(v) for v in all_finite(name)]
    bits = np.arange(len(expected), dtype=nm.FORMATS[name].unsigned)
    np.testing.assert_array_equal(nm.decode(bits, name), np.array(expected, np.float32))


@pytest.mark.parametrize("name", PUBLISHED)
def test_largest_finite_value(name):
    fmt = nm.FORMATS[name]
    bits = np.array([fmt.max_finite << fmt.container_shift], fmt.unsigned)
    assert float(nm.decode(bits, name)[0]) == PUBLISHED[name][3]


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "f16", "bf16"])
def test_encode_inverts_decode_for_every_pattern(name):
    fmt = nm.FORMATS[name]
    bits = np.arange(1 << fmt.bits, dtype=np.uint32).astype(fmt.unsigned)
    values = nm.decode(bits, name)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(nm.encode(values, name)[number], bits[number])
    assert (nm.encode(values, name)[~number] == fmt.nan).all()


@pytest.mark.parametrize("rounding", ["rn", "rna", "rz"])
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_encode_rounds_as_defined(name, rounding, data):
    """float32 inputs, drawn near the values and midpoints of the format as well as anywhere."""
    fmt = nm.FORMATS[name]
    near = data.draw(st.booleans())
    if near:
        top = fmt.max_finite + 2
        code = data.draw(st.integers(0, top)) << fmt.container_shift
        exact = float(
            nm.decode(
                np.array([min(code, fmt.max_finite << fmt.container_shift)], fmt.unsigned), name
            )[0]
        )
        next_code = min(code + (1 << fmt.container_shift), fmt.max_finite << fmt.container_shift)
        above = float(nm.decode(np.array([next_code], fmt.unsigned), name)[0])
        middle = np.float32((exact + above) / 2)
        x = float(np.nextafter(middle, np.float32(data.draw(st.sampled_from([-np.inf, np.inf])))))
        x = data.draw(st.sampled_from([x, float(middle)]))
    else:
        x = float(np.array([data.draw(F32_BITS)], np.uint32).view(np.float32)[0])
    if not np.isfinite(x):
        return
    expected = reference(x, name, rounding)
    got = nm.decode(nm.encode(np.array([x], np.float32), name, rounding), name)[0]
    if expected == "inf":
        assert np.isinf(got) or (not fmt.has_inf and np.isnan(got))
        saturated = nm.decode(
            nm.encode(np.array([x], np.float32), name, rounding, satfinite=True), name
        )[0]
        assert abs(float(saturated)) == PUBLISHED[name][3]
    else:
        assert isinstance(expected, Fraction)
        assert Fraction(abs(float(got))) == expected
        assert np.signbit(got) == np.signbit(np.float32(x))


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, -np.nan, -0.0], np.float32)
    np.testing.assert_array_equal(nm.encode(x, "f16"), [0x7C00, 0xFC00, 0x7FFF, 0x7FFF, 0x8000])
    np.testing.assert_array_equal(nm.encode(x, "bf16"), [0x7F80, 0xFF80, 0x7FFF, 0x7FFF, 0x8000])
    np.testing.assert_array_equal(
        nm.encode(x, "e4m3", satfinite=True), [0x7E, 0xFE, 0x7F, 0x7F, 0x80]
    )
    np.testing.assert_array_equal(
        nm.encode(x, "e5m2", satfinite=True), [0x7B, 0xFB, 0x7F, 0x7F, 0x80]
    )
    np.testing.assert_array_equal(nm.encode(x, "f16", relu=True), [0x7C00, 0, 0x7FFF, 0x7FFF, 0])


def test_directed_roundings():
    x = np.array([1.0 + 2.0**-12, -1.0 - 2.0**-12, 70000.0, -70000.0], np.float32)
    up = nm.decode(nm.encode(x, "f16", "rp"), "f16")
    down = nm.decode(nm.encode(x, "f16", "rm"), "f16")
    np.testing.assert_array_equal(up, np.array([1 + 2**-10, -1, np.inf, -65504], np.float32))
    np.testing.assert_array_equal(down, np.array([1, -1 - 2**-10, 65504, -np.inf], np.float32))


def test_float64_source_is_rounded_once():
    """1 + 2^-11 + 2^-40 is above the f16 midpoint, which float32 cannot see."""
    x = np.array([1 + 2.0**-11 + 2.0**-40])
    assert nm.encode(x, "f16")[0] == 0x3C01
    assert nm.encode(x.astype(np.float32), "f16")[0] == 0x3C00


def test_tf32_truncates_on_read():
    bits = np.array([0x3F801FFF], np.uint32)
    assert nm.decode(bits, "tf32")[0] == 1.0
    assert nm.encode(bits.view(np.float32), "tf32", "rna")[0] == 0x3F802000


@pytest.mark.parametrize(
    ("x", "bits", "signed", "rounding", "expected"),
    [
        (2.5, 32, True, "rni", 2),
        (3.5, 32, True, "rni", 4),
        (-2.5, 32, True, "rzi", -2),
        (-2.5, 32, True, "rmi", -3),
        (-2.5, 32, True, "rpi", -2),
        (-1.0, 32, False, "rzi", 0),
        (3e9, 32, True, "rzi", 2**31 - 1),
        (3e9, 32, False, "rzi", 3 * 10**9),
        (-3e9, 32, True, "rzi", -(2**31)),
        (300.0, 8, True, "rni", 127),
        (300.0, 8, False, "rni", 255),
        (np.nan, 32, True, "rni", 0),
        (np.nan, 64, True, "rni", -(2**63)),
        (np.inf, 64, False, "rzi", 2**64 - 1),
        (-np.inf, 16, True, "rzi", -(2**15)),
    ],
)
def test_float_to_int(x, bits, signed, rounding, expected):
    got = nm.float_to_int(np.array([x], np.float32), bits, signed, rounding)[0]
    assert int(got) == expected


def test_packed_conversions_put_the_first_operand_high():
    hi, lo = np.array([1.0], np.float32), np.array([-2.0], np.float32)
    assert alu.cvt_pack(hi, lo, "f16x2")[0] == 0x3C00C000
    assert alu.cvt_pack(hi, lo, "bf16x2")[0] == 0x3F80C000
    assert alu.cvt_pack(hi, lo, "e4m3x2")[0] == 0x38C0
    assert alu.cvt_pack(hi, np.array([1e6], np.float32), "e4m3x2")[0] == 0x387E
    assert alu.cvt_fp8_to_f16x2(np.array([0x38C0], np.uint16), "e4m3x2")[0] == 0x3C00C000
    high, low = alu.cvt_unpack(np.array([0x3C00C000], np.uint32), "f16x2")
    assert (high[0], low[0]) == (1.0, -2.0)


@given(st.lists(F32_BITS, min_size=4, max_size=4), st.sampled_from([8, 16, 32]))
def test_pack_inverts_unpack(words, bits):
    array = np.array(words, np.uint32).reshape(2, 2)
    elements = alu.unpack(array, bits)
    assert elements.shape == (2, 32 // bits, 2)
    assert int(elements[0, 0, 0]) == words[0] & ((1 << bits) - 1)
    assert int(elements[1, -1, 1]) == words[3] >> (32 - bits)
    np.testing.assert_array_equal(alu.pack(elements), array)


def exact_round(value: Fraction, name: str) -> float:
    """Round-to-nearest-even of an exact value, in [0, largest]."""
    _, mantissa_bits, bias, largest = PUBLISHED[name]
    if value == 0:
        return 0.0
    magnitude, exponent = abs(value), 1 - bias
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - mantissa_bits)
    rounded = round(magnitude / quantum) * quantum
    result = float("inf") if rounded > Fraction(largest) else float(rounded)
    return -result if value < 0 else result


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
@given(bits=st.lists(st.integers(0, 0xFFFF), min_size=3, max_size=3))
@settings(max_examples=150, deadline=None)
def test_half_arithmetic_rounds_once(name, op, bits):
    values = [float(nm.decode(np.array([b], np.uint16), name)[0]) for b in bits]
    if not np.isfinite(values).all():
        return
    a, b, c = (Fraction(v) for v in values)
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[op]
    operands = [np.array([v], np.uint16) for v in bits[: 3 if op == "fma" else 2]]
    got = float(nm.decode(alu.half_op(op, name, *operands), name)[0])
    assert got == exact_round(exact, name)


@given(bits=st.lists(F32_BITS, min_size=3, max_size=3))
@settings(max_examples=400, deadline=None)
def test_fma_rounds_once(bits):
    values = np.array(bits, np.uint32).view(np.float32)
    if not np.isfinite(values).all():
        return
    a, b, c = (Fraction(float(v)) for v in values)
    assert float(alu.fma(values[:1], values[1:2], values[2:])[0]) == exact_round(a * b + c, "f32")


def test_arithmetic_makes_the_canonical_nan():
    bad = np.array([0xFFC12345, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    one = np.ones(3, np.float32)
    expected = [0x7FFFFFFF, 0x7FFFFFFF, 0x40000000]
    np.testing.assert_array_equal(alu.fma(bad, one, one).view(np.uint32), expected)


def test_tf32_of_nan():
    """The canonical NaN, but for rna, which cuts off the low bits: of 0x7f800001, all that made it
    a NaN.
    """
    bad = np.array([0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    for rounding in ("rn", "rz"):
        assert nm.encode(bad, "tf32", rounding).tolist() == [0x7FFFE000, 0x7FFFE000]
    assert nm.encode(bad, "tf32", "rna").tolist() == [0xFFC12000, 0x7F800000]


def test_fma_beats_two_roundings():
    """(1 + 2^-12)^2 - (1 + 2^-11) = 2^-24 only if the product is not rounded."""
    x = np.array([1 + 2.0**-12], np.float32)
    assert alu.fma(x, x, -np.array([1 + 2.0**-11], np.float32))[0] == 2.0**-24


def test_minmax():
    a = np.array([np.nan, 1, -0.0, 0.0, np.nan], np.float32)
    b = np.array([2, np.nan, 0.0, -0.0, np.nan], np.float32)
    low, high = alu.minmax("min", a, b), alu.minmax("max", a, b)
    np.testing.assert_array_equal(low[:4], np.array([2, 1, 0, 0], np.float32))
    assert np.signbit(low[2:4]).all() and not np.signbit(high[2:4]).any()
    assert np.isnan(low[4])


def test_packed_halves_are_independent():
    a, b = np.array([0x3C00_C000], np.uint32), np.array([0x4000_3C00], np.uint32)
    assert alu.half2_op("add", "f16", a, b)[0] == 0x4200_BC00
    assert alu.half2_op("neg", "f16", a)[0] == 0xBC00_4000
    assert alu.half2_op("abs", "f16", a)[0] == 0x3C00_4000
    assert alu.half2_op("max", "f16", a, b)[0] == 0x4000_3C00
