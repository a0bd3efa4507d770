"""What happens to an mbarrier: finding it, arrivals, bytes, the end of a phase, and its
observation.

The instructions are in mbarrier_ops.py; TMA and bulk copies use `find` and `complete_bytes`.
Source  PTX ISA 9.7.13.15 (mbarrier); parities and bytes as an H200 ran them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.emu.order import HAPPENED, AsyncOp, Knowledge
from kgen.emu.registers import SHARED_BASE
from kgen.emu.shared_access import resolve
from kgen.emu.sync import MAX_TX, Mbarrier, Observation

if TYPE_CHECKING:
    from kgen.emu.machine import Cta, Warp


def find(warp: Warp, address: int, pc: int) -> Mbarrier | None:
    """The mbarrier at an address, ordered after its initialisation; None, with a finding, if there
    is no such thing.
    """
    place = resolve(warp, address, pc)
    if place is None:
        return None
    cta, offset = place
    barrier = cta.mbarriers.get(offset)
    if barrier is None:
        text = f"no mbarrier was initialised at +{offset - SHARED_BASE} of CTA {cta.number}"
        warp.grid.finding("mbarrier-uninitialised", text, warp, pc)
        return make(warp, cta, offset, 1)
    by = barrier.initialised_by
    if by != warp.index and warp.order.knows.clock[HAPPENED, by] < barrier.initialised_at:
        other = warp.grid.warps[by].name
        text = f"uses {barrier} with no order after its initialisation by {other}"
        warp.grid.finding("race", text, warp, pc, other=other)
    return barrier


def make(warp: Warp, cta: Cta, offset: int, count: int) -> Mbarrier:
    nothing = Knowledge.nothing(warp.grid.warp_count)
    barrier = Mbarrier(cta, offset, count, warp.index, warp.order.now, nothing)
    cta.mbarriers[offset] = barrier
    return barrier


def complete(warp: Warp, barrier: Mbarrier) -> None:
    """Ends the phase if nothing is pending any more, and wakes who waits for it."""
    if barrier.pending or barrier.tx:
        return
    grid = warp.grid
    for index, seen in barrier.lagging():
        other = grid.warps[index]
        text = (
            f"phase {barrier.phase} of {barrier} can complete before {other.name} has seen phase "
            f"{seen.phase}:"
            " its parity may be mistaken"
        )
        grid.finding("phase-lag", text, other, seen.pc, other=str(barrier))
    barrier.try_complete()
    grid.wake(barrier.waiters)


def change_tx(warp: Warp, barrier: Mbarrier, amount: int, pc: int) -> None:
    barrier.tx += amount
    if abs(barrier.tx) > MAX_TX:
        warp.grid.finding(
            "mbarrier-bytes", f"tx-count {barrier.tx} of {barrier} is out of range", warp, pc
        )


def arrive(
    warp: Warp, barrier: Mbarrier, count: int, tx: int, pc: int, published: Knowledge
) -> None:
    """`count` arrivals that expect `tx` more bytes, and publish what the warp has done."""
    barrier.gathered.join(published)
    if tx:
        change_tx(warp, barrier, tx, pc)
    if not barrier.arrive(count):
        text = f"{count} arrivals at {barrier}, {barrier.state()}"
        warp.grid.finding("mbarrier-count", text, warp, pc)
        return
    warp.grid.version += 1
    complete(warp, barrier)


def complete_bytes(operation: AsyncOp, barrier: Mbarrier, size: int, issued: Knowledge) -> None:
    """complete_tx of an asynchronous copy: its data is published, and the order of its issue, no
    more.
    """
    bit = 1 << operation.number
    barrier.gathered.join_order(issued)
    barrier.gathered.completed |= bit
    barrier.gathered.data |= bit
    change_tx(operation.warp, barrier, -size, operation.pc)
    complete(operation.warp, barrier)


def observe(warp: Warp, barrier: Mbarrier, pc: int, relaxed: bool) -> None:
    """A wait has returned: the warp has seen the latest phase, and takes what it published."""
    seen = barrier.phase - 1
    if seen < 0:
        return
    _check_skip(warp, barrier, seen, pc)
    published = barrier.published[seen & 1]
    if published is not None:
        if warp.wgmma.open:
            warp.grid.check_open_products(warp)
        if relaxed:
            warp.order.acquire_relaxed(published)
        else:
            warp.order.acquire(published)
    warp.seen_phase[(barrier.cta.number, barrier.offset)] = seen
    barrier.observers[warp.index] = Observation(seen, warp.order.now, pc)
    warp.order.tick()


def _check_skip(warp: Warp, barrier: Mbarrier, seen: int, pc: int) -> None:
    """A warp that has not seen the phase before must know by other means that it is over.

    Else it cannot tell this phase from an earlier one of the same parity. Warps that take turns at
    a ring skip phases rightly: they are ordered after each other.
    """
    before = warp.seen_phase.get((barrier.cta.number, barrier.offset), -1)
    previous = barrier.published[(seen - 1) & 1]
    if seen <= before + 1 or previous is None:
        return
    if (warp.order.knows.clock[HAPPENED] >= previous.clock[HAPPENED]).all():
        return
    text = (
        f"sees phase {seen} of {barrier}, having last seen phase {before}, with no order after the "
        f"end of phase {seen - 1}"
    )
    warp.grid.finding("phase-skipped", text, warp, pc)
