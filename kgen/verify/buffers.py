"""Buffers around a problem: operands with poisoned padding, and an output between guard bands.
Knows no gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import VerifyError
from kgen.verify.numbers import Array, array_module, is_poison, number_format, poisoned

BASE_ALIGNMENT_BYTES = 256  # of a matrix whose offset is 0, as cudaMalloc gives at least
GUARD_BYTES = 4096  # on either side of the output: wider than one row of any 16-bit tile


@dataclass(frozen=True)
class PlacedMatrix:
    """A (rows, cols) view with a leading dimension, inside a flat buffer whose other elements are
    poison.

    Units  start, ld in elements; view[i, j] is buffer[start + i * ld + j]
    """

    buffer: Array
    view: Array
    start: int
    ld: int
    name: str


def _address(array: Array) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def place(
    rows: int, cols: int, ld: int, name: str, *, offset: int = 0, guard_bytes: int = 0, xp: Any = np
) -> PlacedMatrix:
    """An all-poison buffer and the matrix inside it, `offset` elements past an aligned address.

    Raises  VerifyError if a row does not fit in the leading dimension
    """
    size = number_format(name).bytes
    if rows > 1 and ld < cols:
        raise VerifyError(f"leading dimension {ld} is shorter than a row of {cols}")
    guard = -(-guard_bytes // size)
    span = (rows - 1) * ld + cols if rows and cols else 0
    slack = BASE_ALIGNMENT_BYTES // size
    buffer = poisoned((guard + slack + offset + span + guard,), name, xp)
    to_alignment = -(_address(buffer) // size + guard) % slack
    start = guard + to_alignment + offset
    if not span:
        return PlacedMatrix(buffer, buffer[:0].reshape(rows, cols), start, ld, name)
    view = xp.lib.stride_tricks.as_strided(
        buffer[start : start + span], (rows, cols), (ld * size, size)
    )
    return PlacedMatrix(buffer, view, start, ld, name)


def place_operand(matrix: Array, ld: int, name: str, *, offset: int = 0) -> PlacedMatrix:
    """A copy of an operand with leading dimension `ld`; everything around it is NaN, so that a
    stray read shows.

    Shapes  matrix (rows, K)
    """
    rows, cols = matrix.shape
    placed = place(rows, cols, ld, name, offset=offset, xp=array_module(matrix))
    placed.view[...] = matrix
    return placed


def place_output(
    m: int, n: int, ldd: int, name: str, *, offset: int = 0, xp: Any = np
) -> PlacedMatrix:
    """A poisoned output with poisoned guard bands before and behind it."""
    return place(m, n, ldd, name, offset=offset, guard_bytes=GUARD_BYTES, xp=xp)


def touched_outside(placed: PlacedMatrix) -> np.ndarray:
    """Flat buffer positions outside the matrix that no longer hold the poison, first ones first (at
    most 1000).
    """
    xp = array_module(placed.buffer)
    changed = ~is_poison(placed.buffer, placed.name)
    rows, cols = placed.view.shape
    if rows and cols:
        span = (rows - 1) * placed.ld + cols
        size = changed.itemsize
        inside = xp.lib.stride_tricks.as_strided(
            changed[placed.start : placed.start + span],
            (rows, cols),
            (placed.ld * size, size),
        )
        inside[...] = False
    positions = xp.flatnonzero(changed)[:1000]
    return positions if isinstance(positions, np.ndarray) else positions.get()
