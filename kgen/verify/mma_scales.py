"""Operands with scales: elements, block scales, and the values that both mean together.

Knows no reference and no gate: these see the values, as float32. Every block draws its own scale,
so that a kernel which mixes them up computes something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import VerifyError
from kgen.verify import inputs
from kgen.verify.arrays import Array
from kgen.verify.inputs import ExactPlan, Operands, exact_block, exact_plan, matrix
from kgen.verify.numbers import MmaScaling, Numerics, to_float32

ALPHA = 0.5  # the global scale of every case: exact, and a kernel that forgets it is off by two
LEAST_AMPLITUDE = 4  # of exact values: elements up to 2, scales of 1 and 2 at least


@dataclass(frozen=True, kw_only=True)
class ScaledOperands(Operands):
    """a (M, K) and b (N, K) are values, float32; alpha is contained in a.

    Shapes  elements: a (M, K), b (N, K), one pattern an element; mma_scales: (rows, K / block) of
            a and b, or none
    """

    elements: tuple[Array, Array]
    mma_scales: tuple[Array, ...]
    alpha: float

    def stored(self, operand: str) -> Array:
        """The elements of an operand, which is what a kernel reads."""
        return self.elements["ab".index(operand)]


def _operands(
    size: tuple[int, int, int],
    scaling: MmaScaling,
    described: tuple[str, str],
    element: Callable[[Any, int, int], Array],
    scale: Callable[[Any, int, int], Array],
    seed: int,
    xp: Any,
) -> ScaledOperands:
    """Operands of M x N x K, of a kind and with a note.

    element, scale  make float32 blocks: (generator, rows, columns) -> (rows, columns)
    """
    m, n, k = size

    def one(rows: int, name: str, first: int) -> tuple[Array, Array | None, Array]:
        bits = matrix(rows, k, name, first, xp, lambda rng, r: element(rng, r, k))
        values, form = to_float32(bits, name), scaling.scale
        if not form:
            return bits, None, values
        count = -(-k // scaling.block)
        scales = matrix(rows, count, form, first + 1, xp, lambda rng, r: scale(rng, r, count))
        wide = to_float32(scales, form).repeat(scaling.block, axis=1)[:, :k]
        return bits, scales, values * wide

    alpha = ALPHA if scaling.takes_global else 1.0
    bits_a, scales_a, a = one(m, scaling.a, 4 * seed)
    bits_b, scales_b, b = one(n, scaling.b, 4 * seed + 2)
    a = a * np.float32(alpha)
    kind, note = described
    bits, scales = (bits_a, bits_b), tuple(x for x in (scales_a, scales_b) if x is not None)
    return ScaledOperands(a, b, kind, note, elements=bits, mma_scales=scales, alpha=alpha)


def _scaling(numerics: Numerics) -> MmaScaling:
    if numerics.scaling is None:
        raise VerifyError("these operands are for a kernel with scales")
    return numerics.scaling


def exact(
    m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np
) -> ScaledOperands:
    """Elements of 1 and 2 and scales that are powers of two, with products that are exact."""
    plan = exact_plan(k, numerics, LEAST_AMPLITUDE)
    powers = (
        plan.amplitude // 2
    ).bit_length()  # scales 1, 2, ... with element x scale <= amplitude

    def element(rng: Any, rows: int, columns: int) -> Array:
        return exact_block(rng, xp, rows, columns, ExactPlan(2, plan.gap))

    def scale(rng: Any, rows: int, columns: int) -> Array:
        return (1 << rng.integers(0, powers, size=(rows, columns))).astype("float32")

    place = "every element" if plan.gap == 1 else f"one element in {plan.gap}"
    note = f"1 and 2 in {place}, scales up to {1 << powers - 1}, seed {seed}"
    return _operands((m, n, k), _scaling(numerics), ("exact", note), element, scale, seed, xp)


def normal(
    m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np
) -> ScaledOperands:
    """N(0, 4) elements, rounded to their type, and scales from 1/4 to 4."""

    def element(rng: Any, rows: int, columns: int) -> Array:
        return 2 * rng.standard_normal((rows, columns), dtype=np.float32)

    def scale(rng: Any, rows: int, columns: int) -> Array:
        return 0.25 + 3.75 * rng.random((rows, columns), dtype=np.float32)

    note = f"normal, deviation 2, scales from 1/4 to 4, seed {seed}"
    return _operands((m, n, k), _scaling(numerics), ("normal", note), element, scale, seed, xp)


def make_operands(
    kind: str, m: int, n: int, k: int, numerics: Numerics, *, seed: int = 0, xp: Any = np
) -> Operands:
    """Operands of one kind for any kernel, with scales where it has them."""
    makers = {"exact": exact, "normal": normal} if numerics.scaling else inputs.GENERATORS
    return makers[kind](m, n, k, numerics, seed=seed, xp=xp)
