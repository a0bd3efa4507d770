"""Where matrix elements lie in shared memory: swizzle and the wgmma matrix descriptor.

Addresses are bytes in the 18-bit shared-memory window of a CTA. The returned index arrays are
cached and read-only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

Major = Literal["k", "mn"]

SWIZZLE_WIDTHS = (0, 32, 64, 128)
"""Swizzle modes by the bytes of one swizzled row; 0 is no swizzle."""

_ROW_MASK = {0: 0, 32: 1, 64: 3, 128: 7}
_DESCRIPTOR_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}


def swizzle(address: np.ndarray, width: int) -> np.ndarray:
    """Swizzled byte address(es): the chunk number (bits 4 up) ^= the row number (bits 7 up).

    width 128 takes 3 bits of the row, 64 two, 32 one. The function is its own inverse and acts on
    absolute addresses.
    """
    if width == 0:
        return address
    return address ^ (((address >> 7) & _ROW_MASK[width]) << 4)


@dataclass(frozen=True)
class MatrixDescriptor:
    """The 64-bit shared-memory matrix descriptor of wgmma, all fields in bytes.

    start         address of element (0, 0), before swizzling
    leading       leading byte offset (LBO)
    stride        stride byte offset (SBO)
    base_offset   0..7, the row (of 128 bytes) in the swizzle pattern at which the pattern of this
                  tile starts
    swizzle       0, 32, 64 or 128
    Source  PTX ISA, asynchronous warpgroup-level matrix shared memory layout, matrix descriptor
    """

    start: int
    leading: int
    stride: int
    base_offset: int
    swizzle: int

    @classmethod
    def decode(cls, raw: int) -> MatrixDescriptor:
        return cls(
            start=(raw & 0x3FFF) << 4,
            leading=((raw >> 16) & 0x3FFF) << 4,
            stride=((raw >> 32) & 0x3FFF) << 4,
            base_offset=(raw >> 49) & 7,
            swizzle=_DESCRIPTOR_SWIZZLE[(raw >> 62) & 3],
        )

    def encode(self) -> int:
        mode = {width: code for code, width in _DESCRIPTOR_SWIZZLE.items()}[self.swizzle]
        return (
            (self.start & 0x3FFFF) >> 4
            | (self.leading & 0x3FFFF) >> 4 << 16
            | (self.stride & 0x3FFFF) >> 4 << 32
            | self.base_offset << 49
            | mode << 62
        )


@lru_cache(maxsize=8192)
def descriptor_addresses(
    raw: int, rows: int, k: int, element_bytes: int, major: Major = "k"
) -> np.ndarray:
    """Byte address of every element of one wgmma operand, int32 array of shape (rows, k).

    rows is M or N of the instruction, k its K; major "mn" is the trans form, which exists for
    2-byte elements only. Addresses wrap at the 18 bits that a descriptor can name.

    K-major: 8-row groups SBO apart, rows W bytes apart inside one. MN-major: 8-K groups and boxes
    of W bytes along MN; SBO is the step between the groups and LBO between the boxes, except
    without swizzle, where they trade places and W is 16.
    Source  PTX ISA, wgmma shared memory layout; the canonical layouts of CUTLASS
            (mma_sm90_desc.hpp)
    """
    desc = MatrixDescriptor.decode(raw)
    width = desc.swizzle or 16
    row = np.arange(rows, dtype=np.int64)[:, None]
    column = np.arange(k, dtype=np.int64)[None, :]
    if major == "k":
        byte = column * element_bytes
        linear = (row // 8) * desc.stride + (row % 8) * width
        # K of one instruction is 32 bytes, which one swizzled row holds: there LBO is unused.
        within = byte if desc.swizzle else byte // 16 * desc.leading + byte % 16
        linear = linear + within
    else:
        byte = row * element_bytes
        box, group = (desc.leading, desc.stride) if desc.swizzle else (desc.stride, desc.leading)
        linear = (byte // width) * box + byte % width
        linear = linear + (column // 8) * group + (column % 8) * width
    address = (desc.start + linear) & 0x3FFFF
    if desc.swizzle:
        row_bits = ((address >> 7) - desc.base_offset) & _ROW_MASK[desc.swizzle]
        address = address ^ (row_bits << 4)
    address = address.astype(np.int32)
    address.flags.writeable = False
    return address
