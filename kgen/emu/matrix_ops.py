"""ldmatrix, stmatrix and mma.sync: matrices spread over the lanes of one warp.

Source  PTX ISA 9.7.14 (mma.sync, ldmatrix, stmatrix, movmatrix)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.fragments import matrix_access, mma_a, mma_accumulator, mma_b
from kgen.emu.isa import vector_items
from kgen.emu.machine import Cta, Fragment
from kgen.emu.numerics import decode_tile
from kgen.emu.operand_rules import OperandError
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles, require
from kgen.emu.ptx import Instruction, Operand
from kgen.emu.registers import WARP_LANES
from kgen.emu.shadow import WORD, Footprint
from kgen.emu.shared_access import check_mbarriers, in_bounds, resolve
from kgen.emu.tensor_core import accumulate

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

ROW_BYTES = 16  # of an 8 x 8 matrix of 16-bit elements


def _matrices(instruction: Instruction) -> int:
    return next(n for n in (1, 2, 4) if instruction.has(f"x{n}"))


def _check_count(found: list, count: int) -> None:
    if len(found) != count:
        raise OperandError(f"{len(found)} registers where the form has {count}")


def _rows_in_shared(warp: Warp, pc: int, addresses: np.ndarray) -> tuple[Cta, np.ndarray] | None:
    """The 8 rows of each matrix: the CTA and the byte offsets, checked for alignment and bounds."""
    if (addresses % ROW_BYTES).any():
        warp.grid.finding("alignment", f"a row address is not a multiple of {ROW_BYTES}", warp, pc)
        return None
    low = int(addresses.min())
    place = resolve(warp, low, pc)
    if place is None:
        return None
    cta, offset = place
    offsets = offset + (addresses - low)
    if not in_bounds(warp, cta, offset, int(offsets.max()) + ROW_BYTES, pc):
        return None
    return cta, offsets


def _footprint(offsets: np.ndarray) -> Footprint:
    words = offsets[:, None] // WORD + np.arange(ROW_BYTES // WORD)
    return Footprint.of_words(words.ravel())


@handles("stmatrix")
def store_matrix(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(
        instruction,
        "sync",
        "aligned",
        "m8n8",
        "x1",
        "x2",
        "x4",
        "trans",
        "shared",
        "shared::cta",
        "b16",
    )
    count = _matrices(instruction)
    layout = matrix_access(count, instruction.has("trans"))
    addresses = program.registers.addresses(instruction.operands[0])
    rows = [program.registers.row(item) for item in vector_items(instruction.operands[1])]
    _check_count(rows, count)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        lanes = addresses(warp, fragment)
        found = _rows_in_shared(warp, pc, lanes[: 8 * count])
        if found is None:
            return None
        cta, offsets = found
        footprint = _footprint(offsets)
        check_mbarriers(warp, cta, footprint.lo, footprint.hi, pc)
        warp.grid.check_access(warp, cta, footprint, pc, write=True, by_async=False)
        words = np.stack([row(warp, fragment) for row in rows])
        halves = np.moveaxis(
            np.ascontiguousarray(words).view(np.uint16).reshape(count, WARP_LANES, 2), 2, 1
        )
        places = np.zeros(WARP_LANES, np.int64)
        places[: 8 * count] = offsets
        cta.shared16[layout.addresses(places) // 2] = halves
        cta.shadow.record_write(footprint, warp.index, warp.order.now)
        cta.shadow.forget_origin(footprint)
        return None

    return run


@handles("ldmatrix")
def load_matrix(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(
        instruction,
        "sync",
        "aligned",
        "m8n8",
        "x1",
        "x2",
        "x4",
        "trans",
        "shared",
        "shared::cta",
        "b16",
    )
    count = _matrices(instruction)
    layout = matrix_access(count, instruction.has("trans"))
    addresses = program.registers.addresses(instruction.operands[1])
    setters = [program.registers.setter(item) for item in vector_items(instruction.operands[0])]
    _check_count(setters, count)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        lanes = addresses(warp, fragment)
        found = _rows_in_shared(warp, pc, lanes[: 8 * count])
        if found is None:
            return None
        cta, offsets = found
        footprint = _footprint(offsets)
        warp.grid.check_access(warp, cta, footprint, pc, write=False, by_async=False)
        cta.shadow.record_read(warp, footprint)
        places = np.zeros(WARP_LANES, np.int64)
        places[: 8 * count] = offsets
        halves = cta.shared16[layout.addresses(places) // 2]
        words = np.ascontiguousarray(np.moveaxis(halves, 1, 2)).view(np.uint32)[..., 0]
        for setter, word in zip(setters, words, strict=True):
            setter(warp, fragment, active, word)
        return None

    return run


@handles("movmatrix")
def transpose_matrix(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "sync", "aligned", "m8n8", "trans", "b16")
    setter = program.registers.setter(instruction.operands[0])
    row = program.registers.row(instruction.operands[1])
    lane = np.arange(WARP_LANES)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        halves = np.ascontiguousarray(row(warp, fragment)).view(np.uint16).reshape(WARP_LANES, 2)
        matrix = np.zeros((8, 8), np.uint16)
        for element in range(2):
            matrix[lane // 4, 2 * (lane % 4) + element] = halves[:, element]
        moved = matrix.T
        low = moved[lane // 4, 2 * (lane % 4)].astype(np.uint32)
        high = moved[lane // 4, 2 * (lane % 4) + 1].astype(np.uint32)
        setter(warp, fragment, active, low | high << np.uint32(16))
        return None

    return run


_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def _elements(words: np.ndarray, size: int) -> np.ndarray:
    """uint32 (registers, lanes) -> (registers, elements, lanes)"""
    registers, lanes = words.shape
    return np.moveaxis(
        np.ascontiguousarray(words).view(f"u{size}").reshape(registers, lanes, 4 // size), 2, 1
    )


@handles("mma.sync")
def multiply(program: Program, instruction: Instruction, pc: int) -> Handler:
    """mma.sync.aligned.m16n8kK.row.col.dtype.atype.btype.ctype d, a, b, c"""
    words = [p for p in instruction.parts[2:] if p not in ("aligned", "row", "col", "satfinite")]
    shape = re.fullmatch(r"m16n8k(\d+)", words[0])
    if (
        shape is None
        or len(words) != 5
        or words[1] not in ("f32", "f16", "s32")
        or words[1] != words[4]
    ):
        raise UnmodelledError(f"{instruction.opcode}: its form")
    dtype, atype, btype, k = words[1], words[2], words[3], int(shape.group(1))
    if atype not in _BYTES or btype not in _BYTES or _BYTES[atype] != _BYTES[btype]:
        raise UnmodelledError(f"{instruction.opcode}: {atype} x {btype}")
    size = _BYTES[atype]
    a_map, b_map, c_map = mma_a(k, size), mma_b(k, size), mma_accumulator(dtype)
    kind = "s32.satfinite" if instruction.has("satfinite") else dtype
    registers = program.registers

    def rows(operand: Operand) -> list:
        return [registers.row(item) for item in vector_items(operand)]

    d, a, b, c = instruction.operands
    setters = [registers.setter(item) for item in vector_items(d)]
    a_rows, b_rows, c_rows = rows(a), rows(b), rows(c)
    if (len(a_rows), len(b_rows), len(c_rows)) != (
        a_map.registers,
        b_map.registers,
        c_map.registers,
    ):
        raise UnmodelledError(f"{instruction.opcode}: register counts")
    _check_count(setters, c_map.registers)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def matrix(getters: list, layout, width: int) -> np.ndarray:
            return layout.scatter(
                _elements(np.stack([get(warp, fragment) for get in getters]), width)
            )

        left = decode_tile(matrix(a_rows, a_map, size), atype)
        right = decode_tile(matrix(b_rows, b_map, size), btype)
        width = 2 if dtype == "f16" else 4
        old = matrix(c_rows, c_map, width)
        values = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[dtype]
        total = accumulate(
            old.view(values).astype(np.int32 if dtype == "s32" else np.float32),
            left,
            right.T,
            kind,
            (atype, btype),
        )
        bits = np.ascontiguousarray(total.astype(values)).view(f"u{width}")
        parts = np.moveaxis(c_map.gather(bits), 1, 2)
        for setter, word in zip(
            setters, np.ascontiguousarray(parts).view(np.uint32)[..., 0], strict=True
        ):
            setter(warp, fragment, active, word)
        return None

    return run
