"""Heat maps: the best kernel for every pair of values of two axes. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgen.report.data import Report, text_of
from kgen.sweep.listing import short
from kgen.sweep.queries import RANKED, Cell, Size

MOST_PAIRS = 10  # of axes that get heat maps; more is no picture any more
OVERALL = "all problems"
LEAST_SPAN = 0.05  # of the best figure, from the palest to the darkest cell of a heat map


@dataclass(frozen=True)
class HeatCell:
    """The best kernel with two given axis values: its figure, and how far it lies in 0..1."""

    value: float | None
    level: float
    title: str


@dataclass(frozen=True)
class HeatMap:
    """Best figure over all other axes, per pair of values. rows[y][x]."""

    problem: str
    x_axis: str
    y_axis: str
    x_values: tuple[str, ...]
    y_values: tuple[str, ...]
    rows: tuple[tuple[HeatCell, ...], ...]


def axis_pairs(report: Report) -> list[tuple[str, str]]:
    """Pairs of axes that have something to compare."""
    axes = [path for path, values in report.settings["axes"].items() if len(values) > 1]
    return list(itertools.combinations(axes, 2))


def heat_map(report: Report, pair: tuple[str, str], size: Size | None) -> HeatMap | None:
    """One heat map; None where no kernel has a figure there."""
    x_axis, y_axis = pair
    axes = report.settings["axes"]
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell, keys in zip(report.cells, report.keys, strict=True):
        groups.setdefault((keys[x_axis], keys[y_axis]), []).append(cell)
    best = {place: _best(report, cells, size) for place, cells in groups.items()}
    known = [value for value, _ in best.values() if value is not None]
    if not known:
        return None
    best_of_all = report.better(known)
    # Differences below LEAST_SPAN are noise and must not look like the whole scale.
    span = max(max(known) - min(known), LEAST_SPAN * abs(best_of_all)) or 1.0

    def heat(x: Any, y: Any) -> HeatCell:
        value, title = best.get((text_of(x), text_of(y)), (None, "no such point"))
        if value is None:
            return HeatCell(None, 0.0, title)
        level = abs(value - best_of_all) / span
        return HeatCell(value, 1 - level, title)

    return HeatMap(
        report.problems[size] if size else OVERALL,
        x_axis,
        y_axis,
        tuple(short(x) for x in axes[x_axis]),
        tuple(short(y) for y in axes[y_axis]),
        tuple(tuple(heat(x, y) for x in axes[x_axis]) for y in axes[y_axis]),
    )


def _best(report: Report, cells: Sequence[Cell], size: Size | None) -> tuple[float | None, str]:
    """The best figure of a group and whose it is; or why there is none."""
    values = [(report.value(c, size), c) for c in cells if c.status in RANKED]
    known = [(v, c) for v, c in values if v is not None]
    if not known:
        status, count = Counter(c.status for c in cells).most_common(1)[0]
        return None, f"{count} of {len(cells)} points: {status}"
    best = report.better(v for v, _ in known)
    cell = next(c for v, c in known if v == best)
    return best, f"{cell.kernel}, best of {len(known)}"
