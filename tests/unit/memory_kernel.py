"""A kernel that knows only its launch arguments: it reads the memory that they point at, as TMA and
the tensor cores do, and writes D. It shows that verification lays out what kernels want.

Scales are found index by index, by the definition of the PTX ISA, not by kgen's packing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum

import numpy as np

from kgen.dtypes import dtype
from kgen.minifloat import decode
from kgen.plan import KernelPlan, TensorMap
from kgen.plan.launch import ScaleMap
from kgen.run.arguments import Arguments, require_ok
from kgen.verify.numbers import from_float32, number_format, to_float32


class Mistake(Enum):
    """What a broken kernel may do; the value says what a reader would call it."""

    FIRST_SCALE = "the first of four packed scales serves for all"
    SCALE_ROWS = "scales of 64 rows further down"
    SWAPPED_PAIRS = "the two elements of every byte of A swap places"
    NO_ALPHA = "the global scale is forgotten"
    LOST_BLOCK = "the last block of K is not added"


def _bytes(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * max(count, 1)).from_address(address))[:count]


class MemoryKernel:
    """`kgen.run.Kernel` to verification."""

    def __init__(self, plan: KernelPlan, mistake: Mistake | None = None) -> None:
        self.plan, self.mistake = plan, mistake

    def prepare(self, x: Arguments) -> Callable[[], None]:
        """Raises LaunchError where a launcher refuses."""
        require_ok(self.plan, x)
        return lambda: self._run(x)

    def _run(self, x: Arguments) -> None:
        if x.is_empty:
            return
        a = self._values(self.plan.map_a, x, "m")
        b = self._values(self.plan.map_b, x, "n")
        if self.mistake is Mistake.LOST_BLOCK:
            a[:, -16:] = 0
        product = a @ b.T
        if self.plan.takes_global_scale and self.mistake is not Mistake.NO_ALPHA:
            product *= x.alpha
        name = self.plan.d_type.name
        out = from_float32(product.astype("float32"), name)
        size = self.plan.d_type.bytes
        memory = _bytes(x.d, ((x.m - 1) * x.ldd + x.n) * size).view(number_format(name).storage)
        for row in range(x.m):
            memory[row * x.ldd : row * x.ldd + x.n] = out[row]

    def _values(self, row: TensorMap, x: Arguments, rows: str) -> np.ndarray:
        """An operand (rows, K), float64, times its scales."""
        inner, outer = getattr(x, row.inner), getattr(x, row.outer)
        if x.k == 0:
            return np.zeros((getattr(x, rows), 0))
        ld, address = getattr(x, row.ld), getattr(x, row.pointer)
        kind = dtype(row.dtype.name)
        memory = _bytes(address, kind.bytes_of((outer - 1) * ld) + kind.bytes_of(inner))
        lines = [
            memory[kind.bytes_of(i * ld) : kind.bytes_of(i * ld) + kind.bytes_of(inner)]
            for i in range(outer)
        ]
        stored = np.stack(lines)
        if kind.bits == 4:
            pairs = [stored & 15, stored >> 4]
            if self.mistake is Mistake.SWAPPED_PAIRS and rows == "m":
                pairs.reverse()
            stored = np.stack(pairs, axis=-1).reshape(outer, inner)
        else:
            stored = stored.view(number_format(kind.name).storage)
        values = to_float32(stored, kind.name).astype("float64")
        values = values if row.inner == "k" else values.T
        for scale in self.plan.scale_maps:
            if scale.rows == rows:
                values = values * self._scales(scale, x, values.shape[0])
        return values

    def _scales(self, row: ScaleMap, x: Arguments, rows: int) -> np.ndarray:
        """Byte of scale s of row r: tiles of 128 rows x 4 scales, K first."""
        name = self.plan.budget.spec.gemm.block_scale.dtype  # type: ignore[union-attr]
        count = x.k // row.block
        r, s = np.arange(rows)[:, None], np.arange(count)[None, :]
        if self.mistake is Mistake.FIRST_SCALE:
            s = s // 4 * 4
        if self.mistake is Mistake.SCALE_ROWS:
            r = np.minimum(r + 64, rows - 1)
        tile = r // 128 * (count // 4) + s // 4
        offset = tile * 512 + r % 32 * 16 + r % 128 // 32 * 4 + s % 4
        memory = _bytes(getattr(x, row.pointer), -(-rows // 128) * (count // 4) * 512)
        return np.repeat(decode(memory[offset], name).astype("float64"), row.block, axis=1)
