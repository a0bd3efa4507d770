"""Types of few bits against other definitions: exact fractions, and torch where it has them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.dtypes import DTYPES, dtype
from kgen.minifloat import decode, encode, pack_pairs, table, unpack_pairs

SMALL = ["e4m3", "e5m2", "e2m1", "ue8m0", "ue4m3"]
TORCH = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "ue8m0": "float8_e8m0fnu"}

# Every value of e2m1 and the landmarks of the others, from the formats' published definitions.
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
LANDMARKS = {
    "e4m3": {0x00: 0.0, 0x01: 2.0**-9, 0x08: 2.0**-6, 0x38: 1.0, 0x7E: 448.0, 0xFE: -448.0},
    "e5m2": {0x01: 2.0**-16, 0x04: 2.0**-14, 0x3C: 1.0, 0x7B: 57344.0, 0x7C: np.inf},
    "ue8m0": {0x00: 2.0**-127, 0x7F: 1.0, 0x80: 2.0, 0xFE: 2.0**127},
    "ue4m3": {0x00: 0.0, 0x01: 2.0**-9, 0x38: 1.0, 0x7E: 448.0},
    "e2m1": dict(enumerate(E2M1)) | {8 + i: -v for i, v in enumerate(E2M1)},
}


@pytest.mark.parametrize("name", SMALL)
def test_published_values(name: str) -> None:
    for pattern, value in LANDMARKS[name].items():
        assert table(name)[pattern] == value, hex(pattern)


@pytest.mark.parametrize("name", TORCH)
def test_every_pattern_is_what_torch_reads(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: no second definition")
    patterns = np.arange(256, dtype="uint8")
    theirs = torch.from_numpy(patterns.copy()).view(getattr(torch, TORCH[name])).to(torch.float64)
    np.testing.assert_array_equal(table(name), theirs.numpy())


def test_nans_are_where_the_formats_put_them() -> None:
    nans = {name: np.flatnonzero(np.isnan(table(name))).tolist() for name in SMALL}
    assert nans == {
        "e4m3": [0x7F, 0xFF],
        "e5m2": [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF],
        "e2m1": [],
        "ue8m0": [0xFF],
        # PTX reads a scale as e4m3 with its sign ignored; the top bit is never written here.
        "ue4m3": [0x7F, 0xFF],
    }


@pytest.mark.parametrize("name", [*SMALL, "f16", "bf16"])
def test_largest_and_exact_integer_follow_from_the_table(name: str) -> None:
    kind, values = dtype(name), table(name)
    finite = values[np.isfinite(values)]
    assert finite.max() == kind.largest
    representable = set(finite.tolist())
    assert all(float(i) in representable for i in range(1, kind.exact_integer + 1))
    assert float(kind.exact_integer + 1) not in representable


def test_wide_types_state_their_limits() -> None:
    assert dtype("f32").largest == float(np.finfo("float32").max)
    assert dtype("tf32").largest == float(np.array(0x7F7FE000, "uint32").view("float32"))
    for name in ("f32", "tf32"):
        kind = dtype(name)
        assert kind.float_bits and kind.exact_integer == 2 ** (kind.float_bits.fraction + 1)
    assert (dtype("s8").largest, dtype("s32").largest) == (127, 2147483647)


def _nearest(value: float, name: str) -> int:
    """Round to nearest even by exact fractions, over every pattern."""
    values = table(name)
    best = None
    for pattern, candidate in enumerate(values):
        if not np.isfinite(candidate):
            continue
        if np.signbit(candidate) != np.signbit(value) and dtype(name).float_bits.signed:  # type: ignore[union-attr]
            continue
        distance = abs(Fraction(float(candidate)) - Fraction(value))
        rank = (distance, pattern % 2)
        if best is None or rank < best[0]:
            best = (rank, pattern)
    assert best is not None
    return best[1]


@given(
    st.sampled_from(SMALL),
    st.floats(-600, 600, width=32) | st.floats(-(2.0**-7), 2.0**-7, width=32),
)
@settings(max_examples=150, deadline=None)
def test_rounding_is_to_the_nearest_even(name: str, value: float) -> None:
    assert int(encode(np.array([value]), name)[0]) == _nearest(value, name)


@pytest.mark.parametrize("name", SMALL)
def test_ties_and_neighbours_of_every_pair_of_values(name: str) -> None:
    """The middle goes to the even pattern, a hair beside it to the nearer one."""
    values = np.unique(table(name)[np.isfinite(table(name)) & (table(name) >= 0)])
    middle = (values[1:] + values[:-1]) / 2
    for point in (middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)):
        for value, found in zip(point.tolist(), encode(point, name).tolist(), strict=True):
            assert found == _nearest(value, name)


@pytest.mark.parametrize("name", SMALL)
def test_every_number_survives_and_overflow_saturates(name: str) -> None:
    values = table(name)
    finite = values[np.isfinite(values)]
    again = decode(encode(finite, name), name).astype("float64")
    np.testing.assert_array_equal(again, finite)
    largest = dtype(name).largest
    over = np.array([largest * 1.5, np.inf])
    np.testing.assert_array_equal(decode(encode(over, name), name), [largest] * 2)


def test_nan_stays_nan_or_is_refused() -> None:
    for name in SMALL:
        if name == "e2m1":
            with pytest.raises(ValueError, match="e2m1 has no NaN"):
                encode(np.array([np.nan]), name)
        else:
            assert np.isnan(decode(encode(np.array([np.nan]), name), name))[0]


def test_pairs_lie_low_half_first() -> None:
    patterns = np.array([[1, 2, 15, 0]], "uint8")
    assert pack_pairs(patterns).tolist() == [[0x21, 0x0F]]
    rng = np.random.default_rng(1)
    many = rng.integers(0, 16, (5, 64), "uint8")
    np.testing.assert_array_equal(unpack_pairs(pack_pairs(many)), many)
    with pytest.raises(ValueError, match="3 elements of 4 bits"):
        pack_pairs(np.zeros((1, 3), "uint8"))


def test_sizes() -> None:
    assert {n: t.bits for n, t in DTYPES.items() if t.bits % 8} == {"e2m1": 4}
    assert dtype("e2m1").bytes_of(256) == 128 and dtype("e2m1").elements_in(128) == 256
    assert dtype("f16").bytes == dtype("f16").bytes_of(1) == 2
    with pytest.raises(ValueError, match="one e2m1 is 4 bits"):
        _ = dtype("e2m1").bytes
    with pytest.raises(ValueError, match="end inside a byte"):
        dtype("e2m1").bytes_of(3)
    with pytest.raises(ValueError, match="s8 is no floating-point type"):
        table("s8")


def test_integer_and_float_types_are_told_apart() -> None:
    assert {n for n, t in DTYPES.items() if t.float_bits is None} == {"s8", "s32"}
