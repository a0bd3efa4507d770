"""Matrix operands in shared memory: decoded once per content, with a summary of where their
elements came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.layout import Major, descriptor_addresses
from kgen.emu.numerics import decode_tile
from kgen.emu.shadow import UNIT, UNKNOWN, WORD, Footprint

if TYPE_CHECKING:
    from kgen.emu.machine import Cta

_MAX_CONTIGUOUS = 8  # footprints of more pieces than this are kept as lists of words


@dataclass(frozen=True)
class OperandShape:
    """What names a tile besides its descriptor: rows is M or N, k the K of the instruction."""

    rows: int
    k: int
    dtype: str
    element_bytes: int
    major: Major

    def addresses(self, descriptor: int) -> np.ndarray:
        return descriptor_addresses(descriptor, self.rows, self.k, self.element_bytes, self.major)


Named = tuple[int, OperandShape]


@lru_cache(maxsize=4096)
def footprints(operands: tuple[Named, ...]) -> tuple[Footprint, ...]:
    """The bytes that some operands cover together: contiguous pieces, or one list of words."""
    words = [(shape.addresses(raw).ravel() // WORD) for raw, shape in operands]
    unique = np.unique(np.concatenate(words))
    breaks = np.flatnonzero(np.diff(unique) != 1) + 1
    if breaks.size >= _MAX_CONTIGUOUS:
        return (Footprint.of_words(unique),)
    pieces = np.split(unique, breaks)
    return tuple(Footprint(int(p[0]) * WORD, (int(p[-1]) + 1) * WORD) for p in pieces)


@dataclass(eq=False)
class Tile:
    """An operand's values (rows, k), and its origin if all of it came through TMA.

    k           K coordinate of each column, or None where the origin is unknown or a column mixes
                several
    mixed_row   a row whose K coordinates differ from row 0, or -1
    split_row   a row that mixes rows of the matrix, or -1
    """

    values: np.ndarray
    k: np.ndarray | None
    mixed_row: int
    split_row: int


class TileCache:
    """Tiles by descriptor, valid until their bytes change: the four warpgroups of a CTA read the
    same B.
    """

    def __init__(self) -> None:
        self._tiles: dict[Named, tuple[int, Tile]] = {}

    def get(self, cta: Cta, raw: int, shape: OperandShape) -> Tile:
        key = (raw, shape)
        addresses = shape.addresses(raw)
        version = cta.shadow.version(int(addresses.min()), int(addresses.max()))
        known = self._tiles.get(key)
        if known is not None and known[0] == version:
            return known[1]
        tile = _read(cta, addresses, shape)
        if len(self._tiles) > 512:
            self._tiles.clear()
        self._tiles[key] = (version, tile)
        return tile


def _read(cta: Cta, addresses: np.ndarray, shape: OperandShape) -> Tile:
    last = cta.shared.size - shape.element_bytes
    inside = np.minimum(addresses, last)
    memory = {1: cta.shared, 2: cta.shared16, 4: cta.shared32}[shape.element_bytes]
    values = decode_tile(memory[inside // shape.element_bytes], shape.dtype).astype(np.float64)
    origin = cta.shadow.provenance[inside // UNIT]
    if (origin == UNKNOWN).any():
        return Tile(values, None, -1, -1)
    inner, outer = origin & 0xFFFFFFFF, origin >> 32
    k, row = (inner, outer) if shape.major == "k" else (outer, inner)
    mixed = (k != k[:1]).any(axis=1)
    split = (row != row[:, :1]).any(axis=1)
    return Tile(
        values,
        k[0],
        int(mixed.argmax()) if mixed.any() else -1,
        int(split.argmax()) if split.any() else -1,
    )
