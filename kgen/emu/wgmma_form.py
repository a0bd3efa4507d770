"""The forms of wgmma.mma_async that exist on sm_90a, read from an instruction.

Source  PTX ISA 9.7.15 (wgmma); every form taken by ptxas 13.0, and others refused
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from kgen.emu.operand_rules import OperandError
from kgen.emu.operands import OperandShape
from kgen.emu.program import Program, UnmodelledError
from kgen.emu.ptx import Imm, Instruction, Operand, Reg, Vec
from kgen.emu.tensor_core import ADDER, FP8_ADDER, Accumulator, Adder

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_ACCUMULATORS: dict[str, Accumulator] = {"f32": "f32", "f16": "f16", "s32": "s32"}
_K = {4: 8, 2: 16, 1: 32}  # K of an instruction by element bytes


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async as written: types, shape, and the immediates."""

    n: int
    k: int
    dtype: str
    atype: str
    btype: str
    satfinite: bool
    negate: bool  # scale-a x scale-b = -1
    a: OperandShape
    b: OperandShape
    a_registers: np.ndarray | None  # rows of the warp's matrix
    accumulators: np.ndarray

    @property
    def adder(self) -> Adder:
        return FP8_ADDER if self.a.element_bytes == 1 else ADDER

    @property
    def kind(self) -> Accumulator:
        return "s32.satfinite" if self.satfinite else _ACCUMULATORS[self.dtype]


def parse_form(program: Program, instruction: Instruction) -> Form:
    """The modifiers and operands of wgmma.mma_async, checked against the table of legal forms."""
    parts = [part for part in instruction.parts[2:] if part not in ("sync", "aligned", "satfinite")]
    shape = _SHAPE.fullmatch(parts[0]) if len(parts) == 4 else None
    if shape is None:
        raise UnmodelledError(f"{instruction.opcode}: its form")
    n, k = int(shape.group(1)), int(shape.group(2))
    dtype, atype, btype = parts[1:]
    integers = {"s8", "u8"}
    if atype not in _BYTES or btype not in _BYTES or dtype not in ("f32", "f16", "s32"):
        raise UnmodelledError(f"{instruction.opcode}: types {dtype} {atype} {btype}")
    size = _BYTES[atype]
    if k != _K[size] or _BYTES[btype] != size or n % 8 or not 8 <= n <= 256:
        raise UnmodelledError(f"{instruction.opcode}: no such shape for {atype} x {btype}")
    if (dtype == "s32") != (atype in integers) or (dtype == "f16" and atype in ("bf16", "tf32")):
        raise UnmodelledError(
            f"{instruction.opcode}: {dtype} does not accumulate {atype} x {btype}"
        )
    a_operand = instruction.operands[1]
    from_registers = isinstance(a_operand, Vec)
    immediates = [o.value if isinstance(o, Imm) else 1 for o in instruction.operands[4:]]
    scales, trans = ([], immediates) if dtype == "s32" else (immediates[:2], immediates[2:])
    trans_a, trans_b = (0, trans[0] if trans else 0) if from_registers else (*trans, 0, 0)[:2]
    return Form(
        n=n,
        k=k,
        dtype=dtype,
        atype=atype,
        btype=btype,
        satfinite=instruction.has("satfinite"),
        negate=bool(scales) and int(np.prod(scales)) < 0,
        a=OperandShape(64, k, atype, size, "mn" if trans_a else "k"),
        b=OperandShape(n, k, btype, size, "mn" if trans_b else "k"),
        a_registers=_rows(program, a_operand, 4) if from_registers else None,
        accumulators=_rows(program, instruction.operands[0], n // (4 if dtype == "f16" else 2)),
    )


def _rows(program: Program, operand: Operand, count: int) -> np.ndarray:
    """Rows of matrix32 that a register vector names."""
    assert isinstance(operand, Vec)
    if len(operand.items) != count:
        raise OperandError(f"{len(operand.items)} registers where the form has {count}")
    rows = []
    for item in operand.items:
        if not isinstance(item, Reg) or program.registers.slots[item.name].kind != "rows32":
            raise OperandError("the matrix is not in registers of 32 bits")
        rows.append(program.registers.slots[item.name].index)
    return np.array(rows)
