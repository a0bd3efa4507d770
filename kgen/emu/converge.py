"""Which lanes of a warp go on, and where lanes that parted come together again.

The model
- Lanes that part at a branch are expected to meet at its join: the first instruction that every
  path from the branch passes (its immediate post-dominator). Those who are there first wait; this
  is what the convergence barriers do that ptxas puts there. Wherever the PTX compiler has moved
  the join, a loop head at a lower address included, the lanes that are still on their way run
  first.
- This wait is a preference, not a promise, as in PTX: when all the lanes still on their way are
  parked (on an mbarrier, a flag, a member mask), the others pass the join without them, up to the
  next .aligned instruction. Only an instruction with a member mask brings lanes together for sure.
- Fragments that meet at the same instruction with the same uniform values become one.
- An .aligned instruction is executed by part of a warp only when nothing else can run; it is then a
  finding.

Source  PTX ISA 9.7.12 (control flow) and the .aligned modifier of each instruction; CUDA C++
        Programming Guide, independent thread scheduling
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.emu.machine import Fragment

if TYPE_CHECKING:
    import numpy as np

    from kgen.emu.grid import Grid
    from kgen.emu.machine import Warp
    from kgen.emu.program import Program

NO_STOPS: frozenset[int] = frozenset()


def part(warp: Warp, fragment: Fragment, lanes: np.ndarray, target: int, join: int) -> Fragment:
    """Splits `lanes` off, to go on at `target`; all meet again at `join` (-1: nowhere)."""
    joins = fragment.joins
    if join >= 0 and all(pc != join for pc, _ in joins):
        joins = (*joins, (join, fragment.bits))
    other = Fragment(target, lanes, list(fragment.uniform), joins)
    warp.fragments.append(other)
    fragment.set_mask(fragment.mask & ~lanes)
    fragment.joins = joins
    return other


def next_fragment(grid: Grid, warp: Warp) -> Fragment | None:
    """The fragment that runs next; None if each one is parked or waits for the rest of the warp."""
    fragments = warp.fragments
    if len(fragments) == 1:
        only = fragments[0]
        return only if only.waiting is None else None
    _merge(grid.program, fragments)
    aligned = grid.program.aligned
    running = [fragment for fragment in fragments if fragment.waiting is None]
    held = [fragment for fragment in running if _is_held(fragment, fragments)]
    free = [fragment for fragment in running if fragment not in held]
    choices = [fragment for fragment in free if not aligned[fragment.pc]]
    if not choices and len(running) < len(fragments):
        # Nothing aligned while parked lanes may still come.
        choices = [fragment for fragment in held if not aligned[fragment.pc]]
    elif not choices:
        choices = free or held
    return choices[0] if choices else None


def stops_of(warp: Warp, fragment: Fragment) -> frozenset[int]:
    """Where a fragment that runs must look for company; it leaves the joins at which it stands."""
    if len(warp.fragments) == 1:
        fragment.joins = ()
        return NO_STOPS
    pc = fragment.pc
    for depth, (join, _) in enumerate(fragment.joins):
        if join == pc:
            fragment.joins = fragment.joins[:depth]
            _leave(warp, fragment, join)
            break
    stops = {other.pc for other in warp.fragments if other is not fragment}
    return frozenset(stops | {join for join, _ in fragment.joins})


def _leave(warp: Warp, fragment: Fragment, join: int) -> None:
    """Whoever comes to the join later does not wait for those who have passed it."""
    for other in warp.fragments:
        if other is not fragment:
            other.joins = tuple(
                (pc, lanes & ~fragment.bits if pc == join else lanes) for pc, lanes in other.joins
            )


def _is_held(fragment: Fragment, fragments: list[Fragment]) -> bool:
    """Whether it stands at a join that lanes it parted from have not reached."""
    pc = fragment.pc
    return any(
        join == pc and any(other.bits & lanes and other.pc != pc for other in fragments)
        for join, lanes in fragment.joins
    )


def _merge(program: Program, fragments: list[Fragment]) -> None:
    """Sorts by address, and makes one fragment of those that meet."""
    fragments.sort(key=lambda fragment: fragment.pc)
    index = 0
    while index + 1 < len(fragments):
        first, second = fragments[index], fragments[index + 1]
        if first.pc == second.pc and can_merge(program, first, second):
            merge(first, second)
            fragments.pop(index + 1)
        else:
            index += 1


def can_merge(program: Program, first: Fragment, second: Fragment) -> bool:
    """Both run, and agree on every uniform register that is still wanted: they are not in different
    rounds of a loop.
    """
    if first.waiting is not None or second.waiting is not None:
        return False
    return first.uniform == second.uniform or all(
        first.uniform[index] == second.uniform[index] for index in program.wanted_uniform(first.pc)
    )


def merge(first: Fragment, second: Fragment) -> None:
    """Adds the lanes of the second to the first."""
    first.joins = max(first.joins, second.joins, key=len)
    first.set_mask(first.mask | second.mask)
