"""Charts as SVG text, through matplotlib. Knows numbers and labels, nothing of sweeps' files.

Every figure is narrow, so that its text can be read on a phone, and the same data give the same
bytes.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from kgen.report.data import Interval, Lost, Roof
from kgen.report.ladders import Rung
from kgen.sweep.figures import figure_text

WIDTH = 4.6  # inches; 9-point text stays readable at 360 CSS pixels
BLUE, ORANGE, GREY, RED = "#1f5fa8", "#d9822b", "#8a8f98", "#b3362b"
_STYLE: Any = {
    "svg.hashsalt": "kgen",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "axes.axisbelow": True,
}


def _svg(canvas: Canvas) -> str:
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _canvas(rows: float) -> tuple[Canvas, Any]:
    canvas = Canvas(figsize=(WIDTH, rows), layout="constrained")
    return canvas, canvas.subplots()


def _wrapped(text: str, width: int) -> str:
    """At most three lines of a label."""
    lines = textwrap.wrap(text, width) or [""]
    return "\n".join(lines if len(lines) <= 3 else [*lines[:2], lines[2][: width - 3] + "..."])


def ratio_chart(rows: Sequence[Interval], reference: str) -> str:
    """The best kernel of every problem over the reference; a hollow mark is a screen's figure."""
    with matplotlib.rc_context(_STYLE):
        canvas, axes = _canvas(1.0 + 0.42 * len(rows))
        for place, row in enumerate(rows):
            colour = {"faster": BLUE, "slower": RED}.get(row.verdict, GREY)
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [place, place], color=colour, linewidth=3)
            fill = colour if row.low is not None else "white"
            axes.plot([row.ratio], [place], "o", color=colour, markerfacecolor=fill)
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set_yticks(range(len(rows)), [_wrapped(row.problem, 22) for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel(_wrapped(f"speed over {reference} (1 = equal)", 60))
        return _svg(canvas)


def ladder_chart(rungs: Sequence[Rung], label: str, measured: bool) -> str:
    """A bar per rung, from the plainest kernel down to the winner."""
    with matplotlib.rc_context(_STYLE):
        canvas, axes = _canvas(0.9 + 0.5 * len(rungs))
        values = [rung.value for rung in rungs]
        axes.barh(range(len(rungs)), values, color=[GREY, *[BLUE] * (len(rungs) - 1)])
        for place, value in enumerate(values):
            text = f"{value:.3f}" if measured else figure_text(value)
            axes.text(value, place, f" {text}", va="center")
        names = [_wrapped(("" if i == 0 else "+ ") + r.change, 28) for i, r in enumerate(rungs)]
        axes.set_yticks(range(len(rungs)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(values))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(_wrapped(label, 44))
        return _svg(canvas)


def roof_chart(roof: Roof, reference: str) -> str:
    """Speed against intensity on logarithmic scales, under the roofs that the board has."""
    with matplotlib.rc_context(_STYLE):
        canvas, axes = _canvas(3.8)
        xs = [point[1] for point in roof.points]
        knee = roof.peak * 1e3 / roof.memory_gb_s
        left, right = min([*xs, knee]) / 2, max([*xs, knee]) * 2
        memory = f"{roof.memory_gb_s / 1e3:.1f} TB/s, then {roof.peak:.0f} TFLOPS"
        axes.plot(
            [left, knee, right],
            [left * roof.memory_gb_s / 1e3, roof.peak, roof.peak],
            color="black",
            label=f"{memory} at {roof.clock_mhz:.0f} MHz",
        )
        if roof.held and roof.held_mhz:
            start = roof.held * 1e3 / roof.memory_gb_s
            text = f"{roof.held:.0f} TFLOPS at {roof.held_mhz:.0f} MHz, held under the power cap"
            axes.plot([start, right], [roof.held] * 2, color=ORANGE, linestyle="--", label=text)
        axes.plot(xs, [p[2] for p in roof.points], "o", color=BLUE, label="best kernel")
        torch = [(p[1], p[3]) for p in roof.points if p[3]]
        axes.plot(*zip(*torch, strict=True), "x", color=RED, label=reference)
        axes.set_xscale("log")
        axes.set_yscale("log")
        lowest = min(p[2] for p in roof.points)
        axes.set_ylim(bottom=lowest / 8, top=roof.peak * 1.5)  # room for the legend below
        axes.set_xlabel("FLOP per byte that must move once")
        axes.set_ylabel("TFLOPS")
        axes.legend(loc="lower right", fontsize=8)
        return _svg(canvas)


def status_chart(counts: Sequence[tuple[str, int]]) -> str:
    """How the points ended."""
    with matplotlib.rc_context(_STYLE):
        canvas, axes = _canvas(0.8 + 0.3 * len(counts))
        colours = [
            BLUE if s in ("timed", "screened", "emulated", "built") else GREY for s, _ in counts
        ]
        axes.barh([s for s, _ in counts], [n for _, n in counts], color=colours)
        for place, (_, count) in enumerate(counts):
            axes.text(count, place, f" {count}", va="center")
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(n for _, n in counts))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("points")
        return _svg(canvas)


def loss_chart(rows: Sequence[Lost]) -> str:
    """The rules that cost most points."""
    with matplotlib.rc_context(_STYLE):
        canvas, axes = _canvas(0.8 + 0.55 * len(rows))
        axes.barh(range(len(rows)), [row.points for row in rows], color=GREY)
        for place, row in enumerate(rows):
            axes.text(row.points, place, f" {row.points}", va="center")
        axes.set_yticks(range(len(rows)), [_wrapped(row.rule or row.status, 34) for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.2 * max(row.points for row in rows))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("points")
        return _svg(canvas)
