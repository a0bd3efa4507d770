"""How a warp advances: steps the fragment that converge.py chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kgen.emu.converge import next_fragment, stops_of
from kgen.emu.program import BLOCKED, ENDED, PARTED, YIELDED, UnmodelledError

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Fragment, Warp


class RunStoppedError(Exception):
    """The run cannot go on: something is not modelled, a trap was reached, or nothing moves."""


def turn(grid: Grid, warp: Warp, budget: int) -> None:
    """Steps one warp until it is blocked, has ended, or the budget is used."""
    while budget > 0:
        fragment = next_fragment(grid, warp)
        if fragment is None:
            return
        budget = _run_fragment(grid, warp, fragment, stops_of(warp, fragment), budget)


def can_run(grid: Grid, warp: Warp) -> bool:
    """Whether some fragment may advance."""
    return bool(warp.fragments) and next_fragment(grid, warp) is not None


def _run_fragment(
    grid: Grid, warp: Warp, fragment: Fragment, stops: frozenset[int], budget: int
) -> int:
    program = grid.program
    code_end = len(program.code)
    handlers = program.handlers
    is_alu, aligned = program.lowering.is_alu, program.aligned
    hits, visited = grid.hits, warp.visited
    wgmma = warp.wgmma
    pc: int = fragment.pc
    chosen_at = pc
    alone = len(warp.fragments) == 1
    while budget > 0:
        budget -= 1
        if pc >= code_end:
            grid.end_fragment(warp, fragment)
            return budget
        if not alone and aligned[pc] and pc != chosen_at:
            return budget  # others may have to come first
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
            if not alone and aligned[pc]:
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
        if pc in stops:
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
