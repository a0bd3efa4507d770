"""Shared-memory addresses at run time: which CTA, which bytes, and the checks that every access
passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.emu.registers import SHARED_BASE, SHARED_WINDOW

if TYPE_CHECKING:
    from kgen.emu.machine import Cta, Warp

OFFSET_BITS = 24
OFFSET_MASK = (1 << OFFSET_BITS) - 1


def resolve(warp: Warp, address: int, pc: int) -> tuple[Cta, int] | None:
    """A shared (or generic) address -> CTA of the cluster and byte offset; None, with a finding, if
    there is none.
    """
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    rank, offset = address >> OFFSET_BITS, address & OFFSET_MASK
    ctas = warp.cta.cluster.ctas
    if not 0 <= rank < len(ctas):
        warp.grid.finding(
            "shared-bounds", f"address {address:#x} names no CTA of the cluster", warp, pc
        )
        return None
    cta = ctas[rank]
    if cta is not warp.cta:
        note_remote(warp, cta, pc)
    return cta, offset


def note_remote(warp: Warp, cta: Cta, pc: int) -> None:
    """A warp reaches into another CTA, which must not have ended, and must not end before it knows
    of this.
    """
    cta.remote_steps[warp.index] = warp.order.now
    if not cta.live_warps:
        text = f"reaches into the shared memory of CTA {cta.number}, which has ended"
        warp.grid.finding("cluster-exit", text, warp, pc, other=f"CTA {cta.number}")


def in_bounds(warp: Warp, cta: Cta, lo: int, hi: int, pc: int) -> bool:
    """Whether bytes lo..hi belong to the CTA's shared memory; reports it if not."""
    if lo >= SHARED_BASE and hi <= cta.shared_end:
        return True
    size = cta.shared_end - SHARED_BASE
    text = f"touches shared bytes {lo - SHARED_BASE}..{hi - SHARED_BASE} of {size}"
    warp.grid.finding("shared-bounds", text, warp, pc)
    return False


def check_mbarriers(warp: Warp, cta: Cta, lo: int, hi: int, pc: int) -> None:
    """Data written over a live mbarrier."""
    for offset, barrier in cta.mbarriers.items():
        if lo < offset + 8 and offset < hi:
            warp.grid.finding("mbarrier-overwritten", f"writes data over {barrier}", warp, pc)


def check_cta_exit(warp: Warp) -> None:
    """The last warp of a CTA ends: everything that reaches into its shared memory must be over, and
    known to be.
    """
    cta, grid = warp.cta, warp.grid
    knows = cta.exit_knowledge
    if knows is None:
        return
    for index, step in cta.remote_steps.items():
        if knows.clock[0, index] < step:
            other = grid.warps[index].name
            text = (
                f"CTA {cta.number} ends with no order after the accesses of {other} to its shared "
                f"memory"
            )
            grid.finding("cluster-exit", text, warp, other=other)
    for number in cta.remote_operations:
        if not knows.completed >> number & 1:
            what = grid.describe_operation(number)
            text = (
                f"CTA {cta.number} ends without having waited for {what}, which writes its shared "
                f"memory"
            )
            grid.finding("cluster-exit", text, warp, other=what)
