"""Input words with the values at which conversions and arithmetic go wrong. Fixed, no files."""

from __future__ import annotations

import numpy as np

LANES = 64

_F32 = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.5, 0.1, -7.75,
    65504.0, 65519.0, 65520.0, 65536.0, -65520.0, 2.0**-14, 2.0**-15, 2.0**-24, 2.0**-25,
    1.5 * 2.0**-25, 448.0, 464.0, 465.0, 480.0, -449.0, 2.0**-6, 2.0**-9, 2.0**-10,
    1.5 * 2.0**-10, 57344.0, 61440.0, 61441.0, 2.0**-16, 2.0**-17, 2.0**31, -(2.0**31), 2.0**32,
    2.0**63, 2.0**64, 3.4e38, -3.4e38, 1e-40, -1e-45, 127.5, 128.0, -128.5, 255.5, 256.0, 1e10,
]  # fmt: skip
_BITS = [
    0x7FC00001, 0xFFC12345, 0x7F800001, 0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F808000, 0x3F818000,
    0x3F807FFF, 0x477FF000,
]  # fmt: skip
"""NaN payloads and the midpoints of tf32, bf16 and f16."""


def float_words() -> np.ndarray:
    """(3, 64) uint32: f32 special values against each other and against random numbers."""
    a = np.concatenate([np.array(_F32, np.float32).view(np.uint32), np.array(_BITS, np.uint32)])
    assert a.size == LANES
    rng = np.random.default_rng(11)
    return np.stack([a, rng.permutation(a), rng.permutation(a)])


def random_words() -> np.ndarray:
    """(3, 64) uint32: normal f32 numbers of moderate exponents."""
    rng = np.random.default_rng(12)
    values = rng.standard_normal((3, LANES)) * 2.0 ** rng.integers(-20, 21, (3, LANES))
    return values.astype(np.float32).view(np.uint32)


def half_words() -> np.ndarray:
    """(3, 64) uint32: packed pairs of 16-bit floats, specials in front."""
    rng = np.random.default_rng(13)
    special = [
        0x0000,
        0x8000,
        0x7C00,
        0xFC00,
        0x7E00,
        0xFFFF,
        0x0001,
        0x83FF,
        0x0400,
        0x3C00,
        0xBC00,
        0x7BFF,
        0xFBFF,
        0x7F80,
        0xFF80,
        0x7FC0,
        0x3F80,
        0x7F7F,
        0x0080,
        0x3555,
    ]
    halves = rng.integers(0x3000, 0x4800, (3, 2 * LANES))
    halves ^= rng.integers(0, 2, halves.shape) << 15
    for row in halves:
        places = rng.permutation(row.size)[: len(special)]
        row[places] = special
    return np.ascontiguousarray(halves.astype(np.uint16)).view(np.uint32)


def edge_words() -> np.ndarray:
    """(3, 64) uint32: integers at the ends of their ranges, small ones, single bits."""
    rng = np.random.default_rng(14)
    pool = [
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        32,
        33,
        63,
        0x7F,
        0x80,
        0xFF,
        0x100,
        0x7FFF,
        0x8000,
        0xFFFF,
        0x10000,
        0x7FFFFFFF,
        0x80000000,
        0x80000001,
        0xFFFFFFFE,
        0xFFFFFFFF,
        0x12345678,
        0xF0F0F0F0,
        0x00FF00FF,
        0x01000000,
        0x40000000,
        0xAAAAAAAA,
        0x3210,
        0x7654,
        0x89AB,
    ]
    return rng.choice(np.array(pool, np.uint32), (3, LANES))


def integer_words() -> np.ndarray:
    """(3, 64) uint32: anything but 0."""
    return np.random.default_rng(15).integers(1, 1 << 32, (3, LANES)).astype(np.uint32)


WORDS = {
    "special": float_words,
    "random": random_words,
    "half": half_words,
    "edge": edge_words,
    "any": integer_words,
}
