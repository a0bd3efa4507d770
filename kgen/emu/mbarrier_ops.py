"""The mbarrier instructions.

Source  PTX ISA 9.7.13.15 (mbarrier); parities and bytes as an H200 ran them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Fragment, Wait
from kgen.emu.mbarrier_rules import arrive, change_tx, complete, find, make, observe
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles, require
from kgen.emu.ptx import SINK, Instruction, Mem, Operand
from kgen.emu.shadow import Footprint
from kgen.emu.shared_access import in_bounds, resolve
from kgen.emu.sync import MAX_COUNT, Mbarrier

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

_SPACES = ("shared", "shared::cta", "shared::cluster", "b64")
STATE_BITS = 20  # the opaque state of an arrival: phase, then pending arrivals before it
_ORDER = ("release", "acquire", "relaxed", "cta", "cluster")


@dataclass
class MbarrierWait(Wait):
    """A parked try_wait, or a test_wait that polls."""

    barrier: Mbarrier
    phase: str  # as the instruction names it
    soft: bool = False

    def describe(self) -> str:
        return f"waits for {self.phase} of {self.barrier}: {self.barrier.state()}"


@handles("mbarrier.init")
def initialise(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "init", *_SPACES)
    address = program.registers.address(instruction.operands[0])
    count = program.registers.scalar(instruction.operands[1])

    def init(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        place = resolve(warp, address(warp, fragment), pc)
        if place is None or not in_bounds(warp, place[0], place[1], place[1] + 8, pc):
            return None
        cta, offset = place
        expected = count(warp, fragment)
        if offset % 8:
            warp.grid.finding("alignment", f"mbarrier at +{offset}, not a multiple of 8", warp, pc)
        if not 1 <= expected <= MAX_COUNT:
            warp.grid.finding(
                "operand", f"arrival count {expected} is not in 1..{MAX_COUNT}", warp, pc
            )
        if offset in cta.mbarriers:
            text = f"initialises {cta.mbarriers[offset]} again without mbarrier.inval"
            warp.grid.finding("mbarrier-overwritten", text, warp, pc)
        footprint = Footprint(offset, offset + 8)
        warp.grid.check_access(warp, cta, footprint, pc, write=True, by_async=False)
        make(warp, cta, offset, expected)
        cta.shadow.record_write(footprint, warp.index, warp.order.now)
        return None

    return init


@handles("mbarrier.inval")
def invalidate(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "inval", *_SPACES)
    address = program.registers.address(instruction.operands[0])

    def inval(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        barrier = find(warp, address(warp, fragment), pc)
        if barrier is not None:
            barrier.cta.mbarriers.pop(barrier.offset, None)
        return None

    return inval


def _per_address(
    program: Program, operand: Operand, act: Callable[[Warp, Fragment, np.ndarray, int], None]
) -> Handler:
    """Runs `act(warp, fragment, lanes, address)` once for each distinct address among the active
    lanes.
    """
    assert isinstance(operand, Mem)
    if not program.registers.is_varying(operand.base):
        single = program.registers.address(operand)

        def one(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
            act(warp, fragment, active, single(warp, fragment))
            return None

        return one
    rows = program.registers.addresses(operand)

    def each(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        addresses = rows(warp, fragment)
        for address in np.unique(addresses[active]):
            act(warp, fragment, active & (addresses == address), int(address))
        return None

    return each


@handles("mbarrier.arrive", "mbarrier.arrive_drop")
def arrival(program: Program, instruction: Instruction, pc: int) -> Handler:
    """mbarrier.arrive[.expect_tx][.sem.scope][.space].b64 state, [a] [, count or bytes]"""
    require(instruction, "arrive", "arrive_drop", "expect_tx", "noComplete", *_ORDER, *_SPACES)
    registers = program.registers
    operands = instruction.operands
    first_is_state = not isinstance(operands[0], Mem)
    state = operands[0] if first_is_state else SINK
    rest = list(operands[1:] if first_is_state else operands)
    setter = registers.setter(state)
    expects = instruction.has("expect_tx")
    drops = instruction.has("arrive_drop")
    relaxed = instruction.has("relaxed")
    amount = registers.scalar(rest[1]) if len(rest) > 1 else None

    def act(warp: Warp, fragment: Fragment, lanes: np.ndarray, address: int) -> None:
        barrier = find(warp, address, pc)
        if barrier is None:
            return
        threads = int(np.count_nonzero(lanes))
        value = amount(warp, fragment) if amount is not None else 1
        published = warp.order.release_relaxed() if relaxed else warp.order.release()
        setter(warp, fragment, lanes, barrier.phase << STATE_BITS | barrier.pending)
        if drops:
            barrier.expected -= threads
        if expects:
            arrive(warp, barrier, threads, value * threads, pc, published)
        else:
            arrive(warp, barrier, value * threads, 0, pc, published)

    return _per_address(program, rest[0], act)


@handles("mbarrier.expect_tx", "mbarrier.complete_tx")
def expect(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "expect_tx", "complete_tx", *_ORDER, *_SPACES)
    amount = program.registers.scalar(instruction.operands[1])
    sign = 1 if instruction.has("expect_tx") else -1

    def act(warp: Warp, fragment: Fragment, lanes: np.ndarray, address: int) -> None:
        barrier = find(warp, address, pc)
        if barrier is None:
            return
        barrier.gathered.join_order(warp.order.release_relaxed())
        change_tx(warp, barrier, sign * amount(warp, fragment) * int(np.count_nonzero(lanes)), pc)
        complete(warp, barrier)

    return _per_address(program, instruction.operands[0], act)


@handles("mbarrier.try_wait", "mbarrier.test_wait")
def wait(program: Program, instruction: Instruction, pc: int) -> Handler:
    """try_wait parks, after answering "not yet" once; test_wait answers, and parks when it asks
    again with nothing changed.
    """
    require(instruction, "try_wait", "test_wait", "parity", *_ORDER, *_SPACES)
    if instruction.has("shared::cluster"):
        raise UnmodelledError(f"{instruction.opcode}: a wait on another CTA's mbarrier")
    registers = program.registers
    answer = registers.setter(instruction.operands[0])
    address = registers.address(instruction.operands[1])
    by_parity = instruction.has("parity")
    phase = registers.scalar(instruction.operands[2], 32 if by_parity else 64)
    relaxed = instruction.has("relaxed")
    polls = instruction.has("test_wait")

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        barrier = find(warp, address(warp, fragment), pc)
        if barrier is None:
            return None
        wanted = phase(warp, fragment)
        over = barrier.has_completed(wanted) if by_parity else barrier.phase > wanted >> STATE_BITS
        if over:
            observe(warp, barrier, pc, relaxed)
            answer(warp, fragment, active, 1)
            return None
        name = f"the phase of parity {wanted & 1}" if by_parity else f"phase {wanted >> STATE_BITS}"
        if polls:
            version = warp.grid.version
            if warp.polled != (pc, version, barrier):
                warp.polled = (pc, version, barrier)
                answer(warp, fragment, active, 0)
                return None
            warp.polled = (-1, -1, None)
        elif (
            pc not in warp.timed_out
        ):  # the first time limit passes, so that the code for it runs too
            warp.timed_out.add(pc)
            answer(warp, fragment, active, 0)
            return None
        barrier.waiters.append((warp, fragment))
        return warp.grid.park(warp, fragment, MbarrierWait(barrier, name, soft=polls))

    return run


@handles("mbarrier.pending_count")
def pending_count(program: Program, instruction: Instruction, pc: int) -> Handler:
    """Pending arrivals out of the state that an arrival returned."""
    require(instruction, "pending_count", "b64")
    setter = program.registers.setter(instruction.operands[0])
    state = program.registers.row(instruction.operands[1], 64)

    def count(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        setter(warp, fragment, active, state(warp, fragment) & np.uint64((1 << STATE_BITS) - 1))
        return None

    return count
