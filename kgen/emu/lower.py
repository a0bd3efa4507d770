"""ALU instructions -> one Python function per straight-line run.

Uniform results are Python integer arithmetic, varying ones numpy operations over 32 lanes. Runs of
one opcode over
many registers (the conversions of an epilogue) become one operation over a matrix of registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import inline
from .cfg import ControlFlow
from .operation import Operation, bits_of
from .ptx import Imm, Instruction, Kernel, Operand, Pair, Reg, Special, Sym, Vec
from .registers import SHARED_WINDOW, RegisterFile
from .semantics import operation

_BATCH = 3  # fewer instructions than this are not worth a gather
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


_UFUNCS = [
    "add",
    "subtract",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "copyto",
]
_NAMESPACE: dict[str, object] = {name: getattr(np, name) for name in _UFUNCS}
_NAMESPACE |= {"sx32": sx32, "sx64": sx64, "one1": one1, "one32": one32, "one64": one64}
_NAMESPACE |= {"i4": np.int32, "i8": np.int64, "f4": np.float32}


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


class Lowering:
    """Decides what is ALU work, and compiles it."""

    def __init__(
        self,
        kernel: Kernel,
        flow: ControlFlow,
        registers: RegisterFile,
        wgmma_registers: frozenset[str],
    ) -> None:
        self.code = kernel.code
        self.flow = flow
        self.wgmma_registers = wgmma_registers
        self.registers = registers
        self.namespace = dict(_NAMESPACE)
        self.operations: dict[str, Operation | None] = {}
        self.is_alu = [self._lower(instruction, False) is not None for instruction in kernel.code]
        self._runs: dict[tuple[int, bool], Run] = {}

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
                lines += self._lower(self.code[end], masked) or []
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

    def _constant_name(self, value: object) -> str:
        name = f"K{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def _operation(self, opcode: str) -> Operation | None:
        if opcode not in self.operations:
            self.operations[opcode] = operation(opcode)
        return self.operations[opcode]

    # ------------------------------------------------------------ operands as text

    def _text(self, operand: Operand, bits: int) -> str | None:
        """A register row, or a Python int expression."""
        registers = self.registers
        if isinstance(operand, Reg):
            slot = registers.slots[operand.name]
            return f"U[{slot.index}]" if slot.is_uniform else f"{_STORES[slot.kind]}[{slot.index}]"
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

    def _lower(self, instruction: Instruction, masked: bool) -> list[str] | None:
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
        found = self._operation(instruction.opcode)
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

    @staticmethod
    def _where(guard: str, masked: bool) -> str:
        if guard and masked:
            return f",where=m&{guard}"
        if guard:
            return f",where={guard}"
        return ",where=m" if masked else ""

    def _call(self, found: Operation, texts: list[str], rows: list[bool]) -> str:
        name = self._constant_name(found.run)
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
        return self._lower(
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
        found = self._operation(first.opcode)
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
            columns.append(f"M[{self._constant_name(np.array(rows))}]")
        found = self._operation(group[0].opcode)
        assert found is not None
        if group[0].root == "mov":
            return f"{columns[0]}={columns[1]}"
        return f"{columns[0]}={self._constant_name(found.run)}({','.join(columns[1:])})"
