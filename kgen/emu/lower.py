"""Straight-line runs of ALU instructions -> one Python function each.

Uniform results are Python integer arithmetic, varying ones numpy operations over 32 lanes. Runs of
one opcode over many registers (the conversions of an epilogue) become one operation over a matrix
of registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.emu.cfg import ControlFlow
from kgen.emu.lower_instruction import InstructionLowering
from kgen.emu.operand_rules import operands_of
from kgen.emu.operation import bits_of
from kgen.emu.ptx import Instruction, Kernel, Operand, Reg
from kgen.emu.registers import RegisterFile

_BATCH = 3  # fewer instructions than this are not worth a gather


@dataclass(frozen=True)
class Run:
    """A compiled straight-line run: `execute(warp, uniform, rows32, rows64, rowsp, matrix32,
    mask)`.
    """

    execute: Callable[..., None]
    start: int
    end: int  # index of the instruction after the run
    wgmma_touched: frozenset[str]  # registers of wgmma instructions that the run reads or writes
    wgmma_written: frozenset[str]


class Lowering(InstructionLowering):
    """Decides what is ALU work, and compiles it."""

    def __init__(
        self,
        kernel: Kernel,
        flow: ControlFlow,
        registers: RegisterFile,
        wgmma_registers: frozenset[str],
    ) -> None:
        super().__init__(registers)
        self.code = kernel.code
        self.flow = flow
        self.wgmma_registers = wgmma_registers
        self.is_alu = [self._lowers(instruction) for instruction in kernel.code]
        self._runs: dict[tuple[int, bool], Run] = {}

    def _lowers(self, instruction: Instruction) -> bool:
        with operands_of(instruction):
            return self.lower(instruction, False) is not None

    def run_at(self, pc: int, masked: bool) -> Run | None:
        """The run that starts at pc, or None if the instruction there is not ALU work."""
        if not self.is_alu[pc]:
            return None
        run = self._runs.get((pc, masked))
        if run is None:
            run = self._runs[(pc, masked)] = self._compile(pc, masked)
        return run

    def _compile(self, pc: int, masked: bool) -> Run:
        limit = self.flow.ends[self.flow.block_of[pc]]
        lines: list[str] = []
        end = pc
        while end < limit and self.is_alu[end]:
            batch = 0 if masked else self._batch_length(end, limit)
            if batch >= _BATCH:
                lines.append(self._batch(end, batch))
                end += batch
            else:
                lines += self.lower(self.code[end], masked) or []
                end += 1
        body = "\n ".join(lines)
        source = f"def run(w,U,R,Q,P,M,m):\n {body}\n"
        scope: dict[str, object] = {}
        exec(compile(source, f"<ptx {pc}:{end}>", "exec"), self.namespace, scope)
        facts = self.flow.effects[pc:end]
        written = self.wgmma_registers.intersection(name for f in facts for name in f.writes)
        touched = written | self.wgmma_registers.intersection(
            name for f in facts for name in f.reads
        )
        return Run(scope["run"], pc, end, touched, written)  # type: ignore[arg-type]

    # ------------------------------------------------------------ many registers at once

    def _batch_row(self, operand: Operand) -> int | None:
        """Row number of a varying 32-bit register."""
        if isinstance(operand, Reg):
            slot = self.registers.slots[operand.name]
            if slot.kind == "rows32":
                return slot.index
        return None

    def _batch_length(self, pc: int, limit: int) -> int:
        """How many instructions from pc on form one operation over register rows."""
        first = self.code[pc]
        found = self.operation(first.opcode)
        if found is None or bits_of(found.result) not in (16, 32):
            return 0
        written: set[int] = set()
        count = 0
        while pc + count < limit:
            instruction = self.code[pc + count]
            if instruction.opcode != first.opcode or instruction.guard is not None:
                break
            rows = [self._batch_row(operand) for operand in instruction.operands]
            if None in rows or len(rows) != len(found.sources) + 1:
                break
            if rows[0] in written or written.intersection(rows[1:]):
                break
            written.add(rows[0])  # type: ignore[arg-type]
            count += 1
        return count

    def _batch(self, pc: int, count: int) -> str:
        columns: list[str] = []
        group = self.code[pc : pc + count]
        for position in range(len(group[0].operands)):
            rows = [self._batch_row(instruction.operands[position]) for instruction in group]
            columns.append(f"M[{self.constant_name(np.array(rows))}]")
        found = self.operation(group[0].opcode)
        assert found is not None
        if group[0].root == "mov":
            return f"{columns[0]}={columns[1]}"
        return f"{columns[0]}={self.constant_name(found.run)}({','.join(columns[1:])})"
