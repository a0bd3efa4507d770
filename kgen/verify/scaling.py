"""Block scales in verification: what they make of operands. Knows no kernel and no gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.verify.numbers import Array, array_module


@dataclass(frozen=True)
class Scales:
    """f32 scales of the blocks of A and B; the product is of the elements times their scales.

    Shapes  a (ceil(K / block), M): of a row of A; b (ceil(N / block), ceil(K / block))
    """

    a: Array
    b: Array
    block: int

    def of_a(self, rows: Array, k: int, count: int) -> Array:
        """Factors of A's elements in `rows`, from K index `k` on. Shape (rows, count)."""
        return self.a[self._blocks(k, count)][:, rows].T

    def of_b(self, columns: Array, k: int, count: int) -> Array:
        """Factors of B's elements for `columns` of D. Shape (columns, count)."""
        return self.b[columns // self.block][:, self._blocks(k, count)]

    def applied(self, a: Array, b: Array, k: int = 0) -> tuple[Array, Array]:
        """A and B with their scales, float64: exact for operands of 8 bits.

        Shapes  a (M, count), b (N, count): the elements from K index `k` on
        """
        xp = array_module(a)
        left, right = (xp.arange(x.shape[0]) for x in (a, b))
        count = a.shape[1]
        return (
            a.astype("float64") * self.of_a(left, k, count),
            b.astype("float64") * self.of_b(right, k, count),
        )

    def mean_square(self) -> float:
        """Of the factor that a product of two elements has."""
        a, b = (x.astype("float64") for x in (self.a, self.b))
        return float((a * a).mean()) * float((b * b).mean())

    def _blocks(self, k: int, count: int) -> Array:
        return array_module(self.a).arange(k, k + count) // self.block


def make_scales(
    m: int, n: int, k: int, block: int, values: tuple[float, ...], seed: int, xp: Any = np
) -> Scales | None:
    """Scales drawn evenly from `values`; None where `block` is 0: the operands have none."""
    if not block:
        return None
    rng, choices = xp.random.default_rng(seed), xp.asarray(np.array(values, "float32"))
    blocks = -(-k // block)
    a, b = (
        choices[rng.integers(0, len(values), size=shape)]
        for shape in ((blocks, m), (-(-n // block), blocks))
    )
    return Scales(a, b, block)
