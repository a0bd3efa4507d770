"""Instructions that name the lanes they need in a member mask: those wait for one another.

PTX lets the lanes come from different places in the code as long as opcode and mask agree. That is
modelled for bar.warp.sync; an exchange of values between different places is not. A lane that has
ended is not waited for.

Source  PTX ISA 9.7.9 (shfl, vote, match, redux), 9.7.13 (bar.warp.sync, elect.sync)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.converge import can_merge, merge, part
from kgen.emu.machine import Fragment, Wait, lane_bits
from kgen.emu.program import PARTED, Handler, Outcome, Program
from kgen.emu.ptx import Instruction, Operand
from kgen.emu.registers import UnmodelledError

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

FULL_MASK = 0xFFFFFFFF
_PROMISE_NOTHING = ("bar", "elect")  # the ISA speaks of threads here, elsewhere of non-exited ones


@dataclass
class MemberWait(Wait):
    """Lanes parked at an instruction until the other lanes it names have come."""

    opcode: str
    members: int
    here: int

    def describe(self) -> str:
        return (
            f"lanes {self.here:#010x} wait at {self.opcode} for the lanes that its member mask "
            f"{self.members:#010x} names"
        )


def with_members(
    program: Program, instruction: Instruction, members: Operand, pc: int, act: Handler
) -> Handler:
    """A handler that performs `act` once all named lanes are there, for all of them at once."""
    masks_of = program.registers.row(members)
    mask_of = program.registers.scalar(members)
    opcode = instruction.opcode

    def by_mask(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        """A mask of its own in each lane; where they differ, each names lanes that are here."""
        masks = masks_of(warp, fragment)
        distinct = [int(mask) for mask in np.unique(masks[active])]
        if len(distinct) == 1:
            return _meet(warp, fragment, active, distinct[0])
        for mask in distinct:
            group = active & (masks == mask)
            if mask & _live(warp) & ~lane_bits(group):
                raise UnmodelledError(f"{opcode}: lanes with different member masks that must wait")
            _perform(warp, fragment, group, mask)
        return None

    def by_one_mask(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        return _meet(warp, fragment, active, mask_of(warp, fragment) & FULL_MASK)

    def _meet(warp: Warp, fragment: Fragment, active: np.ndarray, named: int) -> Outcome:
        here = lane_bits(active)
        missing = named & _live(warp) & ~here
        if not missing:
            return _perform(warp, fragment, active, named)
        partners = [
            other
            for other in warp.fragments
            if isinstance(other.waiting, MemberWait)
            and (other.waiting.opcode, other.waiting.members) == (opcode, named)
            and other is not fragment
        ]
        for other in partners:
            missing &= ~other.bits
        if missing:
            return _wait(warp, fragment, active, MemberWait(opcode, named, here))
        waiting = fragment
        if here != fragment.bits:  # its other lanes are not concerned and go on
            waiting = part(warp, fragment, active.copy(), pc, pc + 1)
            fragment.pc = pc + 1
        for other in partners:
            warp.grid.timeline.resume(warp.grid, warp, other)
            other.waiting = None
            if other.pc == pc and can_merge(program, waiting, other):
                merge(waiting, other)
                warp.fragments.remove(other)
            elif instruction.has("warp"):
                other.pc += 1
            else:
                raise UnmodelledError(f"{opcode}: lanes that come from different places")
        _perform(warp, waiting, waiting.mask, named)
        waiting.pc = pc + 1
        return PARTED

    def _wait(warp: Warp, fragment: Fragment, active: np.ndarray, wait: MemberWait) -> Outcome:
        if wait.here == fragment.bits:
            return warp.grid.park(warp, fragment, wait)
        waiting = part(warp, fragment, active.copy(), pc, pc + 1)
        fragment.pc = pc + 1
        warp.grid.park(warp, waiting, wait)
        return PARTED

    def _perform(warp: Warp, fragment: Fragment, active: np.ndarray, named: int) -> Outcome:
        here = lane_bits(active)
        if outsiders := here & ~named:
            text = f"lanes {outsiders:#010x} are not in the member mask {named:#010x}"
            warp.grid.finding("operand", text, warp, pc)
        ended = named & ~_live(warp) & warp.all_lanes
        if ended and instruction.root in _PROMISE_NOTHING:
            text = f"member mask names lanes {ended:#010x}, which have ended"
            warp.grid.finding("exited-warps", text, warp, pc)
        return act(warp, fragment, active)

    if program.registers.is_varying(members):
        return by_mask
    return by_one_mask


def release_members(warp: Warp) -> None:
    """Lanes have ended: those who wait for them look again."""
    for fragment in warp.fragments:
        if isinstance(fragment.waiting, MemberWait):
            warp.grid.timeline.resume(warp.grid, warp, fragment)
            fragment.waiting = None


def _live(warp: Warp) -> int:
    live = 0
    for fragment in warp.fragments:
        live |= fragment.bits
    return live


def nothing(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
    """bar.warp.sync orders lanes and does nothing else."""
    return None
