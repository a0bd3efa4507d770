"""Ladders: from the first value of every axis to the winner, one axis at a time. Pure.

Each rung is a kernel of the sweep, so what a step is worth is measured, not modelled. Where the
kernel between two rungs does not exist, a step changes more axes at once.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from kgen.report.data import Report
from kgen.sweep.listing import short
from kgen.sweep.queries import RANKED, Cell, Size

MOST_AXES = 10  # changed at once; more combinations than anybody would look at


@dataclass(frozen=True)
class Rung:
    """One kernel of the way: what was changed to get there, and the figure it has."""

    change: str
    kernel: str
    value: float


def ladder(report: Report, size: Size) -> list[Rung]:
    """The way to a problem's winner, the best step first; empty where nothing was timed."""
    winner = report.winners.get(size)
    cells = {
        _place(c.axes): (c, value)
        for c in report.cells
        if c.status in RANKED and (value := report.value(c, size)) is not None
    }
    if winner is None or report.value(winner, size) is None:
        return []
    first = _start(report, cells, winner)
    order = list(report.settings["axes"])
    rungs = [Rung(_values(first.axes, order), first.kernel, _known(report, first, size))]
    at = first.axes
    while left := [path for path in winner.axes if at[path] != winner.axes[path]]:
        step = _best_step(report, cells, at, winner, left)
        changed = {path: winner.axes[path] for path in step}
        at = at | changed
        cell, value = cells[_place(at)]
        rungs.append(Rung(_values(changed, order), cell.kernel, value))
    return rungs


def _start(report: Report, cells: dict[str, tuple[Cell, float]], winner: Cell) -> Cell:
    """The kernel nearest to the first value of every axis, by the number of axes that agree."""
    axes = report.settings["axes"]
    firsts = {path: values[0] for path, values in axes.items()}

    def distance(cell: Cell) -> tuple[int, int]:
        return sum(cell.axes[p] != firsts[p] for p in firsts), cell.number

    return min((c for c, _ in cells.values()), key=distance, default=winner)


def _best_step(
    report: Report,
    cells: dict[str, tuple[Cell, float]],
    at: dict[str, Any],
    winner: Cell,
    left: list[str],
) -> tuple[str, ...]:
    """The fewest axes whose change leads to a kernel that was timed; the best of those."""
    for count in range(1, min(len(left), MOST_AXES) + 1):
        found = {}
        for paths in itertools.combinations(left, count):
            place = _place(at | {p: winner.axes[p] for p in paths})
            if place in cells:
                found[paths] = cells[place][1]
        if found:
            best = report.better(found.values())
            return next(paths for paths, value in found.items() if value == best)
    return tuple(left)  # all of them lead to the winner itself


def _known(report: Report, cell: Cell, size: Size) -> float:
    value = report.value(cell, size)
    assert value is not None
    return value


def _place(axes: dict[str, Any]) -> str:
    return json.dumps(axes, sort_keys=True)


def _values(axes: dict[str, Any], order: list[str]) -> str:
    """`tile n 256, stages 4`: the last word of each path is enough for a picture."""
    paths = [path for path in order if path in axes]
    return ", ".join(f"{path.split('.')[-1]} {short(axes[path])}" for path in paths)
