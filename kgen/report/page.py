"""The HTML file: everything inside it, nothing fetched, readable on a phone and on a desk."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from kgen._version import __version__
from kgen.errors import DeviceError
from kgen.report.data import Report, dispatch_means, intervals, load, losses, roof
from kgen.report.heat import MOST_PAIRS, HeatMap, axis_pairs, heat_map
from kgen.report.ladders import ladder
from kgen.sweep.figures import figure_text
from kgen.sweep.listing import short
from kgen.sweep.queries import STATUSES, only_sweep
from kgen.sweep.store import Store

MOST_LOSSES = 12  # drawn; the table under the picture has all
_COLD, _WARM = (236, 241, 247), (21, 80, 150)  # of a heat map's worst and best


def page(results: Path, sweep: str | None = None) -> str:
    """The report of a sweep as one HTML text.

    Raises  KgenError where the file holds several sweeps and none is named; DeviceError without
            matplotlib
    """
    try:
        from kgen.report import pictures
    except ImportError as error:
        raise DeviceError(f"pictures need matplotlib ({error}); pip install matplotlib") from error
    with Store.read(results) as store:
        report = load(store, sweep or only_sweep(store))
    figure = report.figure
    counts = Counter(cell.status for cell in report.cells)
    ended = [(s, counts[s]) for s in STATUSES if counts[s]]
    rows, lost, roofline = intervals(report), losses(report), roof(report)
    ladders = {
        report.problems[size]: rungs
        for size in report.problems
        if len(rungs := ladder(report, size)) > 1
    }
    if not figure.measured:
        ladders = dict(list(ladders.items())[:1])  # static figures are the same for all problems
    label = figure.name + (f", {figure.unit}" if figure.unit else "")
    label += " (less is better)" if figure.less else ""
    return _template().render(
        report=report,
        version=__version__,
        label=label,
        ended=ended,
        status_picture=_image(pictures.status_chart(ended)) if ended else "",
        rows=rows,
        means=dispatch_means(report),
        ratio_picture=_image(pictures.ratio_chart(rows, report.reference)) if rows else "",
        roof=roofline,
        roof_picture=_image(pictures.roof_chart(roofline, report.reference)) if roofline else "",
        ladders=[
            (name, rungs, _image(pictures.ladder_chart(rungs, label, figure.measured)))
            for name, rungs in ladders.items()
        ],
        heat=_heat_maps(report),
        pairs_left_out=max(0, len(axis_pairs(report)) - MOST_PAIRS),
        losses=lost,
        loss_picture=_image(pictures.loss_chart(lost[:MOST_LOSSES])) if lost else "",
        table=_for_script(_table(report)),
        colour=_colour,
        figure_text=_figure_text,
    )


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("kgen.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _image(svg: str) -> str:
    """An SVG as an address: apart from the page, so that ids of two pictures cannot meet."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _heat_maps(report: Report) -> list[tuple[str, list[HeatMap]]]:
    """Groups of heat maps: over all problems first, then per problem."""
    sizes = [None, *(report.problems if report.figure.measured else ())]
    found = []
    for size in sizes:
        maps = [heat_map(report, pair, size) for pair in axis_pairs(report)[:MOST_PAIRS]]
        kept = [m for m in maps if m is not None]
        if kept:
            found.append((kept[0].problem, kept))
    return found


def _colour(level: float) -> str:
    """Background and text colour of a heat map's cell at 0..1."""
    mix = [round(c + (w - c) * level) for c, w in zip(_COLD, _WARM, strict=True)]
    return f"background:rgb({mix[0]},{mix[1]},{mix[2]});color:{'#fff' if level > 0.5 else '#111'}"


def _figure_text(value: float, measured: bool) -> str:
    return f"{value:.3f}" if measured else figure_text(value)


def _table(report: Report) -> dict[str, Any]:
    """Every point for the table that the page's script shows."""
    axes = list(report.settings["axes"])
    rows = []
    for cell in report.cells:
        value = report.value(cell, None)
        reason = cell.reason.splitlines()[0] if cell.reason else ""
        values = [short(cell.axes.get(path, "")) for path in axes]
        shown = round(value, 6) if value is not None else None
        rows.append([cell.number, cell.status, shown, *values, cell.kernel, reason])
    head = ["point", "status", report.figure.name, *axes, "kernel", "reason"]
    return {"head": head, "rows": rows, "less": report.figure.less}


def _for_script(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
