"""How a warp advances: which of its fragments runs, and how far."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kgen.emu.program import BLOCKED, ENDED, PARTED, YIELDED, UnmodelledError

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Fragment, Warp


class RunStoppedError(Exception):
    """The run cannot go on: something is not modelled, a trap was reached, or nothing moves."""


def turn(grid: Grid, warp: Warp, budget: int) -> None:
    """Steps one warp until it is blocked, has ended, or the budget is used."""
    while budget > 0:
        fragment, limit = _next_fragment(grid, warp)
        if fragment is None:
            return
        budget = _run_fragment(grid, warp, fragment, limit, budget)


def can_run(grid: Grid, warp: Warp) -> bool:
    """Whether some fragment may advance."""
    return bool(warp.fragments) and _next_fragment(grid, warp)[0] is not None


def _next_fragment(grid: Grid, warp: Warp) -> tuple[Fragment | None, int]:
    """The runnable fragment with the lowest pc, and the pc at which it should look for company.

    Fragments at the same pc merge. While a lower fragment is parked, the others go no further than
    the next instruction that all lanes must execute together.
    """
    fragments = warp.fragments
    if len(fragments) == 1:
        only = fragments[0]
        return (only if only.waiting is None else None), 1 << 60
    fragments.sort(key=lambda fragment: fragment.pc)
    index = 0
    while index + 1 < len(fragments):
        first, second = fragments[index], fragments[index + 1]
        if first.pc == second.pc and first.waiting is None and second.waiting is None:
            first.set_mask(first.mask | second.mask)
            fragments.pop(index + 1)
        else:
            index += 1
    for index, fragment in enumerate(fragments):
        if fragment.waiting is not None:
            continue
        if index and grid.program.aligned[fragment.pc]:
            continue
        limit = fragments[index + 1].pc if index + 1 < len(fragments) else 1 << 60
        return fragment, limit if limit > fragment.pc else 1 << 60
    return None, 0


def _run_fragment(grid: Grid, warp: Warp, fragment: Fragment, limit: int, budget: int) -> int:
    program = grid.program
    code_end = len(program.code)
    handlers = program.handlers
    is_alu = program.lowering.is_alu
    hits, visited = grid.hits, warp.visited
    wgmma = warp.wgmma
    pc: int = fragment.pc
    alone = len(warp.fragments) == 1
    while budget > 0:
        budget -= 1
        if pc >= code_end:
            grid.end_fragment(warp, fragment)
            return budget
        hits[pc] += 1
        visited.add(pc)
        if is_alu[pc]:
            run = program.run_at(pc, fragment.full)
            if run.wgmma_touched:
                wgmma.touch(grid, warp, pc, run.wgmma_touched, run.wgmma_written)
            run.execute(
                warp,
                fragment.uniform,
                warp.rows32,
                warp.rows64,
                warp.rowsp,
                warp.matrix32,
                fragment.mask,
            )
            grid.steps += run.end - pc
            pc = fragment.pc = run.end
        else:
            handler = handlers[pc]
            if handler is None:
                _unmodelled(grid, warp, pc, program.unmodelled[pc])
                return budget
            if not alone and program.aligned[pc]:
                _partial(grid, warp, fragment, pc)
            if program.wgmma_touch[pc]:
                touched = program.wgmma_touch[pc]
                wgmma.touch(
                    grid,
                    warp,
                    pc,
                    touched,
                    touched.intersection(program.flow.effects[pc].writes),
                )
            grid.steps += 1
            try:
                outcome = handler(warp, fragment, fragment.mask)
            except UnmodelledError as reason:
                _unmodelled(grid, warp, pc, str(reason))
            if outcome is None:
                pc = fragment.pc = pc + 1
            elif isinstance(outcome, int):
                pc = fragment.pc = outcome
            elif outcome == BLOCKED:
                grid.steps -= 1
                return budget
            elif outcome == YIELDED:
                fragment.pc = pc + 1
                return 0
            elif outcome in (PARTED, ENDED):
                return budget
        if pc >= limit:
            return budget
    return budget


def _partial(grid: Grid, warp: Warp, fragment: Fragment, pc: int) -> None:
    lanes = warp.live_lanes()
    if fragment.count < lanes:
        text = (
            f"{fragment.count} of {lanes} lanes reach an instruction that all lanes must "
            f"execute together"
        )
        grid.finding("partial-warp", text, warp, pc)


def _unmodelled(grid: Grid, warp: Warp, pc: int, what: str) -> NoReturn:
    text = f"{what} is not modelled; the run stops here"
    grid.finding("unmodelled", text, warp, pc)
    raise RunStoppedError
