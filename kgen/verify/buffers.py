"""Buffers around a problem: operands with poisoned padding, and an output between guard bands.
Knows no gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import VerifyError
from kgen.verify.numbers import Array, array_module, is_poison, number_format, poisoned, to_host

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

    Raises  VerifyError if rows overlap
    """
    size = number_format(name).bytes
    if rows > 1 and ld < cols:
        raise VerifyError(f"leading dimension {ld} is shorter than a row of {cols}")
    ld = max(ld, cols)  # one row needs no leading dimension, and may come with any
    guard = -(-guard_bytes // size)
    slack = BASE_ALIGNMENT_BYTES // size
    buffer = poisoned((guard + slack + offset + rows * ld + guard,), name, xp)
    to_alignment = -(_address(buffer) // size + guard) % slack
    start = guard + to_alignment + offset
    return PlacedMatrix(buffer, _window(buffer, start, rows, cols, ld), start, ld, name)


def _window(buffer: Array, start: int, rows: int, cols: int, ld: int) -> Array:
    """The (rows, cols) view of a flat buffer."""
    return buffer[start : start + rows * ld].reshape(rows, ld)[:, :cols]


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
    _window(changed, placed.start, rows, cols, placed.ld)[...] = False
    positions = xp.flatnonzero(changed)[:1000]
    return to_host(positions)
