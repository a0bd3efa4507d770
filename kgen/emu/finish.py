"""What is said when a run ends: deadlock, the bound on steps, and the checks of the final state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.emu.registers import SHARED_BASE
from kgen.emu.report import Coverage

if TYPE_CHECKING:
    from kgen.emu.grid import Grid


def deadlock_findings(grid: Grid) -> None:
    """No warp can run, no operation is pending: a finding per waiter, with what it waits for."""
    for warp in grid.warps:
        for fragment in warp.fragments:
            wait = fragment.waiting
            what = wait.describe() if wait is not None else "waits for the other lanes of its warp"
            grid.finding("deadlock", what, warp, fragment.pc)


def endless_findings(grid: Grid) -> None:
    """The bound was reached: where every live warp stands."""
    for warp in grid.warps:
        for fragment in warp.fragments:
            doing = f"waiting: {fragment.waiting.describe()}" if fragment.waiting else "running"
            text = f"still {doing} after {grid.max_steps} warp-instructions of the grid"
            grid.finding("endless", text, warp, fragment.pc)


def check_end(grid: Grid) -> None:
    """The final state: bytes never read, barriers left in the middle of a phase, outputs never
    stored.
    """
    unread = 0
    for cluster in grid.clusters:
        for cta in cluster.ctas:
            unread += int(cta.shadow.unread.sum()) * 2
            for barrier in cta.mbarriers.values():
                if barrier.tx:
                    grid.finding(
                        "mbarrier-bytes", f"{barrier} ends with {barrier.tx} bytes pending"
                    )
                elif barrier.pending != barrier.expected and barrier.expected:
                    text = (
                        f"the kernel ends in the middle of a phase of an mbarrier: "
                        f"{barrier.state()}"
                    )
                    grid.finding("mbarrier-unfinished", text, other=str(barrier))
    if unread:
        grid.finding("never-read", f"{unread} bytes that TMA brought were never read")
    for allocation in grid.memory.allocations:
        array = allocation.array
        if array.role != "out":
            continue
        missing = allocation.unstored_elements()
        if missing:
            total = array.element_offsets().size
            text = f"{missing} of {total} elements of {array.name} were never stored"
            grid.finding("output-not-stored", text, where=array.name)


def coverage_of(grid: Grid) -> Coverage:
    """What this run reached."""
    program = grid.program
    coverage = Coverage(len(program.code))
    for pc, count in enumerate(grid.hits):
        if count:
            end = program.run_at(pc, True).end if program.lowering.is_alu[pc] else pc + 1
            coverage.executed.update(range(pc, end))
    for copies in program.kernel.copies:  # of a function: one call that reaches a line is enough
        if not coverage.executed.isdisjoint(copies):
            coverage.executed.update(copies)
    coverage.exempt = program.trap_only() | program.wide_divisions() | program.bare_jumps()
    coverage.places = {
        pc: f"{program.place(pc)} {program.code[pc].opcode}"
        for pc in set(range(len(program.code))) - coverage.executed
    }
    for cta in (cta for cluster in grid.clusters for cta in cluster.ctas):
        for offset, barrier in cta.mbarriers.items():
            at = offset - SHARED_BASE
            coverage.phases[at] = max(coverage.phases.get(at, 0), barrier.phase)
    return coverage
