"""Which operands an instruction takes: how many, and of which class. Checked once, before anything
reads them.

Source  PTX ISA chapter 9, the syntax of each instruction
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kgen.emu.ptx import (
    SINK,
    Imm,
    Instruction,
    Kernel,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Sym,
    Vec,
)
from kgen.errors import EmulatorError


class OperandError(ValueError):
    """An operand that the instruction cannot take."""


_CLASSES: dict[str, tuple[str, tuple[type, ...]]] = {
    "d": ("a register", (Reg,)),
    "D": ("a register, a vector or a pair of registers", (Reg, Vec, Pair)),
    "s": ("a value", (Reg, Imm, Special, Sym, Not)),
    "S": ("a value or a vector", (Reg, Imm, Special, Sym, Not, Vec)),
    "v": ("a vector", (Vec,)),
    "p": ("a pair d|p", (Pair,)),
    "m": ("an address in brackets", (Mem,)),
    "i": ("a constant", (Imm,)),
    "l": ("a label", (Sym,)),
    "t": ("an operand", (Reg, Imm, Special, Sym, Not, Vec, Mem, Pair)),
}
"""Letter in a form -> name, operands of that class. A `?` behind the letter: may be left out."""

_TABLE: dict[str, str] = {
    "abs neg not cnot popc clz brev bfind rcp sqrt rsqrt sin cos lg2 ex2 tanh cvta": "d s",
    "add sub mul mul24 div rem and or xor shl shr copysign addc subc bmsk szext": "d s s",
    "mad fma mad24 madc sad bfe slct selp prmt shf dp4a dp2a fns": "d s s s",
    "min max set": "d s s s?",
    "ret exit trap brkpt griddepcontrol membar": "",
    "setmaxnreg nanosleep pmevent": "s",
    "bfi": "d s s s s",
    "lop3": "D s s s s s?",
    "setp": "D s s s?",
    "mov": "D S",
    "cvt": "d S s? s?",
    "bra": "l",
    "shfl.sync": "D s s s s",
    "vote.sync": "d s s",
    "match": "D s s",
    "redux": "d s s",
    "activemask": "d",
    "elect": "p s",
    "ld": "D m s?",
    "ldu": "D m",
    "st": "m S s?",
    "atom": "D m S S? s?",
    "red": "m S t?",
    "prefetch": "m s?",
    "prefetchu": "m",
    "mapa": "d s s",
    "getctarank": "d s",
    "bar.sync": "s s?",
    "bar.arrive": "s s",
    "bar.red": "d s s s?",
    "bar.warp": "s",
    "barrier.sync": "s s?",
    "barrier.arrive": "s s",
    "barrier.red": "d s s s?",
    "barrier.cluster": "",
    "fence": "m? s?",
    "mbarrier.init": "m s",
    "mbarrier.inval": "m",
    "mbarrier.arrive": "t t? t?",
    "mbarrier.arrive_drop": "t t? t?",
    "mbarrier.expect_tx": "m s",
    "mbarrier.complete_tx": "m s",
    "mbarrier.test_wait": "d m s",
    "mbarrier.try_wait": "d m s s?",
    "mbarrier.pending_count": "d s",
    "cp.async.ca": "m m s t? t?",
    "cp.async.cg": "m m s t? t?",
    "cp.async.commit_group": "",
    "cp.async.wait_group": "i",
    "cp.async.wait_all": "",
    "cp.async.mbarrier": "m",
    "cp.async.bulk": "m m s t? t? t?",
    "cp.async.bulk.commit_group": "",
    "cp.async.bulk.wait_group": "i",
    "cp.async.bulk.prefetch": "m s s?",
    "cp.async.bulk.prefetch.tensor": "m t? t?",
    "cp.async.bulk.tensor": "m m t? t? t?",
    "cp.reduce.async.bulk": "m m s t? t?",
    "cp.reduce.async.bulk.tensor": "m m t?",
    "ldmatrix": "D m",
    "stmatrix": "m S",
    "movmatrix": "d s",
    "mma.sync": "D S S S t? t? t?",
    "wgmma.mma_async": "v S s s s? s? s? s?",
    "wgmma.mma_async.sp": "v S s s s s? s? s? s? s?",
    "wgmma.fence": "",
    "wgmma.commit_group": "",
    "wgmma.wait_group": "i",
}
"""By the beginning of the opcode; the longest one counts. Other opcodes take anything."""

_FORMS = {opcode: form for opcodes, form in _TABLE.items() for opcode in opcodes.split()}


def form_of(opcode: str) -> str | None:
    """The operands of an opcode, as letters of _CLASSES."""
    if opcode.startswith("wgmma.mma_async") and ".sp." in opcode:
        return _FORMS["wgmma.mma_async.sp"]
    parts = opcode.split(".")
    for length in range(len(parts), 0, -1):
        found = _FORMS.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


def check(kernel: Kernel) -> None:
    """Raises EmulatorError for the first instruction whose operands are not those of its opcode."""
    for instruction in kernel.code:
        with operands_of(instruction):
            _check(instruction, kernel)


def _check(instruction: Instruction, kernel: Kernel) -> None:
    for operand in instruction.operands:
        _check_parts(operand)
    guard = instruction.guard
    if guard is not None and kernel.registers.get(guard.name) != "pred":
        raise OperandError(f"the guard {guard.name} is not a predicate")
    form = form_of(instruction.opcode)
    if form is None:
        return
    letters, found = form.split(), instruction.operands
    least = sum("?" not in letter for letter in letters)
    if not least <= len(found) <= len(letters):
        wanted = str(least) if least == len(letters) else f"{least} to {len(letters)}"
        raise OperandError(f"takes {wanted} operands, found {len(found)}")
    for number, (letter, operand) in enumerate(zip(letters, found, strict=False), 1):
        name, classes = _CLASSES[letter[0]]
        unwanted = operand == SINK and letter[0] in "sSm"
        if unwanted or not (
            isinstance(operand, classes) or (operand == SINK and letter[0] in "dD")
        ):
            raise OperandError(f"operand {number} is not {name}")


def _check_parts(operand: Operand) -> None:
    """What stands inside vectors, pairs, addresses and negations."""
    match operand:
        case Vec(items):
            if not items:
                raise OperandError("an empty vector")
            if not all(isinstance(item, (Reg, Imm, Special, Sym)) for item in items):
                raise OperandError("a vector of something other than registers and constants")
        case Pair(first, second):
            if not all(isinstance(part, Reg) or part == SINK for part in (first, second)):
                raise OperandError("a pair of something other than registers")
        case Mem(base, _, coords):
            if base == SINK or not isinstance(base, (Reg, Imm, Special, Sym)):
                raise OperandError("an address whose base is neither register nor variable")
            if not all(isinstance(part, (Reg, Imm, Special, Mem)) for part in coords):
                raise OperandError("coordinates that are neither registers nor constants")
        case Not(inner):
            if not isinstance(inner, Reg):
                raise OperandError("'!' before something that is not a predicate")


@contextmanager
def operands_of(instruction: Instruction) -> Iterator[None]:
    """Around whatever reads the operands of one instruction: what does not fit is an error in the
    PTX, and named with its line.
    """
    try:
        yield
    except OperandError as reason:
        what = str(reason)
    except (
        IndexError, ValueError, TypeError, KeyError, AttributeError, AssertionError, ArithmeticError
    ) as reason:  # fmt: skip
        what = f"operands that the instruction cannot take ({type(reason).__name__}: {reason})"
    else:
        return
    raise EmulatorError(f"ptx:{instruction.line}: {instruction.opcode}: {what}")
