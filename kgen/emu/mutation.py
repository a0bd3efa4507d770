"""Mutants: copies of a kernel with one synchronisation, copy or fence instruction deleted, skipped
or altered.

They measure the emulator: a mutant that no finding and no wrong result betrays is either equivalent
to the kernel, or a gap of the emulator.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kgen.emu.api import check_launch
from kgen.emu.grid import Grid
from kgen.emu.isa import single_constants
from kgen.emu.launch import Launch
from kgen.emu.program import Program
from kgen.emu.ptx import Imm, Instruction, Kernel, Mem, Operand, Reg

_DELETED = (
    *("fence", "membar", "bar.", "barrier.", "st.release", "red.release", "stmatrix"),
    *("mbarrier.arrive", "mbarrier.init", "mbarrier.expect_tx"),
    *("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"),
    *("cp.async.bulk", "cp.reduce.async.bulk", "setmaxnreg", "griddepcontrol.wait", "st.global"),
)
_ORDERING = ("fence", "membar", "bar", "wgmma", "mbarrier.try_wait", "cp.async.bulk.wait")
_NOTHING = Instruction("pmevent", (Imm(0),))


Found = tuple[str, str, str]


@dataclass(frozen=True)
class Edit:
    """Replaces the instruction at `pc`."""

    pc: int
    instruction: Instruction


@dataclass(frozen=True)
class Mutant:
    """What was done, where, and the edit that does it."""

    name: str
    pc: int
    edit: Edit


@dataclass(frozen=True)
class Case:
    """A launch, and the outputs that are right."""

    launch: Launch
    expected: dict[str, np.ndarray]


@dataclass
class Outcome:
    """How a mutant fared. `findings` are (kind, PTX place, other party)."""

    mutant: Mutant
    place: str
    findings: set[Found] = field(default_factory=set)
    wrong_result: bool = False
    partners: list[str] = field(default_factory=list)  # of a survivor: what else does its job

    @property
    def caught(self) -> bool:
        return bool(self.findings) or self.wrong_result


def _replace(instruction: Instruction, index: int, operand: Operand) -> Instruction:
    changed = copy.copy(instruction)
    operands = list(instruction.operands)
    operands[index] = operand
    changed.operands = tuple(operands)
    return changed


def _like(instruction: Instruction, opcode: str, operands: tuple[Operand, ...]) -> Instruction:
    return Instruction(opcode, operands, None, False, instruction.line, instruction.location)


def mutants(kernel: Kernel) -> list[Mutant]:
    """Every mutant of a kernel, in the order of its code."""
    constants = single_constants(kernel.code)
    found: list[Mutant] = []
    stores: set[tuple[str, str]] = set()
    for pc, instruction in enumerate(kernel.code):
        if instruction.opcode.startswith("st.global"):  # unrolled loops: one of a kind is enough
            kind = (instruction.opcode, str(instruction.location))
            if kind in stores:
                continue
            stores.add(kind)
        for what, changed in _changes(instruction, constants):
            found.append(Mutant(f"{what} {instruction.opcode}", pc, Edit(pc, changed)))
    return found


def _changes(
    instruction: Instruction, constants: dict[str, int]
) -> Iterator[tuple[str, Instruction]]:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode.startswith(_DELETED) and not opcode.startswith("bar.warp"):
        yield "delete", _like(instruction, _NOTHING.opcode, _NOTHING.operands)
    if "multicast::cluster" in opcode:
        for rank in (0, 1):
            yield f"only to CTA {rank}:", _replace(instruction, 3, Imm(1 << rank))
    if opcode.startswith("mbarrier.try_wait"):
        yield "skip", _like(instruction, "setp.eq.b32", (operands[0], Imm(0), Imm(0)))
        if instruction.has("parity"):
            yield from _altered(instruction, 2, constants, lambda v: {v ^ 1}, "parity")
    if opcode.startswith(("wgmma.wait_group", "cp.async.bulk.wait_group")):
        allowed = operands[0]
        if isinstance(allowed, Imm):
            yield "wait for one less:", _replace(instruction, 0, Imm(allowed.value + 1))
    if opcode.startswith("mbarrier.init"):
        yield from _altered(
            instruction, 1, constants, lambda v: {v + 1, v - 1, 2 * v} - {0, v}, "count"
        )
    if "expect_tx" in opcode:
        index = next(i for i, operand in enumerate(operands) if isinstance(operand, Mem)) + 1
        yield from _altered(
            instruction, index, constants, lambda v: {v + 16, v - 16, v // 2, 2 * v}, "bytes"
        )
    if opcode.startswith(("bar.sync", "barrier.sync", "bar.arrive")) and len(operands) > 1:
        yield from _altered(instruction, 1, constants, lambda v: {v + 32, v - 32} - {0}, "threads")
    if opcode == "xor.b32" and Imm(1) in operands:
        yield "no flip:", _replace(instruction, 2, Imm(0))


def _altered(instruction, index, constants, values, what) -> Iterator[tuple[str, Instruction]]:
    """Other values for an operand that is a constant."""
    operand = instruction.operands[index]
    value: int | None = None
    if isinstance(operand, Imm):
        value = operand.value
    elif isinstance(operand, Reg):
        value = constants.get(operand.name)
    if value is None:
        return
    for other in sorted(values(value)):
        yield f"{what} {value} -> {other}:", _replace(instruction, index, Imm(other))


def apply(kernel: Kernel, edits: Sequence[Edit]) -> Program:
    """The mutated kernel, ready to run."""
    mutated = copy.copy(kernel)
    mutated.code = list(kernel.code)
    for edit in edits:
        mutated.code[edit.pc] = edit.instruction
    return Program(mutated)


def run(
    kernel: Kernel,
    edits: Sequence[Edit],
    cases: Sequence[Case],
    schedules: Sequence[str],
    max_steps: int,
    all_runs: bool,
) -> tuple[set[Found], bool]:
    """(findings, wrong result) over cases and schedules; stops at the first finding unless
    all_runs.
    """
    program = apply(kernel, edits)
    findings: set[Found] = set()
    wrong = False
    for case in cases:
        check_launch(program, case.launch)
        for schedule in schedules:
            report = Grid(program, case.launch, schedule, max_steps).run()
            findings |= {(f.kind, f.ptx, f.other) for f in report.findings if f.level != "review"}
            wrong |= any(
                not np.array_equal(report.outputs[name], bits)
                for name, bits in case.expected.items()
            )
            if findings and not all_runs:
                return findings, wrong
    return findings, wrong


def measure(
    program: Program,
    cases: Sequence[Case],
    schedules: Sequence[str],
    max_steps: int,
    only: Sequence[Mutant] | None = None,
) -> list[Outcome]:
    """Runs every mutant, and looks for the partners of those that survive."""
    kernel = program.kernel
    outcomes: list[Outcome] = []
    for mutant in mutants(kernel) if only is None else only:
        findings, wrong = run(kernel, [mutant.edit], cases, schedules, max_steps, all_runs=False)
        outcomes.append(Outcome(mutant, program.place(mutant.pc), findings, wrong))
    for outcome in outcomes:
        if not outcome.caught:
            for schedule in schedules:  # each brings out other partners; the first answer will do
                outcome.partners = partners(program, outcome.mutant, cases, (schedule,), max_steps)
                if outcome.partners:
                    break
    return outcomes


def partners(
    program: Program,
    survivor: Mutant,
    cases: Sequence[Case],
    schedules: Sequence[str],
    max_steps: int,
) -> list[str]:
    """Fences and waits next to which the survivor is redundant.

    Deleting both brings a finding, or a wrong result, that deleting the other alone does not. Other
    instructions of the same opcode are tried first; the search ends with the first kind that
    answers.
    """
    kernel = program.kernel
    opcode = kernel.code[survivor.pc].opcode
    others = [
        other
        for other in mutants(kernel)
        if other.pc != survivor.pc
        and other.name.startswith(("delete", "skip"))
        and kernel.code[other.pc].opcode.startswith(_ORDERING)
    ]
    same = [other for other in others if kernel.code[other.pc].opcode == opcode]
    different = [other for other in others if kernel.code[other.pc].opcode != opcode]
    groups = [[[other] for other in same], [same], [[other] for other in different]]
    for group in groups:
        found: list[str] = []
        for together in group:
            edits = [other.edit for other in together]
            alone = run(kernel, edits, cases, schedules, max_steps, all_runs=True)
            both = run(kernel, [survivor.edit, *edits], cases, schedules, max_steps, all_runs=True)
            if both[0] - alone[0] or (both[1] and not alone[1]):
                found += [f"{kernel.code[o.pc].opcode} at {program.place(o.pc)}" for o in together]
        if found:
            return found
    if opcode.startswith("mbarrier.arrive") and _same_phases(program, survivor, cases, max_steps):
        return ["no wait: nobody waits for the phase that this arrival completes"]
    return []


def _same_phases(program: Program, survivor: Mutant, cases: Sequence[Case], max_steps: int) -> bool:
    """Whether every warp sees the same phases of every mbarrier with and without the mutation."""
    mutated = apply(program.kernel, [survivor.edit])
    for case in cases:
        seen: list[list[dict[tuple[int, int], int]]] = []
        for version in (program, mutated):
            grid = Grid(version, case.launch, "early", max_steps)
            grid.run()
            seen.append([warp.seen_phase for warp in grid.warps])
        if seen[0] != seen[1]:
            return False
    return True


def summary(outcomes: Sequence[Outcome]) -> str:
    """Counts, and every survivor with its partners."""
    by_finding = sum(bool(outcome.findings) for outcome in outcomes)
    caught = sum(outcome.caught for outcome in outcomes)
    total = len(outcomes)
    lines = [
        f"{total} mutants: {by_finding} caught by a finding, {caught} in all "
        f"({100 * caught / max(total, 1):.1f} %)"
    ]
    for outcome in outcomes:
        if outcome.caught and not outcome.findings:
            lines.append(f"  by result only: {outcome.mutant.name} at {outcome.place}")
        if not outcome.caught:
            why = "; ".join(outcome.partners) or "NO PARTNER"
            lines.append(
                f"  survivor: {outcome.mutant.name} at {outcome.place}: redundant next to {why}"
            )
    return "\n".join(lines)
