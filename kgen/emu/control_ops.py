"""Control flow, parameters, and hints.

Source  PTX ISA 9.7.12 (control flow), 9.7.9.8 (ld.param)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.converge import part
from kgen.emu.machine import Fragment
from kgen.emu.operation import bits_of
from kgen.emu.program import ENDED, PARTED, YIELDED, Handler, Outcome, Program, handles, require
from kgen.emu.ptx import Instruction, Mem, Vec
from kgen.emu.stepper import RunStoppedError

if TYPE_CHECKING:
    from kgen.emu.machine import Warp


@handles("bra")
def branch(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "uni")
    target, guard, negated = instruction.target, instruction.guard, instruction.guard_negated
    if guard is None:
        return lambda warp, fragment, active: target
    if not program.registers.is_varying(guard):
        value = program.registers.scalar(guard, 1)

        def uniform(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
            return target if bool(value(warp, fragment)) != negated else None

        return uniform
    row = program.registers.row(guard, 1)
    join = program.flow.join_of(pc)

    def diverging(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        predicate = row(warp, fragment)
        taken = fragment.mask & (~predicate if negated else predicate)
        count = int(np.count_nonzero(taken))
        if count == 0:
            return None
        if count == fragment.count:
            return target
        part(warp, fragment, taken, target, join)
        fragment.pc = pc + 1
        return PARTED

    return diverging


@handles("ret", "exit")
def end(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "uni")

    def leave(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        if active is fragment.mask or bool((active == fragment.mask).all()):
            warp.grid.end_fragment(warp, fragment)
            return ENDED
        ending = part(warp, fragment, active.copy(), pc, -1)
        fragment.pc = pc + 1
        warp.grid.end_fragment(warp, ending)
        return PARTED

    return leave


@handles("trap", "brkpt")
def trap(program: Program, instruction: Instruction, pc: int) -> Handler:
    def stop(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        warp.grid.finding("trap", f"{instruction.root} was reached", warp, pc)
        raise RunStoppedError

    return stop


@handles("ld.param")
def load_parameter(program: Program, instruction: Instruction, pc: int) -> Handler:
    registers = program.registers
    source = instruction.operands[1]
    assert isinstance(source, Mem)
    require(instruction, "param", "v2", "v4", instruction.type)
    size = bits_of(instruction.type) // 8
    destination = instruction.operands[0]
    items = destination.items if isinstance(destination, Vec) else (destination,)
    address = registers.address(source)
    setters = [registers.setter(item) for item in items]
    sign = instruction.type[0] == "s" and size < 4

    def load(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        at = address(warp, fragment)
        for index, setter in enumerate(setters):
            value = warp.grid.parameters.load(at + index * size, size)
            if sign and value >> (8 * size - 1):
                value = (value - (1 << (8 * size))) & 0xFFFFFFFF
            setter(warp, fragment, active, value)
        return None

    return load


@handles(
    "prefetch",
    "prefetchu",
    "cp.async.bulk.prefetch",
    "applypriority",
    "pmevent",
    "discard",
)
def no_effect(program: Program, instruction: Instruction, pc: int) -> Handler:
    """Hints: no effect on values or order."""
    return lambda warp, fragment, active: None


@handles("griddepcontrol")
def grid_dependency(program: Program, instruction: Instruction, pc: int) -> Handler:
    """wait: the grid before has ended, and what it wrote can be read. launch_dependents concerns
    the grid behind this one, which is not emulated.
    """
    require(instruction, "wait", "launch_dependents")
    waits = instruction.has("wait")

    def wait(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        previous = warp.grid.previous
        if waits and previous is not None:
            warp.order.knows.completed |= 1 << previous.number
            warp.order.knows.data |= 1 << previous.number
        return None

    return wait


@handles("nanosleep")
def sleep(program: Program, instruction: Instruction, pc: int) -> Handler:
    return lambda warp, fragment, active: YIELDED


@handles("createpolicy")
def cache_policy(program: Program, instruction: Instruction, pc: int) -> Handler:
    """Policies have no effect on values; their encoding is opaque."""
    setter = program.registers.setter(instruction.operands[0])

    def make(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        setter(warp, fragment, active, 0)
        return None

    return make
