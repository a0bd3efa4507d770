"""Where each register lives, and how operands are read and written at run time.

A uniform register is one Python integer in the fragment's list `uniform`; a varying one is a row of
32 lanes in the warp: `rows32` (registers of up to 32 bits), `rows64`, `rowsp` (predicates).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.cfg import ControlFlow
from kgen.emu.isa import UNMODELLED_SPECIALS, VARYING_SPECIALS
from kgen.emu.operand_rules import OperandError
from kgen.emu.operation import bits_of
from kgen.emu.ptx import SINK, Imm, Kernel, Mem, Operand, Reg, Special, Sym

if TYPE_CHECKING:
    from kgen.emu.machine import Fragment, Warp

WARP_LANES = 32
# Windows of the generic address space. Values are the emulator's own; only their being disjoint
# matters.
SHARED_WINDOW = 0x7F00_0000_0000
PARAM_WINDOW = 0x7E00_0000_0000
# The first 1024 bytes of shared memory belong to the system on sm_90 (facts: 1024 B reserved per
# CTA).
SHARED_BASE = 1024


class UnmodelledError(Exception):
    """This instruction, one of its modifiers or of its operands, is not modelled."""


Getter = Callable[["Warp", "Fragment"], int]
RowGetter = Callable[["Warp", "Fragment"], np.ndarray]
Setter = Callable[["Warp", "Fragment", np.ndarray, object], None]


@dataclass(frozen=True)
class Slot:
    """kind: uniform, rows32, rows64 or rowsp; index into that store; bits of the register."""

    kind: str
    index: int
    bits: int

    @property
    def is_uniform(self) -> bool:
        return self.kind == "uniform"


class RegisterFile:
    """The assignment of a kernel's registers to slots, and the addresses of its variables."""

    def __init__(self, kernel: Kernel, flow: ControlFlow) -> None:
        self.slots: dict[str, Slot] = {}
        self.counts = {"uniform": 0, "rows32": 0, "rows64": 0, "rowsp": 0}
        used = {name for facts in flow.effects for name in facts.writes + facts.reads}
        for name in kernel.registers:
            if name not in used:
                continue
            bits = bits_of(kernel.registers[name])
            kind = "uniform"
            if name in flow.varying:
                kind = "rowsp" if bits == 1 else "rows64" if bits == 64 else "rows32"
            self.slots[name] = Slot(kind, self.counts[kind], bits)
            self.counts[kind] += 1
        self.params = kernel.param_offsets()
        self.shared, self.static_bytes = kernel.shared_layout(SHARED_BASE)

    def is_varying(self, operand: Operand) -> bool:
        if isinstance(operand, Reg):
            return not self.slots[operand.name].is_uniform
        return isinstance(operand, Special) and operand.name in VARYING_SPECIALS

    def check_class(self, operand: Operand, bits: int) -> None:
        """Predicates and numbers do not stand for each other."""
        if isinstance(operand, Reg) and (self.slots[operand.name].bits == 1) != (bits == 1):
            wanted = "a predicate" if bits == 1 else "a number"
            raise OperandError(f"{operand.name} is not {wanted}")

    def constant(self, operand: Operand, bits: int) -> int | None:
        """The value of an operand that is the same in every CTA and warp, else None."""
        if isinstance(operand, Imm):
            return operand.value & ((1 << bits) - 1)
        if isinstance(operand, Sym) and operand.name in self.params:
            return PARAM_WINDOW + self.params[operand.name] + operand.offset
        return None

    def scalar(self, operand: Operand, bits: int = 32) -> Getter:
        """Reads an operand that must be the same in all active lanes: the first active lane's
        value.
        """
        if isinstance(operand, Reg):
            slot = self.slots[operand.name]
            index = slot.index
            self.check_class(operand, bits)
            if slot.is_uniform and slot.bits > bits:  # the low part is meant
                mask = (1 << bits) - 1
                return lambda warp, fragment: fragment.uniform[index] & mask
            if slot.is_uniform:
                return lambda warp, fragment: fragment.uniform[index]
            kind = slot.kind
            return lambda warp, fragment: int(getattr(warp, kind)[index][fragment.leader])
        if isinstance(operand, Special) and operand.name.startswith(UNMODELLED_SPECIALS):
            raise UnmodelledError(f"the special register {operand.name}")
        if isinstance(operand, Special):
            name = operand.name
            if name in VARYING_SPECIALS:
                return lambda warp, fragment: int(warp.lane_special(name)[fragment.leader])
            return lambda warp, fragment: warp.special(name)
        if isinstance(operand, Sym) and operand.name in self.shared:
            offset = self.shared[operand.name] + operand.offset
            return lambda warp, fragment: warp.cta.shared_window + offset
        value = self.constant(operand, bits)
        if value is not None:
            return lambda warp, fragment: value
        if isinstance(operand, Sym):
            raise UnmodelledError(f"the address of {operand.name}")
        raise OperandError(f"not a value: {type(operand).__name__}")

    def row(self, operand: Operand, bits: int = 32) -> RowGetter:
        """Reads an operand as 32 lanes."""
        if isinstance(operand, Reg) and self.is_varying(operand):
            slot = self.slots[operand.name]
            kind, index = slot.kind, slot.index
            self.check_class(operand, bits)
            return lambda warp, fragment: getattr(warp, kind)[index]
        if isinstance(operand, Special) and operand.name in VARYING_SPECIALS:
            name = operand.name
            return lambda warp, fragment: warp.lane_special(name)
        getter = self.scalar(operand, bits)
        dtype = np.uint64 if bits == 64 else np.uint32
        mask = (1 << 8 * dtype().itemsize) - 1
        return lambda warp, fragment: np.full(WARP_LANES, getter(warp, fragment) & mask, dtype)

    def setter(self, operand: Operand) -> Setter:
        """Writes an int, or 32 lanes of which the active ones count."""
        if operand == SINK:
            return lambda warp, fragment, active, value: None
        if not isinstance(operand, Reg):
            raise OperandError("the result is not a register")
        slot = self.slots.get(operand.name)
        if slot is None:  # declared, never read
            return lambda warp, fragment, active, value: None
        kind, index, mask = slot.kind, slot.index, (1 << slot.bits) - 1
        if slot.is_uniform:

            def write_uniform(
                warp: Warp, fragment: Fragment, active: np.ndarray, value: object
            ) -> None:
                if isinstance(value, np.ndarray):
                    value = value[int(active.argmax())]
                fragment.uniform[index] = int(value) & mask  # type: ignore[call-overload]

            return write_uniform

        def write_row(warp: Warp, fragment: Fragment, active: np.ndarray, value: object) -> None:
            np.copyto(getattr(warp, kind)[index], value, where=active, casting="unsafe")  # type: ignore[arg-type]

        return write_row

    def address(self, operand: Operand) -> Getter:
        """The address of a Mem operand that is the same in all active lanes."""
        assert isinstance(operand, Mem)
        base, offset = self.scalar(operand.base, 64), operand.offset
        if not offset:
            return base
        return lambda warp, fragment: base(warp, fragment) + offset

    def addresses(self, operand: Operand) -> RowGetter:
        """The addresses of a Mem operand, one per lane, as int64."""
        assert isinstance(operand, Mem)
        base, offset = self.row(operand.base, 64), operand.offset
        return lambda warp, fragment: base(warp, fragment).astype(np.int64) + offset
