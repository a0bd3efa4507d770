"""Shared-memory matrix descriptors of tcgen05: how an operand lies in a stage.

All strides in bytes. Sources: PTX ISA, "Shared memory descriptor" and "Canonical layouts" of
tcgen05; the address width of sm_107a from the CUTLASS 4 descriptor class. The codes differ from
those of wgmma; the two share nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIT = 16  # bytes; addresses and offsets count in it
_SWIZZLE_CODES = {0: 0, 128: 2, 64: 4, 32: 6}  # bits 61-63
_VERSION = 1 << 46
ROWS_PER_ATOM = 8


@dataclass(frozen=True)
class MatrixDescriptor:
    """Everything of a descriptor but its start address. leading and stride offsets in bytes."""

    swizzle_bytes: int
    leading: int
    stride: int

    @property
    def bits(self) -> int:
        """The 64 bits with a start address of 0."""
        code = _SWIZZLE_CODES[self.swizzle_bytes]
        return self.leading // UNIT << 16 | self.stride // UNIT << 32 | _VERSION | code << 61


def k_major(swizzle_bytes: int) -> MatrixDescriptor:
    """Rows of M or N, each `swizzle_bytes` of K long, 8 to an atom; atoms follow each other.

    The leading offset is not used by swizzled layouts and holds one unit.
    """
    return MatrixDescriptor(swizzle_bytes, UNIT, ROWS_PER_ATOM * swizzle_bytes)


def mn_major(swizzle_bytes: int, chunk_bytes: int) -> MatrixDescriptor:
    """Rows of K, each `swizzle_bytes` of M or N long, 8 to an atom.

    chunk_bytes  from one `swizzle_bytes` wide part of M or N to the next
    """
    return MatrixDescriptor(swizzle_bytes, chunk_bytes, ROWS_PER_ATOM * swizzle_bytes)


def scale_block() -> MatrixDescriptor:
    """One 512-byte block of scales as tcgen05.cp.32x128b reads it: 32 rows of 16 bytes."""
    return MatrixDescriptor(0, UNIT, ROWS_PER_ATOM * UNIT)
