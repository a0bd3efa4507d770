"""Fences, setmaxnreg, and addresses in other CTAs of the cluster.

Source  PTX ISA 9.7.13 (fence, membar), 9.7.20 (setmaxnreg), 9.7.9 (mapa)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Fragment, Wait
from kgen.emu.operation import bits_of
from kgen.emu.order import HAPPENED
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles, require
from kgen.emu.ptx import Imm, Instruction
from kgen.emu.registers import SHARED_WINDOW, WARP_LANES
from kgen.emu.shared_access import OFFSET_BITS, OFFSET_MASK

if TYPE_CHECKING:
    from kgen.emu.machine import Warp


# ---------------------------------------------------------------- fences


@handles("fence", "membar")
def fence(program: Program, instruction: Instruction, pc: int) -> Handler:
    scopes = ("cta", "cluster", "gpu", "sys", "gl")
    if instruction.has("mbarrier_init"):
        require(instruction, "mbarrier_init", "release", "cluster")
        return publish_inits
    if instruction.has("proxy"):
        require(
            instruction,
            "proxy",
            "async",
            "global",
            "shared::cta",
            "shared::{cta",
            "shared::cluster",
        )
        return (lambda warp, fragment, active: None) if instruction.has("global") else proxy_fence
    require(instruction, "acq_rel", "sc", "acquire", "release", *scopes)

    def order(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        warp.order.fence()
        return None

    return order


def publish_inits(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
    """fence.mbarrier_init: initialisations before this point are visible to the async proxy."""
    clock = warp.order.knows.clock[HAPPENED]
    for barrier in warp.cta.mbarriers.values():
        if clock[barrier.initialised_by] >= barrier.initialised_at:
            barrier.fenced = True
    return None


def proxy_fence(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
    """fence.proxy.async over shared memory."""
    publish_inits(warp, fragment, active)
    warp.order.proxy_fence()
    return None


# ---------------------------------------------------------------- registers and addresses


@dataclass
class RegisterWait(Wait):
    warp: Warp
    wanted: int

    def describe(self) -> str:
        free = self.warp.cta.pool.free
        need = (self.wanted - self.warp.registers) * WARP_LANES
        return f"waits for {need} registers to grow to {self.wanted} per thread: {free} are free"


@handles("setmaxnreg")
def set_registers(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "inc", "dec", "sync", "aligned", "u32")
    operand = instruction.operands[0]
    if not isinstance(operand, Imm):
        raise UnmodelledError(f"{instruction.opcode} with a register operand")
    wanted = operand.value
    grows = instruction.has("inc")

    def change(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        if wanted % 8 or not 24 <= wanted <= 256:
            warp.grid.finding("operand", f"{wanted} is not a multiple of 8 in 24..256", warp, pc)
        if (grows and wanted < warp.registers) or (not grows and wanted > warp.registers):
            text = (
                f"{instruction.opcode} {wanted}, but the warp has {warp.registers} registers per "
                f"thread"
            )
            warp.grid.finding("registers", text, warp, pc)
        pool = warp.cta.pool
        need = (wanted - warp.registers) * WARP_LANES
        if need > pool.free:
            pool.waiters.append((warp, fragment))
            return warp.grid.park(warp, fragment, RegisterWait(warp, wanted))
        pool.free -= need
        warp.registers = wanted
        if need < 0:
            warp.grid.wake(pool.waiters)
        return None

    return change


@handles("mapa")
def map_address(program: Program, instruction: Instruction, pc: int) -> Handler:
    """The address of the same offset in another CTA of the cluster."""
    require(instruction, "shared::cluster", "u32", "u64")
    registers = program.registers
    bits = bits_of(instruction.type)
    address = registers.row(instruction.operands[1], bits)
    rank = registers.row(instruction.operands[2], 32)
    setter = registers.setter(instruction.operands[0])
    window = 0 if instruction.has("shared::cluster") else SHARED_WINDOW

    def translate(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        offset = address(warp, fragment).astype(np.int64) & OFFSET_MASK
        setter(
            warp,
            fragment,
            active,
            offset + (rank(warp, fragment).astype(np.int64) << OFFSET_BITS) + window,
        )
        return None

    return translate


@handles("getctarank")
def cta_rank(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "shared::cluster", "u32", "u64")
    address = program.registers.row(instruction.operands[1], bits_of(instruction.type))
    setter = program.registers.setter(instruction.operands[0])

    def rank(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        setter(
            warp, fragment, active, (address(warp, fragment).astype(np.int64) >> OFFSET_BITS) & 15
        )
        return None

    return rank
