"""One ALU instruction -> lines of Python over uniform integers and rows of lanes."""

from __future__ import annotations

import numpy as np

from kgen.emu import inline, semantics
from kgen.emu.isa import UNMODELLED_SPECIALS
from kgen.emu.operand_rules import OperandError
from kgen.emu.operation import Operation, bits_of
from kgen.emu.ptx import Imm, Instruction, Not, Operand, Pair, Reg, Special, Sym, Vec
from kgen.emu.registers import SHARED_WINDOW, RegisterFile

_STORES = {"rows32": "R", "rows64": "Q", "rowsp": "P"}


def sx32(value: int) -> int:
    """Signed value of 32 bits."""
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def sx64(value: int) -> int:
    """Signed value of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def one32(value: int) -> np.ndarray:
    return np.array([value & 0xFFFF_FFFF], np.uint32)


def one64(value: int) -> np.ndarray:
    return np.array([value], np.uint64)


def one1(value: int) -> np.ndarray:
    return np.array([bool(value)])


_UFUNC_NAMES = (
    "add subtract multiply bitwise_and bitwise_or bitwise_xor invert left_shift right_shift "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "logical_not copyto"
)
_UFUNCS = _UFUNC_NAMES.split()
_NAMESPACE: dict[str, object] = {name: getattr(np, name) for name in _UFUNCS}
_NAMESPACE |= {"sx32": sx32, "sx64": sx64, "one1": one1, "one32": one32, "one64": one64}
_NAMESPACE |= {"i4": np.int32, "i8": np.int64, "f4": np.float32}


class InstructionLowering:
    """Writes the text of single instructions; `namespace` holds what the text refers to."""

    def __init__(self, registers: RegisterFile) -> None:
        self.registers = registers
        self.namespace = dict(_NAMESPACE)
        self.operations: dict[str, Operation | None] = {}

    def constant_name(self, value: object) -> str:
        name = f"K{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def operation(self, opcode: str) -> Operation | None:
        if opcode not in self.operations:
            self.operations[opcode] = semantics.operation(opcode)
        return self.operations[opcode]

    # ------------------------------------------------------------ operands as text

    def _text(self, operand: Operand, bits: int) -> str | None:
        """A register row, or a Python int expression."""
        registers = self.registers
        if isinstance(operand, Reg):
            slot = registers.slots[operand.name]
            return f"U[{slot.index}]" if slot.is_uniform else f"{_STORES[slot.kind]}[{slot.index}]"
        if isinstance(operand, Special) and operand.name.startswith(UNMODELLED_SPECIALS):
            return None
        if isinstance(operand, Special):
            if registers.is_varying(operand):
                return f"w.specials[{operand.name!r}]"
            return f"w.special({operand.name!r})"
        if isinstance(operand, Sym) and operand.name in registers.shared:
            return f"(w.cta.shared_window+{registers.shared[operand.name] + operand.offset})"
        value = registers.constant(operand, bits)
        return None if value is None else str(value)

    def _guard(self, instruction: Instruction) -> tuple[str, str]:
        """(prefix for a uniform guard, mask for a varying one)"""
        if instruction.guard is None:
            return "", ""
        text = self._text(instruction.guard, 1)
        if self.registers.is_varying(instruction.guard):
            return "", f"~{text}" if instruction.guard_negated else f"{text}"
        return f"if {'not ' if instruction.guard_negated else ''}{text}: ", ""

    # ------------------------------------------------------------ one instruction

    def lower(self, instruction: Instruction, masked: bool) -> list[str] | None:
        """Lines of Python, or None if this is not ALU work."""
        if not instruction.operands:
            return None
        destination, *sources = instruction.operands
        if instruction.root == "mov" and isinstance(destination, Vec):
            return self._unpack(instruction, masked)
        if instruction.root == "mov" and sources and isinstance(sources[0], Vec):
            return self._pack(instruction, masked)
        if instruction.root == "setp" and isinstance(destination, Pair):
            return self._setp_pair(instruction, masked)
        if not isinstance(destination, Reg):
            return None
        if instruction.root == "cvta":
            return self._cvta(instruction, masked)
        found = self.operation(instruction.opcode)
        if found is None or len(found.sources) != len(sources):
            return None
        return self._assign(instruction, destination, sources, found, masked)

    def _assign(
        self,
        instruction: Instruction,
        destination: Reg,
        sources: list[Operand],
        found: Operation,
        masked: bool,
    ) -> list[str] | None:
        texts: list[str] = []
        narrow = instruction.root == "cvt"  # may read and write wider registers than its types
        for operand, kind in zip(
            (destination, *sources), (found.result, *found.sources), strict=True
        ):
            self._check_width(operand, bits_of(kind), narrow)
        for source, kind in zip(sources, found.sources, strict=True):
            text = self._text(source, bits_of(kind))
            if text is None:
                return None
            texts.append(text)
        rows = [self.registers.is_varying(source) for source in sources]
        prefix, guard = self._guard(instruction)
        slot = self.registers.slots[destination.name]
        if not any(rows):
            value = inline.scalar(instruction.opcode, texts)
            if value is None:
                value = f"int({self._call(found, texts, rows)}[0])"
            if slot.is_uniform:
                return [f"{prefix}U[{slot.index}]={value}"]
            if slot.kind == "rowsp":  # a predicate may come as a literal 0 or 1
                value = f"bool({value})"
            texts, rows = [value], [False]
            statement = f"copyto({_STORES[slot.kind]}[{slot.index}],{value}{{where}})"
        else:
            statement = None
        out = f"{_STORES[slot.kind]}[{slot.index}]"
        where = self._where(guard, masked)
        if statement is not None:
            return [prefix + statement.replace("{where}", where)]
        line = inline.vector(instruction.opcode, texts, rows, out, where)
        if line is None:
            line = f"copyto({out},{self._call(found, texts, rows)}{where},casting='unsafe')"
        return [prefix + line]

    def _check_width(self, operand: Operand, bits: int, wider: bool) -> None:
        if isinstance(operand, Not):
            raise OperandError("'!' before an operand of an instruction that takes none")
        self.registers.check_class(operand, bits)
        if isinstance(operand, Special) and bits == 64 and self.registers.is_varying(operand):
            raise OperandError(f"{operand.name} has 32 bits, the instruction 64")
        if not isinstance(operand, Reg):
            return
        width = self.registers.slots[operand.name].bits
        if width != max(width, bits) or (width == 64 and bits < 64 and not wider):
            raise OperandError(f"{operand.name} has {width} bits, the instruction {bits}")

    @staticmethod
    def _where(guard: str, masked: bool) -> str:
        if guard and masked:
            return f",where=m&{guard}"
        if guard:
            return f",where={guard}"
        return ",where=m" if masked else ""

    def _call(self, found: Operation, texts: list[str], rows: list[bool]) -> str:
        name = self.constant_name(found.run)
        args = []
        for text, is_row, kind in zip(texts, rows, found.sources, strict=True):
            bits = bits_of(kind)
            wrap = "one1" if bits == 1 else "one64" if bits == 64 else "one32"
            args.append(text if is_row else f"{wrap}({text})")
        return f"{name}({','.join(args)})"

    # ------------------------------------------------------------ forms of their own

    def _derived(
        self, instruction: Instruction, opcode: str, operands: tuple[Operand, ...], masked: bool
    ) -> list[str] | None:
        return self.lower(
            Instruction(
                opcode, operands, instruction.guard, instruction.guard_negated, instruction.line
            ),
            masked,
        )

    def _cvta(self, instruction: Instruction, masked: bool) -> list[str] | None:
        """Generic addresses of shared memory sit in their own window; the other spaces are their
        own addresses.
        """
        destination, source = instruction.operands
        bits = bits_of(instruction.type)
        if not instruction.has("shared") and not instruction.has("shared::cta"):
            return self._derived(instruction, f"mov.b{bits}", (destination, source), masked)
        form = f"sub.u{bits}" if instruction.has("to") else f"add.u{bits}"
        return self._derived(instruction, form, (destination, source, Imm(SHARED_WINDOW)), masked)

    def _setp_pair(self, instruction: Instruction, masked: bool) -> list[str] | None:
        """setp p|q: q is the comparison negated, before the boolean operator."""
        pair = instruction.operands[0]
        if (
            not isinstance(pair, Pair)
            or instruction.guard is not None
            or len(instruction.operands) != 3
        ):
            return None
        first = self._derived(
            instruction, instruction.opcode, (pair.first, *instruction.operands[1:]), masked
        )
        second = self._derived(instruction, "not.pred", (pair.second, pair.first), masked)
        return None if first is None or second is None else first + second

    def _unpack(self, instruction: Instruction, masked: bool) -> list[str] | None:
        """mov.b64 {lo, hi}, a: element 0 is the low part."""
        destination, source = instruction.operands
        assert isinstance(destination, Vec)
        width = bits_of(instruction.type)
        part = width // len(destination.items)
        lines: list[str] = []
        for index, item in enumerate(destination.items):
            if item == Sym("_"):
                continue
            lowered = self._shifted(instruction, item, source, index * part, width, part, masked)
            if lowered is None:
                return None
            lines += lowered
        return lines

    def _shifted(
        self,
        instruction: Instruction,
        item: Operand,
        source: Operand,
        shift: int,
        width: int,
        part: int,
        masked: bool,
    ) -> list[str] | None:
        if not isinstance(item, Reg) or width not in (32, 64):
            return None
        dtype = np.uint64 if part == 64 else np.uint32
        keep = (1 << part) - 1

        def extract(row: np.ndarray) -> np.ndarray:
            return ((row >> row.dtype.type(shift)) & row.dtype.type(keep)).astype(dtype)

        kind = f"b{width}"
        return self._assign(
            Instruction("unpack", (item, source), instruction.guard, instruction.guard_negated),
            item,
            [source],
            Operation(f"b{part}", (kind,), extract),
            masked,
        )

    def _pack(self, instruction: Instruction, masked: bool) -> list[str] | None:
        """mov.b64 d, {lo, hi}"""
        destination, source = instruction.operands
        assert isinstance(source, Vec)
        width = bits_of(instruction.type)
        part = width // len(source.items)
        if not isinstance(destination, Reg) or width not in (32, 64):
            return None
        dtype = np.uint64 if width == 64 else np.uint32
        keep = (1 << part) - 1

        def join(*rows: np.ndarray) -> np.ndarray:
            total = np.zeros(np.broadcast_shapes(*[row.shape for row in rows]), dtype)
            for index, row in enumerate(rows):
                total |= (row.astype(dtype) & dtype(keep)) << dtype(index * part)
            return total

        found = Operation(f"b{width}", (f"b{part}",) * len(source.items), join)
        renamed = Instruction("pack", (), instruction.guard, instruction.guard_negated)
        return self._assign(renamed, destination, list(source.items), found, masked)
