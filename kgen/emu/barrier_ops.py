"""Named barriers and the cluster barrier, and what the end of a warp means to them.

Source  PTX ISA 9.7.13 (bar, barrier, barrier.cluster); clusters as an H200 ran them
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Cluster, Fragment, Wait
from kgen.emu.members import nothing, with_members
from kgen.emu.order import Knowledge
from kgen.emu.program import BLOCKED, Handler, Outcome, Program, handles, require
from kgen.emu.ptx import Instruction, Not
from kgen.emu.registers import WARP_LANES
from kgen.emu.shared_access import check_cta_exit
from kgen.emu.sync import NamedBarrier

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Warp


# ---------------------------------------------------------------- named barriers


@dataclass
class BarrierWait(Wait):
    barrier: NamedBarrier

    def describe(self) -> str:
        return f"waits at {self.barrier.describe()}"


@handles("bar", "barrier")
def named_barrier(program: Program, instruction: Instruction, pc: int) -> Handler:
    """bar[.cta].sync / .arrive / .red a [, threads]; .red also has a result and a predicate."""
    if instruction.has("warp"):
        return _warp_barrier(program, instruction, pc)
    require(
        instruction, "cta", "sync", "arrive", "red", "popc", "and", "or", "aligned", "u32", "pred"
    )
    reduces = instruction.has("red")
    operands = instruction.operands[1:-1] if reduces else instruction.operands
    number = program.registers.scalar(operands[0])
    count = program.registers.scalar(operands[1]) if len(operands) > 1 else None
    vote = _vote(program, instruction) if reduces else None
    waits = not instruction.has("arrive")
    whole_warps = program.aligned[pc]

    def arrive(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        cta = warp.cta
        identifier = number(warp, fragment)
        everyone = WARP_LANES * len(cta.warps)
        threads = count(warp, fragment) if count is not None else everyone
        if not 0 <= identifier <= 15 or threads % WARP_LANES or threads <= 0:
            text = f"barrier {identifier} with {threads} threads: needs 0..15, a multiple of 32"
            warp.grid.finding("operand", text, warp, pc)
            return None
        barrier = cta.barriers.setdefault(identifier, NamedBarrier(identifier))
        if barrier.threads and barrier.threads != threads:
            text = (
                f"{threads} threads, but the warps at barrier {identifier} gave {barrier.threads}"
            )
            warp.grid.finding("barrier-count", text, warp, pc)
        barrier.threads = threads
        barrier.arrived += WARP_LANES if whole_warps else int(np.count_nonzero(active))
        barrier.warps.append(warp.number)
        _gather_named(barrier, warp)
        if vote is not None:
            vote(barrier, warp, fragment, active)
        if waits:
            barrier.waiters.append((warp, fragment))
            warp.grid.park(warp, fragment, BarrierWait(barrier))
        complete_named(warp.grid, barrier, threads)
        return BLOCKED if waits else None

    return arrive


def _vote(
    program: Program, instruction: Instruction
) -> Callable[[NamedBarrier, Warp, Fragment, np.ndarray], None]:
    """bar.red: counts true predicates; the result is written when the barrier completes."""
    last = instruction.operands[-1]
    negated = isinstance(last, Not)
    predicate = program.registers.row(last.operand if isinstance(last, Not) else last, 1)
    setter = program.registers.setter(instruction.operands[0])
    mode = next(part for part in instruction.parts if part in ("popc", "and", "or"))

    def vote(barrier: NamedBarrier, warp: Warp, fragment: Fragment, active: np.ndarray) -> None:
        chosen = predicate(warp, fragment).astype(bool) ^ negated
        barrier.votes += int(np.count_nonzero(chosen & active))

        def finish(votes: int, threads: int) -> None:
            answer = {"popc": votes, "and": int(votes == threads), "or": int(votes > 0)}[mode]
            setter(warp, fragment, active, answer)

        barrier.finish.append(finish)

    return vote


def _gather_named(barrier: NamedBarrier, warp: Warp) -> None:
    published = warp.order.release()
    if barrier.gathered is None:
        barrier.gathered = published
    else:
        barrier.gathered.join(published)


def complete_named(grid: Grid, barrier: NamedBarrier, needed: int) -> None:
    """Lets the waiting warps go on, behind the instruction, if all have arrived."""
    if barrier.arrived < needed or barrier.gathered is None:
        return
    if barrier.arrived > needed:
        text = f"{barrier.arrived} threads arrived at barrier {barrier.number} for {needed}"
        grid.finding("barrier-count", text)
    for finish in barrier.finish:
        finish(barrier.votes, needed)
    waiters, gathered = barrier.waiters, barrier.gathered
    barrier.reset()
    for warp, fragment in waiters:
        if warp.wgmma.open:
            grid.check_open_products(warp)
        warp.order.acquire(gathered)
        fragment.pc += 1
    grid.wake(waiters)


def _warp_barrier(program: Program, instruction: Instruction, pc: int) -> Handler:
    """bar.warp.sync members: the lanes wait for one another; nothing else happens."""
    require(instruction, "warp", "sync")
    return with_members(program, instruction, instruction.operands[0], pc, nothing)


# ---------------------------------------------------------------- the cluster barrier


@dataclass
class ClusterWait(Wait):
    cluster: Cluster

    def describe(self) -> str:
        barrier = self.cluster.barrier
        total = sum(WARP_LANES * len(cta.warps) for cta in self.cluster.ctas)
        return (
            f"waits at the cluster barrier, generation {barrier.generation}: {barrier.arrived} of "
            f"{total} threads"
        )


@handles("barrier.cluster.arrive")
def cluster_arrive(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "cluster", "arrive", "release", "relaxed", "aligned")
    relaxed = instruction.has("relaxed")
    whole_warps = instruction.has("aligned")

    def arrive(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        barrier = warp.cta.cluster.barrier
        published = warp.order.release_relaxed() if relaxed else warp.order.release()
        if barrier.arrived_in.get(warp.index) == barrier.generation and whole_warps:
            warp.grid.finding(
                "barrier-count", "arrives twice in one generation of the cluster barrier", warp, pc
            )
        barrier.arrived_in[warp.index] = barrier.generation
        barrier.arrived += WARP_LANES if whole_warps else int(np.count_nonzero(active))
        if barrier.gathered is None:
            barrier.gathered = published
        else:
            barrier.gathered.join(published)
        complete_cluster(warp.grid, warp.cta.cluster)
        return None

    return arrive


def complete_cluster(grid: Grid, cluster: Cluster) -> None:
    """Ends the generation when every thread has arrived or ended."""
    barrier = cluster.barrier
    warps = [warp for cta in cluster.ctas for warp in cta.warps]
    ended = sum(
        WARP_LANES
        for warp in warps
        if not warp.fragments and barrier.arrived_in.get(warp.index) != barrier.generation
    )
    if barrier.gathered is None or barrier.arrived + ended < WARP_LANES * len(warps):
        return
    barrier.published, barrier.gathered = barrier.gathered, None
    barrier.arrived = 0
    barrier.generation += 1
    grid.wake(barrier.waiters)


@handles("barrier.cluster.wait")
def cluster_wait(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "cluster", "wait", "acquire", "aligned")

    def wait(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        cluster = warp.cta.cluster
        barrier = cluster.barrier
        generation = barrier.arrived_in.get(warp.index)
        if generation is None:
            warp.grid.finding(
                "operand", "waits at the cluster barrier without having arrived", warp, pc
            )
            return None
        if barrier.generation > generation:
            if barrier.published is not None:
                warp.order.acquire(barrier.published)
            return None
        barrier.waiters.append((warp, fragment))
        return warp.grid.park(warp, fragment, ClusterWait(cluster))

    return wait


# ---------------------------------------------------------------- the end of a warp


def warp_ended(grid: Grid, warp: Warp) -> None:
    """Barriers count the threads that are left; copies in flight must have read their source."""
    for operation in [o for group in warp.store_groups for o in group] + warp.store_open:
        if not warp.order.knows.completed >> operation.number & 1:
            text = f"ends without waiting for {operation.describe()} to read shared memory"
            grid.finding("exit-in-flight", text, warp, operation.pc)
    cta = warp.cta
    if cta.exit_knowledge is None:
        cta.exit_knowledge = Knowledge.nothing(grid.warp_count)
    cta.exit_knowledge.join(warp.order.knows)
    if not cta.live_warps:
        check_cta_exit(warp)
    everyone = WARP_LANES * len(cta.warps)
    ended = {other.number for other in cta.warps if not other.fragments}
    for barrier in cta.barriers.values():
        absent = WARP_LANES * len(ended.difference(barrier.warps))
        if barrier.threads == everyone and barrier.arrived and absent:
            if barrier.arrived + absent < everyone:
                continue
            text = f"barrier {barrier.number} completes because warps have ended"
            grid.finding("exited-warps", text, warp)
            complete_named(grid, barrier, barrier.arrived)
    complete_cluster(grid, cta.cluster)
