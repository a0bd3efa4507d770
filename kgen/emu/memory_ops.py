"""Loads, stores and atomics: ld, st, atom, red, in global and shared memory.

Source  PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13.6 (atom), 9.7.13.7 (red)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.atomics import combine, is_modelled
from kgen.emu.isa import vector_items
from kgen.emu.machine import Fragment
from kgen.emu.operand_rules import OperandError
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles
from kgen.emu.ptx import SINK, Instruction, Operand
from kgen.emu.registers import WARP_LANES

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

from kgen.emu.memory_access import (
    Access,
    ParamPlace,
    Place,
    SharedPlace,
    acquire_from,
    element_index,
    element_view,
    is_poll,
    locate,
    parse_access,
    read_place,
    release_to,
    write_place,
)


def _items(operand: Operand, access: Access) -> tuple[Operand, ...]:
    items = vector_items(operand)
    if len(items) != access.count:
        raise OperandError(f"{len(items)} registers for {access.count} elements")
    return items


def _setters(program: Program, instruction: Instruction, access: Access) -> Callable[..., None]:
    """Writes (lanes, elements) into the destination registers; signed types are extended to the
    register.
    """
    items, size = _items(instruction.operands[0], access), access.size
    setters = [program.registers.setter(item) for item in items]
    signed = instruction.type[0] == "s" and size < 4
    width = np.uint64 if size == 8 else np.uint32

    def put(warp: Warp, fragment: Fragment, active: np.ndarray, values: np.ndarray) -> None:
        for position, setter in enumerate(setters):
            column = values[:, position]
            if signed:
                column = column.view(f"i{size}").astype(np.int32).view(np.uint32)
            row = np.zeros(WARP_LANES, width)
            row[active] = column
            setter(warp, fragment, active, row)

    return put


@handles("ld")
def load(program: Program, instruction: Instruction, pc: int) -> Handler:
    access = parse_access(instruction)
    addresses = program.registers.addresses(instruction.operands[1])
    put = _setters(program, instruction, access)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "reads")
        if place is None:
            put(warp, fragment, active, np.zeros((chosen.size, access.count), f"u{access.size}"))
            return None
        if access.synchronises:
            acquire_from(warp, chosen, access)
        values = read_place(warp, place, access, pc)
        put(warp, fragment, active, values)
        if access.synchronises and is_poll(
            warp, fragment, pc, values, f"address {int(chosen[0]):#x}"
        ):
            return "blocked"
        return None

    return run


def _rows(
    program: Program, operands: tuple, bits: int
) -> Callable[[Warp, Fragment, np.ndarray], np.ndarray]:
    """Reads registers of the active lanes as (lanes, elements)."""
    getters = [program.registers.row(operand, max(bits, 32)) for operand in operands]
    dtype = f"u{bits // 8}"

    def get(warp: Warp, fragment: Fragment, active: np.ndarray) -> np.ndarray:
        return np.stack(
            [getter(warp, fragment)[active].astype(dtype) for getter in getters], axis=1
        )

    return get


@handles("st")
def store(program: Program, instruction: Instruction, pc: int) -> Handler:
    if instruction.has("async") or instruction.has("bulk"):
        raise UnmodelledError(f"instruction {instruction.opcode}")
    access = parse_access(instruction)
    addresses = program.registers.addresses(instruction.operands[0])
    values = _rows(program, _items(instruction.operands[1], access), 8 * access.size)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "writes")
        if place is None:
            return None
        write_place(warp, place, access, values(warp, fragment, active), pc)
        if access.synchronises:
            release_to(warp, chosen, access)
        return None

    return run


_ATOMIC = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas", "noftz")


@handles("atom", "red")
def atomic(program: Program, instruction: Instruction, pc: int) -> Handler:
    """atom d, [a], b [, c] and red [a], b; lanes are served in order."""
    if instruction.has("async"):
        raise UnmodelledError(f"instruction {instruction.opcode}")
    access = parse_access(instruction, *_ATOMIC)
    operation = next((p for p in instruction.parts if p in _ATOMIC), "")
    if operation != "cas" and not is_modelled(operation, instruction.type):
        raise UnmodelledError(f"{instruction.opcode}: {operation}.{instruction.type}")
    has_result = instruction.root == "atom"
    pointer, *sources = instruction.operands[1:] if has_result else instruction.operands
    addresses = program.registers.addresses(pointer)
    vectors = [_rows(program, _items(source, access), 8 * access.size) for source in sources]
    put = (
        _setters(program, instruction, access)
        if has_result and instruction.operands[0] != SINK
        else None
    )
    ordered = Access(
        access.size, access.count, access.space, access.acquires, access.releases, True
    )

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "updates")
        if place is None:
            return None
        values = [get(warp, fragment, active) for get in vectors]
        acquire_from(warp, chosen, ordered)
        old = _update(place, access, operation, instruction.type, values)
        write_place(warp, place, ordered, old[1], pc, atomic=True)
        release_to(warp, chosen, ordered)
        if put is not None:
            put(warp, fragment, active, old[0])
            if operation == "cas" and is_poll(
                warp, fragment, pc, old[0], f"address {int(chosen[0]):#x}"
            ):
                return "blocked"
        return None

    return run


def _update(
    place: Place, access: Access, operation: str, dtype: str, values: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(what each lane read, what memory holds after all lanes), lane by lane."""
    assert not isinstance(place, ParamPlace)
    memory = place.cta.shared if isinstance(place, SharedPlace) else place.allocation.data
    elements = element_view(memory, access.size)
    index = element_index(place.offsets, access)
    before = np.zeros_like(values[0])
    work = {int(i): elements[int(i)] for i in index.ravel()}
    for lane, element in np.ndindex(index.shape):
        at = int(index[lane, element])
        old = np.array([work[at]], elements.dtype)
        before[lane, element] = old[0]
        new = values[0][lane : lane + 1, element]
        if operation == "cas":
            work[at] = values[1][lane, element] if old[0] == new[0] else old[0]
        else:
            work[at] = combine(operation, dtype, old, new)[0]
    after = np.array([work[int(i)] for i in index.ravel()], elements.dtype).reshape(index.shape)
    return before, after
