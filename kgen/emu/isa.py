"""What an instruction reads and writes, and whether its result is the same in every lane. Static
facts only.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.emu.ptx import Imm, Instruction, Mem, Operand, Pair, Reg, Vec, registers_of

_NO_RESULT = frozenset(
    [
        "st",
        "stmatrix",
        "bra",
        "brx",
        "bar",
        "barrier",
        "fence",
        "membar",
        "ret",
        "exit",
        "trap",
        "brkpt",
        "setmaxnreg",
        "red",
        "cp",
        "prefetch",
        "prefetchu",
        "griddepcontrol",
        "nanosleep",
        "applypriority",
        "discard",
        "tensormap",
        "call",
        "multimem",
        "pmevent",
    ]
)
_NO_RESULT_FORMS = (
    "mbarrier.init",
    "mbarrier.inval",
    "mbarrier.expect_tx",
    "mbarrier.complete_tx",
    "wgmma.fence",
    "wgmma.commit_group",
    "wgmma.wait_group",
)
VARYING_SPECIALS = frozenset(
    [
        "%tid.x",
        "%tid.y",
        "%tid.z",
        "%laneid",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
    ]
)
UNMODELLED_SPECIALS = ("%envreg", "%pm", "%aggr_smem_size")  # beginnings of their names
# Results that differ between lanes even when every operand is the same.
_PER_LANE = frozenset(
    ["atom", "ldmatrix", "movmatrix", "mma", "wgmma", "elect", "addc", "subc", "madc"]
)
# Results that are the same in every participating lane whatever the operands but the member mask.
_PER_WARP = frozenset(["vote", "activemask", "redux"])


@dataclass(frozen=True)
class Effects:
    """Registers by unique name; special registers appear among the reads."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]


def has_result(instruction: Instruction) -> bool:
    """Whether the first operand is a destination."""
    if instruction.root in ("bar", "barrier") and "red" in instruction.parts:
        return True
    if instruction.root in _NO_RESULT or instruction.opcode.startswith(_NO_RESULT_FORMS):
        return False
    return bool(instruction.operands)


def effects(instruction: Instruction) -> Effects:
    """Registers written and read. A guarded write also reads its destination, which keeps the old
    value.
    """
    writes: list[str] = []
    reads: list[str] = []
    sources = instruction.operands
    if has_result(instruction):
        destination = instruction.operands[0]
        sources = instruction.operands[1:]
        if not isinstance(destination, Mem):
            writes += list(registers_of(destination))
        else:
            reads += registers_of(destination)
    for operand in sources:
        reads += registers_of(operand)
    if instruction.opcode.startswith("wgmma.mma_async"):
        reads += writes
    if instruction.guard is not None:
        reads.append(instruction.guard.name)
        reads += writes
    return Effects(tuple(writes), tuple(reads))


def varying_results(
    instruction: Instruction, varying: set[str], constants: dict[str, int]
) -> tuple[str, ...]:
    """The written registers that may differ between lanes, given the registers known to vary.

    constants holds registers that are defined once, by a constant: a shuffle from such a lane is
    uniform.
    """
    root = instruction.root
    facts = effects(instruction)
    if instruction.guard is not None and instruction.guard.name in varying:
        return facts.writes
    if root in _PER_WARP or root == "elect":
        mask = instruction.operands[-1:]
        if any(name in varying for operand in mask for name in registers_of(operand)):
            return facts.writes  # several groups of lanes, each with an answer of its own
    if root in _PER_WARP:
        return ()
    if root == "elect":  # d is the leader's lane, p is true in one lane
        destination = instruction.operands[0]
        return tuple(registers_of(destination.second)) if isinstance(destination, Pair) else ()
    if root in _PER_LANE:
        return facts.writes
    if root == "shfl":
        return () if _is_broadcast(instruction, constants) else facts.writes
    if root == "mbarrier":
        return facts.writes if any(name in varying for name in facts.reads) else ()
    if root == "match":
        return facts.writes
    return facts.writes if any(name in varying for name in facts.reads) else ()


def _is_broadcast(instruction: Instruction, constants: dict[str, int]) -> bool:
    """shfl.sync.idx from a constant lane, with no segments narrower than the warp."""
    if not instruction.has("idx") or len(instruction.operands) < 4:
        return False
    lane, clamp = (_constant(operand, constants) for operand in instruction.operands[2:4])
    return lane is not None and clamp is not None and (clamp >> 8) & 31 == 0


def _constant(operand: Operand, constants: dict[str, int]) -> int | None:
    if isinstance(operand, Imm):
        return operand.value
    return constants.get(operand.name) if isinstance(operand, Reg) else None


def single_constants(code: list[Instruction]) -> dict[str, int]:
    """Registers with exactly one definition, which is `mov reg, constant`."""
    definitions: dict[str, list[Instruction]] = {}
    for instruction in code:
        for name in effects(instruction).writes:
            definitions.setdefault(name, []).append(instruction)
    found: dict[str, int] = {}
    for name, writers in definitions.items():
        only = writers[0]
        if len(writers) == 1 and only.root == "mov" and only.guard is None:
            source = only.operands[1]
            if isinstance(source, Imm):
                found[name] = source.value
    return found


def vector_items(operand: Operand) -> tuple[Operand, ...]:
    """The elements of {a, b}; a scalar operand is a vector of one."""
    return operand.items if isinstance(operand, Vec) else (operand,)
