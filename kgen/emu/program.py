"""A kernel made ready to run: analysed, its ALU runs compiled on demand, every other instruction
bound to a handler.

A handler is a function (warp, fragment, active lanes) -> outcome. It is built once per instruction,
with its operands resolved, and shared by all grids, schedules and shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu import cfg, isa, operand_rules
from kgen.emu.lower import Lowering, Run
from kgen.emu.ptx import Imm, Instruction, Kernel, registers_of
from kgen.emu.registers import RegisterFile, UnmodelledError

if TYPE_CHECKING:
    from kgen.emu.machine import Fragment, Warp

UPPER_HALF = 0xFFFFFFFF_00000000  # of 64 bits
BLOCKED, PARTED, ENDED, YIELDED = "blocked", "parted", "ended", "yielded"
Outcome = int | str | None  # the next instruction, one of the words above, or None for "go on"
Handler = Callable[["Warp", "Fragment", np.ndarray], Outcome]
Builder = Callable[["Program", Instruction, int], Handler]

_BUILDERS: dict[str, Builder] = {}


def handles(*prefixes: str) -> Callable[[Builder], Builder]:
    """Registers a builder for opcodes that begin with a prefix; the longest prefix wins."""

    def register(builder: Builder) -> Builder:
        for prefix in prefixes:
            _BUILDERS[prefix] = builder
        return builder

    return register


def require(instruction: Instruction, *allowed: str) -> None:
    """Every modifier must be one that the builder models."""
    for modifier in instruction.parts[1:]:
        if modifier not in allowed:
            raise UnmodelledError(f"{instruction.opcode}: modifier .{modifier}")


def _builder_for(opcode: str) -> Builder | None:
    parts = opcode.split(".")
    for length in range(len(parts), 0, -1):
        found = _BUILDERS.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


class Program:
    """One kernel, ready to run."""

    def __init__(self, kernel: Kernel) -> None:
        operand_rules.check(kernel)
        self.kernel = kernel
        self.code = kernel.code
        self.flow = cfg.ControlFlow(kernel)
        self.registers = RegisterFile(kernel, self.flow)
        self.constants = isa.single_constants(kernel.code)
        self.wgmma_registers = frozenset(
            name
            for instruction, facts in zip(self.code, self.flow.effects, strict=True)
            if instruction.opcode.startswith("wgmma.mma_async")
            for name in (*facts.writes, *self._a_registers(instruction))
        )
        self.lowering = Lowering(kernel, self.flow, self.registers, self.wgmma_registers)
        self.wgmma_touch = [self._wgmma_touch(pc) for pc in range(len(self.code))]
        self.aligned = [self._is_aligned(instruction) for instruction in self.code]
        self.aligned.append(False)  # behind the last instruction, where a kernel may end as well
        self._wanted: dict[int, tuple[int, ...]] = {}
        self.unmodelled: dict[int, str] = {}
        self.handlers: list[Handler | None] = [self._bind(pc) for pc in range(len(self.code))]
        self._full: list[Run | None] = [None] * len(self.code)
        self._masked: list[Run | None] = [None] * len(self.code)

    @staticmethod
    def _a_registers(instruction: Instruction) -> tuple[str, ...]:
        """A operands in registers."""
        return tuple(
            name
            for operand in instruction.operands[1:2]
            for item in isa.vector_items(operand)
            for name in registers_of(item)
            if len(isa.vector_items(operand)) > 1
        )

    def _wgmma_touch(self, pc: int) -> frozenset[str]:
        """Registers of wgmma instructions that a handler reads or writes; wgmma itself looks after
        its own.
        """
        if self.code[pc].root == "wgmma":
            return frozenset()
        facts = self.flow.effects[pc]
        return self.wgmma_registers.intersection(facts.reads + facts.writes)

    @staticmethod
    def _is_aligned(instruction: Instruction) -> bool:
        if instruction.has("aligned"):
            return True
        return instruction.root == "bar" and not instruction.has("warp")

    def run_at(self, pc: int, full: bool) -> Run:
        """The compiled ALU run at pc."""
        store = self._full if full else self._masked
        run = store[pc]
        if run is None:
            run = self.lowering.run_at(pc, not full)
            assert run is not None
            store[pc] = run
        return run

    def wanted_uniform(self, pc: int) -> tuple[int, ...]:
        """Indices of the uniform registers whose values are still read from pc on."""
        if pc not in self._wanted:
            slots = [self.registers.slots.get(name) for name in self.flow.live_at(pc)]
            self._wanted[pc] = tuple(slot.index for slot in slots if slot and slot.is_uniform)
        return self._wanted[pc]

    def _bind(self, pc: int) -> Handler | None:
        """The handler of a non-ALU instruction; None for ALU work and for what is not modelled."""
        if self.lowering.is_alu[pc]:
            return None
        instruction = self.code[pc]
        builder = _builder_for(instruction.opcode)
        if builder is None:
            self.unmodelled[pc] = f"instruction {instruction.opcode}"
            return None
        try:
            with operand_rules.operands_of(instruction):
                handler = builder(self, instruction, pc)
        except UnmodelledError as reason:
            self.unmodelled[pc] = str(reason)
            return None
        if instruction.guard is None or instruction.root == "bra":
            return handler
        return self._guarded(instruction, handler)

    def _guarded(self, instruction: Instruction, handler: Handler) -> Handler:
        guard, negated = instruction.guard, instruction.guard_negated
        assert guard is not None
        if self.registers.is_varying(guard):
            row = self.registers.row(guard, 1)

            def some_lanes(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
                chosen = active & (~row(warp, fragment) if negated else row(warp, fragment))
                if not chosen.any():
                    return None
                mask, leader = fragment.mask, fragment.leader
                fragment.leader = int(chosen.argmax())
                try:
                    return handler(warp, fragment, chosen)
                finally:
                    if fragment.mask is mask:  # else lanes have parted, and it has a new leader
                        fragment.leader = leader

            return some_lanes
        value = self.registers.scalar(guard, 1)

        def all_or_none(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
            return (
                handler(warp, fragment, active) if bool(value(warp, fragment)) != negated else None
            )

        return all_or_none

    def place(self, pc: int) -> str:
        """`gemm.cu:123 ptx:456`, as far as it is known."""
        instruction = self.code[pc]
        location = str(instruction.location)
        return f"{location} ptx:{instruction.line}".strip()

    def wide_divisions(self) -> set[int]:
        """Blocks of one 64-bit division: the way that ptxas's front end takes when operands do not
        fit 32 bits, beside a short one for those that do. Exempt from coverage.

        Right behind the test of the upper halves, such a block may also compute the operands once
        more.
        """
        found: set[int] = set()
        for start, end in zip(self.flow.starts, self.flow.ends, strict=True):
            block = self.code[start:end]
            wide = [i for i in block if i.root in ("div", "rem")]
            if len(wide) != 1 or wide[0].type not in ("s64", "u64"):
                continue
            jumps = block[-1].root == "bra"
            if block[len(block) - 1 - jumps] is not wide[0]:
                continue
            operands = range(start, end - 1 - jumps)
            computed = all(self.lowering.is_alu[pc] for pc in operands)
            if not operands or (computed and self._tests_upper_halves(start)):
                found.update(range(start, end))
        return found

    def _tests_upper_halves(self, start: int) -> bool:
        """Whether a guarded jump stands before `start`, on upper halves of 64-bit values."""
        before = self.code[max(start - 3, 0) : start]
        return [i.root for i in before] == ["and", "setp", "bra"] and any(
            isinstance(x, Imm) and x.value % 2**64 == UPPER_HALF for x in before[0].operands
        )

    def bare_jumps(self) -> set[int]:
        """Blocks of one unguarded jump. Exempt from coverage: they do nothing that a case could
        show, and what they lead to counts by itself.
        """
        blocks = zip(self.flow.starts, self.flow.ends, strict=True)
        alone = (start for start, end in blocks if end == start + 1)
        return {pc for pc in alone if self.code[pc].root == "bra" and self.code[pc].guard is None}

    def trap_only(self) -> set[int]:
        """Instructions in blocks from which every path ends in a trap: exempt from coverage."""
        flow = self.flow
        doomed = {b for b in range(flow.exit) if self.code[flow.ends[b] - 1].root == "trap"}
        changed = True
        while changed:
            changed = False
            for block in range(flow.exit):
                after = flow.successors[block]
                if (
                    block not in doomed
                    and after
                    and all(successor in doomed for successor in after)
                ):
                    doomed.add(block)
                    changed = True
        return {pc for block in doomed for pc in range(flow.starts[block], flow.ends[block])}
