"""Device functions: their bodies take the place of the calls, so that the rest of the emulator
knows no calls.

Every call gets a copy with registers of its own. A parameter becomes one register per piece that is
stored to it; a load takes the piece at its offset, or the low part of it. What cannot be expanded
stays a `call`, which is not modelled: functions that are not here, recursion, calls through a
register. Nor is a parameter that is read in other pieces; it stays an `ld.param`.

Source  PTX ISA 9.7.12 (call, ret), 5.1.6 (parameter state space), 7.1 (function declarations)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kgen.emu.isa import vector_items
from kgen.emu.operand_rules import operands_of
from kgen.emu.operation import bits_of
from kgen.emu.ptx import SINK, Instruction, Kernel, Mem, Not, Operand, Pair, Reg, Sym, Vec

_MAX_CODE = 1 << 18  # instructions of a kernel with all its calls expanded


@dataclass(frozen=True)
class Piece:
    """A part of a parameter: the register that holds it, and its width."""

    register: Reg
    bits: int


@dataclass
class _Copy:
    """One function being written out for one call. `tag` makes its names unique."""

    body: Kernel
    tag: str = ""
    calls: tuple[int, ...] = ()  # lines of the calls that led here, innermost first
    callers: tuple[str, ...] = ()
    bound: dict[str, str] = field(default_factory=dict)  # formal parameter -> the caller's


def expand_calls(kernel: Kernel, functions: dict[str, Kernel]) -> None:
    """Writes the bodies of called functions into the kernel's code."""
    if any(instruction.root == "call" for instruction in kernel.code):
        _Expansion(kernel, functions).run()


class _Expansion:
    def __init__(self, kernel: Kernel, functions: dict[str, Kernel]) -> None:
        self.kernel = kernel
        self.functions = functions
        self.code: list[Instruction] = []
        self.pieces: dict[str, dict[int, Piece]] = {}  # parameter -> byte offset -> piece
        self.count = 0

    def run(self) -> None:
        self._write(_Copy(replace(self.kernel)))
        self.kernel.code = self.code
        self._count_copies()

    def _count_copies(self) -> None:
        """Copies of one instruction stand on one line of the PTX."""
        by_line: dict[tuple[int, str], list[int]] = {}
        for index, instruction in enumerate(self.code):
            by_line.setdefault((instruction.line, instruction.root), []).append(index)
        self.kernel.copies = [tuple(pcs) for pcs in by_line.values() if len(pcs) > 1]

    def _write(self, copy: _Copy) -> None:
        starts: list[int] = []
        branches: list[tuple[int, int]] = []  # instruction, target in the body
        body = copy.body
        for instruction in body.code:
            starts.append(len(self.code))
            with operands_of(instruction):
                callee = self._callee(instruction, copy) if instruction.root == "call" else None
                renamed = self._renamed(instruction, copy)
            if callee is not None:
                self._write(callee)
                continue
            for new in renamed:
                if copy.tag and new.root == "ret":
                    new = replace(new, opcode="bra", operands=(Sym("end of the function"),))
                    branches.append((len(self.code), len(body.code)))
                elif new.root == "bra":
                    branches.append((len(self.code), instruction.target))
                self.code.append(new)
        starts.append(len(self.code))
        for index, target in branches:
            self.code[index].target = starts[target]

    # ------------------------------------------------------------ calls

    def _callee(self, call: Instruction, copy: _Copy) -> _Copy | None:
        """The function that a call reaches, its parameters bound; None if it stays a call."""
        operands = list(call.operands)
        if not operands:
            return None
        first = operands[0]
        results = list(first.items) if isinstance(first, Vec) else []
        if isinstance(first, Vec):
            operands.pop(0)
        target = operands[0] if operands else None
        arguments = vector_items(operands[1]) if len(operands) > 1 else ()
        function = self.functions.get(target.name) if isinstance(target, Sym) else None
        if (
            function is None
            or function.name in copy.callers
            or call.guard is not None
            or len(operands) > 2
            or len(self.code) + len(function.code) > _MAX_CODE
        ):
            return None
        formal = [variable.name for variable in (*function.results, *function.params)]
        actual = [*results, *arguments]
        if len(formal) != len(actual) or not all(isinstance(item, Sym) for item in actual):
            return None
        self.count += 1
        tag = f"&{self.count}"
        names = [self._parameter(item.name, copy) for item in actual if isinstance(item, Sym)]
        for name, kind in function.registers.items():
            self.kernel.registers[name + tag] = kind
        self.kernel.shared += [v for v in function.shared if v not in self.kernel.shared]
        line = call.location.inlined_at or call.location.line
        return _Copy(
            function,
            tag,
            (line, *copy.calls),
            (*copy.callers, function.name),
            dict(zip(formal, names, strict=True)),
        )

    @staticmethod
    def _parameter(name: str, copy: _Copy) -> str:
        return copy.bound.get(name, name + copy.tag)

    # ------------------------------------------------------------ instructions

    def _renamed(self, instruction: Instruction, copy: _Copy) -> list[Instruction]:
        new = replace(instruction)
        if copy.tag:
            new.operands = tuple(_rename(o, copy.tag) for o in instruction.operands)
            new.location = replace(instruction.location, calls=copy.calls)
            if new.guard is not None:
                new.guard = Reg(new.guard.name + copy.tag)
        if new.opcode.startswith("st.param"):
            return self._store(new, copy)
        if new.opcode.startswith("ld.param"):
            return self._load(new, copy)
        return [new]

    def _store(self, new: Instruction, copy: _Copy) -> list[Instruction]:
        address, value = new.operands
        if not isinstance(address, Mem) or not isinstance(address.base, Sym):
            return [new]
        name = self._parameter(address.base.name, copy)
        pieces = self.pieces.setdefault(name, {})
        bits = bits_of(new.type)
        made: list[Instruction] = []
        for index, item in enumerate(vector_items(value)):
            at = address.offset + address.base.offset + index * bits // 8
            register = Reg(f"{name}+{at}.{bits}")
            self.kernel.registers[register.name] = f"b{max(16, bits)}"
            pieces[at] = Piece(register, bits)
            made.append(self._move(new, register, item, bits))
        return made

    @staticmethod
    def _move(new: Instruction, to: Reg, value: Operand, bits: int) -> Instruction:
        return replace(new, opcode=f"mov.b{max(16, bits)}", operands=(to, value))

    def _load(self, new: Instruction, copy: _Copy) -> list[Instruction]:
        destination, address = new.operands
        if not isinstance(address, Mem) or not isinstance(address.base, Sym):
            return [new]
        pieces = self.pieces.get(self._parameter(address.base.name, copy))
        if pieces is None:
            return [new]
        bits = bits_of(new.type)
        made: list[Instruction] = []
        for index, item in enumerate(vector_items(destination)):
            piece = pieces.get(address.offset + address.base.offset + index * bits // 8)
            if item == SINK:
                continue
            if piece is None or piece.bits < bits or not isinstance(item, Reg):
                return [new]
            made.append(self._take(new, item, piece, bits))
        return made

    def _take(self, new: Instruction, to: Reg, piece: Piece, bits: int) -> Instruction:
        kind = self.kernel.registers.get(to.name, "")
        width = bits_of(kind) if kind else bits
        if piece.bits == bits == width:
            return self._move(new, to, piece.register, bits)
        sign = "s" if new.type[0] == "s" else "u"
        return replace(new, opcode=f"cvt.{sign}{width}.{sign}{bits}", operands=(to, piece.register))


def _rename(operand: Operand, tag: str) -> Operand:
    """The operand with the registers of one copy."""
    match operand:
        case Reg(name):
            return Reg(name + tag)
        case Mem(base, offset, coords):
            return Mem(_rename(base, tag), offset, tuple(_rename(c, tag) for c in coords))
        case Vec(items):
            return Vec(tuple(_rename(item, tag) for item in items))
        case Pair(first, second):
            return Pair(_rename(first, tag), _rename(second, tag))
        case Not(inner):
            return Not(_rename(inner, tag))
        case _:
            return operand
