"""Operands for tests and timing, made from a seed on the CPU (numpy) or on the GPU (cupy). Knows no
reference.

The same seed gives the same numbers on the same library; numpy and cupy differ from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import VerifyError
from kgen.verify.numbers import Array, Numerics, from_float32, number_format
from kgen.verify.scaling import Scales, make_scales

# Integers up to 8 are exact in every operand format down to three significand bits (e5m2).
LARGEST_INTEGER = 8
# Outputs of random integers are kept this many standard deviations below the last exact integer of
# their format: among the 2**26 outputs of an 8192 x 8192 problem one is past it with probability
# 2e-4, and the exact gate says so.
OUTPUT_DEVIATIONS = 7.0
# Block scales of exact operands are powers of two, those of others 1/2 to 3/2 in steps of 1/64.
EXACT_SCALES = (1.0, 2.0)
SCALES = tuple(i / 64 for i in range(32, 97))
_SCALE_SEED = 1 << 20  # apart from the seeds of operands
_BLOCK_ELEMENTS = (
    1 << 24
)  # generated at a time, so that the GPU needs little beyond the operand itself


@dataclass(frozen=True)
class Operands:
    """A (M, K) and B (N, K) as raw storage; `kind` selects the gates that apply."""

    a: Array
    b: Array
    kind: str  # "exact", "normal", "unit_variance", "full_range", "constant"
    note: str
    scales: Scales | None = None

    def stored(self, operand: str) -> Array:
        """What a kernel reads as operand `a` or `b`."""
        return getattr(self, operand)


@dataclass(frozen=True)
class ExactPlan:
    """Nonzero integers -amplitude..amplitude, one at a random place in every `gap` consecutive
    elements of K.
    """

    amplitude: int
    gap: int


def _mean_square(amplitude: int) -> float:
    """Mean square of an integer drawn evenly from -amplitude..-1, 1..amplitude."""
    return (amplitude + 1) * (2 * amplitude + 1) / 6


def exact_plan(k: int, numerics: Numerics, least: int = 1) -> ExactPlan:
    """The densest integers for which a product of length `k` is exact in accumulator and output.

    least  amplitude that is wanted at any rate, for which the integers become sparser

    Every partial sum, in any order, is at most |a||b| (Cauchy-Schwarz over nonzeros), which must
    not exceed the accumulator's last exact integer. The final sum must be exact in the output
    format: certain if |a||b| is below its last exact integer, else by OUTPUT_DEVIATIONS standard
    deviations of a sum of random signs.
    """
    accumulator = numerics.exact_sum
    scale = EXACT_SCALES if numerics.block_k else (1.0,)
    spread = sum(x * x for x in scale) / len(scale)  # root mean square of a product of two
    output = number_format(numerics.output).exact_integer
    for gap in range(1, max(k, 1) + 1):
        nonzeros = -(-k // gap)
        most = LARGEST_INTEGER if gap == 1 else least
        for amplitude in range(most, least - 1, -1):
            largest = nonzeros * (amplitude * max(scale)) ** 2
            overlap = nonzeros / gap
            deviation = math.sqrt(overlap) * _mean_square(amplitude) * spread
            in_output = largest <= output or OUTPUT_DEVIATIONS * deviation <= output
            if largest <= accumulator and in_output:
                return ExactPlan(amplitude, gap)
    raise VerifyError(f"no integers keep a sum of {k} products exact in {numerics.accumulator}")


def exact_block(rng: Any, xp: Any, rows: int, k: int, plan: ExactPlan) -> Array:
    groups = -(-k // plan.gap)
    magnitude = rng.integers(1, plan.amplitude + 1, size=(rows, groups))
    sign = 2 * rng.integers(0, 2, size=(rows, groups)) - 1
    values = (magnitude * sign).astype("float32")
    if plan.gap == 1:
        return values
    place = rng.integers(0, plan.gap, size=(rows, groups))
    here = xp.arange(plan.gap) == place[:, :, None]
    return (values[:, :, None] * here).astype("float32").reshape(rows, -1)[:, :k]


def matrix(rows: int, k: int, name: str, seed: int, xp: Any, block: Any) -> Array:
    """Raw storage (rows, k) filled by `block(rng, count)` -> float32 (count, k), a few rows at a
    time.
    """
    rng = xp.random.default_rng(seed)
    out = xp.empty((rows, k), dtype=number_format(name).storage)
    step = max(1, _BLOCK_ELEMENTS // max(k, 1))
    for start in range(0, rows if k else 0, step):
        count = min(step, rows - start)
        out[start : start + count] = from_float32(block(rng, count), name)
    return out


def _pair(m: int, n: int, k: int, numerics: Numerics, seed: int, xp: Any, block: Any) -> tuple:
    a = matrix(m, k, numerics.a, 2 * seed, xp, block)
    return a, matrix(n, k, numerics.b, 2 * seed + 1, xp, block)


def _scales(
    m: int, n: int, k: int, numerics: Numerics, values: tuple[float, ...], seed: int, xp: Any
) -> Scales | None:
    return make_scales(m, n, k, numerics.block_k, values, _SCALE_SEED + seed, xp)


def exact(m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np) -> Operands:
    """Integers whose product is exact whatever the order of additions.

    Signs, sizes and places are random, so any two rows, tiles or K tiles differ and a mix-up
    changes the result.
    """
    plan = exact_plan(k, numerics)
    a, b = _pair(m, n, k, numerics, seed, xp, lambda rng, r: exact_block(rng, xp, r, k, plan))
    place = "every element" if plan.gap == 1 else f"one element in {plan.gap}"
    note = f"integers up to {plan.amplitude} in {place}, seed {seed}"
    scales = _scales(m, n, k, numerics, EXACT_SCALES, seed, xp)
    return Operands(a, b, "exact", note, scales)


def normal(m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np) -> Operands:
    """N(0, 1) operands."""

    def block(rng: Any, rows: int) -> Array:
        return rng.standard_normal((rows, k), dtype=np.float32)

    a, b = _pair(m, n, k, numerics, seed, xp, block)
    scales = _scales(m, n, k, numerics, SCALES, seed, xp)
    return Operands(a, b, "normal", f"normal, deviation 1, seed {seed}", scales)


def unit_variance(
    m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np
) -> Operands:
    """N(0, 1) scaled by K**-1/4 in both operands, so that outputs have deviation 1."""
    scale = np.float32(max(k, 1) ** -0.25)

    def block(rng: Any, rows: int) -> Array:
        return rng.standard_normal((rows, k), dtype=np.float32) * scale

    a, b = _pair(m, n, k, numerics, seed, xp, block)
    scales = _scales(m, n, k, numerics, SCALES, seed, xp)
    return Operands(a, b, "unit_variance", f"normal, deviation K^-1/4, seed {seed}", scales)


def constant(
    m: int, n: int, k: int, numerics: Numerics, value_a: float, value_b: float, *, xp: Any = np
) -> Operands:
    """One value per operand: shows where an accumulator overflows or stops growing."""
    a = from_float32(xp.full((m, k), value_a, dtype="float32"), numerics.a)
    b = from_float32(xp.full((n, k), value_b, dtype="float32"), numerics.b)
    scales = _scales(m, n, k, numerics, (1.0,), 0, xp)
    return Operands(a, b, "constant", f"A = {value_a:g}, B = {value_b:g}", scales)


def full_range(
    m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np
) -> Operands:
    """Integers over the whole range of s8, or as much of it as keeps s32 sums from wrapping."""
    largest = min(
        int(number_format(numerics.a).largest), math.isqrt(numerics.exact_sum // max(k, 1))
    )

    def block(rng: Any, rows: int) -> Array:
        return rng.integers(-largest, largest + 1, size=(rows, k)).astype("float32")

    a, b = _pair(m, n, k, numerics, seed, xp, block)
    return Operands(a, b, "full_range", f"integers up to {largest}, seed {seed}")


def random_kind(numerics: Numerics) -> str:
    """The kind of operands that stands for any: what is timed, and judged beside small integers."""
    return "full_range" if numerics.has_integers else "normal"


GENERATORS = {
    "exact": exact,
    "normal": normal,
    "unit_variance": unit_variance,
    "full_range": full_range,
}
"""Generators by kind; all take (m, n, k, numerics, *, seed, xp)."""
