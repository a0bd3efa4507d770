"""Which lane and register holds which matrix element: wgmma, mma.sync, ldmatrix and stmatrix.

Every map has shape (registers, elements per register, lanes): lanes last, as registers are numpy
rows, and element 0 in the low bits of its register (`alu.pack`, `alu.unpack`). wgmma maps have 128
lanes, the four warps of the group in order; the others 32. Maps are cached and read-only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True, eq=False)
class FragmentMap:
    """Row and column of the matrix for each (register, element, lane).

    `shape` is that of the whole matrix; for B fragments rows are K and columns are N.
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    @property
    def registers(self) -> int:
        return self.rows.shape[0]

    @property
    def per_register(self) -> int:
        return self.rows.shape[1]

    def gather(self, matrix: np.ndarray) -> np.ndarray:
        """Matrix -> elements (registers, elements per register, lanes)."""
        return matrix[self.rows, self.columns]

    def scatter(self, elements: np.ndarray) -> np.ndarray:
        """Elements -> matrix, the inverse of gather."""
        matrix = np.empty(self.shape, elements.dtype)
        matrix[self.rows, self.columns] = elements
        return matrix


def _fragment(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> FragmentMap:
    rows, columns = np.broadcast_arrays(rows, columns)
    rows, columns = rows.astype(np.intp), columns.astype(np.intp)
    rows.flags.writeable = columns.flags.writeable = False
    return FragmentMap(rows, columns, shape)


def _axes(registers: int, per_register: int, lanes: int) -> tuple[np.ndarray, ...]:
    """Register, element, warp, lane / 4, lane % 4, ready to broadcast."""
    register = np.arange(registers)[:, None, None]
    element = np.arange(per_register)[None, :, None]
    thread = np.arange(lanes)[None, None, :]
    return register, element, thread // 32, thread % 32 // 4, thread % 4


@cache
def wgmma_accumulator(n: int, dtype: str = "f32") -> FragmentMap:
    """D of wgmma m64nN: f32 and s32 take N/2 registers, f16 N/4 with two neighbouring columns each.

    Source  PTX ISA, wgmma register fragments, D
    """
    if dtype == "f16":
        register, element, warp, group, quad = _axes(n // 4, 2, 128)
        j, half = register // 2, register % 2
    else:
        register, element, warp, group, quad = _axes(n // 2, 1, 128)
        j, half, element = register // 4, register // 2 % 2, register % 2
    return _fragment(16 * warp + group + 8 * half, 8 * j + 2 * quad + element, (64, n))


@cache
def wgmma_a(element_bytes: int) -> FragmentMap:
    """A of wgmma from registers: 4 registers, 64 rows x 32 bytes of K."""
    per = 4 // element_bytes
    register, element, warp, group, quad = _axes(4, per, 128)
    columns = 4 * per * (register // 2) + per * quad + element
    return _fragment(16 * warp + group + 8 * (register % 2), columns, (64, 8 * per))


@cache
def mma_a(k: int, element_bytes: int) -> FragmentMap:
    """A (16 x k) of mma.sync m16n8: rows alternate with the register, then 16-byte columns of K.

    Forms: k8 and k16 of 2 bytes, k4 and k8 of tf32, k16 and k32 of 1 byte.
    """
    per = 4 // element_bytes
    register, element, _, group, quad = _axes(2 * (k // (4 * per)), per, 32)
    columns = 4 * per * (register // 2) + per * quad + element
    return _fragment(group + 8 * (register % 2), columns, (16, k))


@cache
def mma_b(k: int, element_bytes: int) -> FragmentMap:
    """B (k x 8, rows are K) of mma.sync m16n8."""
    per = 4 // element_bytes
    register, element, _, group, quad = _axes(k // (4 * per), per, 32)
    return _fragment(4 * per * register + per * quad + element, group, (k, 8))


@cache
def mma_accumulator(dtype: str = "f32") -> FragmentMap:
    """C and D (16 x 8) of mma.sync m16n8: 4 registers of f32 or s32, 2 of f16."""
    if dtype == "f16":
        register, element, _, group, quad = _axes(2, 2, 32)
        half = register
    else:
        register, element, _, group, quad = _axes(4, 1, 32)
        half, element = register // 2, register % 2
    return _fragment(group + 8 * half, 2 * quad + element, (16, 8))


@dataclass(frozen=True, eq=False)
class MatrixAccess:
    """ldmatrix and stmatrix .m8n8 .b16: where each 16-bit element of each register lies.

    address_lane   lane whose address operand names the 16-byte row
    byte_offset    offset of the element in that row
    Shapes  (matrices, 2, 32 lanes)
    """

    address_lane: np.ndarray
    byte_offset: np.ndarray

    def addresses(self, lane_addresses: np.ndarray) -> np.ndarray:
        """Row addresses of the 32 lanes -> byte address of each element (matrices, 2, 32)."""
        return np.asarray(lane_addresses)[self.address_lane] + self.byte_offset


@cache
def matrix_access(matrices: int, trans: bool = False) -> MatrixAccess:
    """Lane map of ldmatrix / stmatrix .x1 .x2 .x4: lanes 8i .. 8i+7 give the row addresses of
    matrix i.

    Register i of lane l holds row l/4, columns 2(l%4) and +1 of matrix i; with .trans, of its
    transpose.
    Source  PTX ISA, ldmatrix and stmatrix
    """
    register, element, _, group, quad = _axes(matrices, 2, 32)
    row, column = np.broadcast_arrays(group, 2 * quad + element)
    if trans:
        row, column = column, row
    lane = (8 * register + row).astype(np.intp)
    offset = np.broadcast_to(2 * column, lane.shape).astype(np.intp)
    lane.flags.writeable = offset.flags.writeable = False
    return MatrixAccess(lane, offset)
