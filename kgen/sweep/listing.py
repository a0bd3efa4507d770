"""Rows of a results file for people and programs: one per point and problem, the best first."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kgen.bench.baselines import TUNED
from kgen.sweep.dispatch import means
from kgen.sweep.figures import figure_text
from kgen.sweep.queries import (
    STATUSES,
    Cell,
    Timing,
    cells_of,
    devices_in,
    problems_in,
    ranked,
    references,
    settings_of,
)
from kgen.sweep.store import Store

SHOWN = 10  # kernels of a problem in the table for people
COLUMNS = (
    *("sweep", "problem", "m", "n", "k", "rank", "kernel", "status", "reason", "stage"),
    *("us", "tflops", "reference", "reference_us", "ratio", "low", "high", "against"),
    *("sm_mhz", "power_w", "gpu"),
    *("source_digest", "target", "toolchain"),
)


def rows_of(store: Store, sweep: str) -> list[dict[str, Any]]:
    """Every point on every problem; lost points once, without a problem. Axis values are columns.

    rank  1 is the best of a problem; empty for a point that cannot win
    """
    settings, cells = settings_of(store, sweep)["settings"], cells_of(store, sweep)
    devices = devices_in(store)
    found = []
    for size, label in problems_in(store, sweep).items():
        order = {c.source_digest: i for i, c in enumerate(ranked(cells, size, settings), 1)}
        for cell in cells:
            if cell.source_digest:
                found.append(_row(cell, size, label, order.get(cell.source_digest), devices))
    found += [_row(cell, None, "", None, devices) for cell in cells if not cell.source_digest]
    return found


def _row(
    cell: Cell, size: Any, label: str, rank: int | None, devices: dict[str, Any]
) -> dict[str, Any]:
    t = cell.timings.get(size) if size else None
    m, n, k = size or (None, None, None)
    row: dict[str, Any] = {
        "sweep": cell.sweep,
        "problem": label,
        "m": m,
        "n": n,
        "k": k,
        "rank": rank,
        "kernel": cell.kernel,
        "status": cell.status,
        "reason": cell.reason,
        "stage": t.stage if t else "",
        "us": t.us if t else None,
        "tflops": t.tflops(size) if t else None,
        "reference": t.reference if t else "",
        "reference_us": t.reference_us if t else None,
        "ratio": t.ratio if t else None,
        "low": t.low if t else None,
        "high": t.high if t else None,
        "against": {x: [r.median, r.low, r.high] for x, r in t.against.items()} if t else None,
        "sm_mhz": t.sm_mhz if t else None,
        "power_w": t.power_w if t else None,
        "gpu": devices.get(t.device or "", {}).get("name", "") if t else "",
        "source_digest": cell.source_digest,
        "target": cell.target,
        "toolchain": cell.toolchain,
    }
    return row | cell.axes | {f"figure.{name}": x for name, x in sorted(cell.figures.items())}


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    """CSV with one header line; a value that is a map or a list is JSON."""
    rows = list(rows)
    names = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: _plain(v) for k, v in row.items()})
    return stream.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    return f"{value:.7g}" if isinstance(value, float) else value


def table_text(store: Store, sweep: str, shown: int = SHOWN) -> str:
    """How the points ended and the best of every problem, for people."""
    start, cells, devices = settings_of(store, sweep), cells_of(store, sweep), devices_in(store)
    settings = start["settings"]
    counts = Counter(c.status for c in cells)
    ended = start["outcome"] or "still running, or killed"
    gpu = devices.get(settings["device"] or "", {}).get("name", "no GPU")
    lines = [
        f"{sweep}: {len(cells)} points, last start {start['began']} on {gpu}: {ended}",
        "  " + ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]),
    ]
    axes = list(settings["axes"])
    if not any(c.timings for c in cells):
        figures = list(settings["rank"]["static"])
        best = ranked(cells, (0, 0, 0), settings)[:shown]
        lines += ["", "no GPU has timed these kernels; ranked by static figures, the best first"]
        head = ["kernel", "status", *figures, *axes]
        return "\n".join(lines + _aligned([head, *(_static(c, figures, axes) for c in best)]))
    order = {size: ranked(cells, size, settings) for size in problems_in(store, sweep)}
    labels = problems_in(store, sweep)
    lines += _means({labels[s]: best[0].timings.get(s) for s, best in order.items() if best})
    for size, label in labels.items():
        best = order[size][:shown]
        lines += ["", f"{label} (M x N x K = {' x '.join(map(str, size))})"]
        head = _head(references(c.timings.get(size) for c in best))
        lines += _aligned([head + axes, *(_line(c, size, axes) for c in best)])
    return "\n".join(lines)


def _means(best: dict[str, Timing | None]) -> list[str]:
    """Means over problems; and without the one that gains most, which may make them alone."""
    found = means(best.values())
    if not found:
        return []
    lines = ["", "the best kernel of each problem, as these finals chose it; geometric means"]
    lines += [f"  {mean}" for mean in found]
    gains = {label: t.ratio for label, t in best.items() if t is not None and t.ratio is not None}
    most = max(gains, key=gains.__getitem__, default="")
    if len(gains) > 2:
        lines.append(f"  without {most}, which gains most:")
        lines += [f"    {mean}" for mean in means(t for x, t in best.items() if x != most)]
    return lines


def _static(cell: Cell, figures: list[str], axes: list[str]) -> list[str]:
    values = [figure_text(cell.figures[x]) if x in cell.figures else "-" for x in figures]
    return [cell.kernel, cell.status, *values, *(short(cell.axes.get(p, "")) for p in axes)]


def _head(reference: str) -> list[str]:
    return ["kernel", "stage", "us", "TFLOPS", f"of {reference}", "95 %", "of cuBLASLt's best"]


def _line(cell: Cell, size: Any, axes: list[str]) -> list[str]:
    t = cell.timings.get(size)
    values = [short(cell.axes.get(path, "")) for path in axes]
    if t is None or t.us is None or t.ratio is None:
        return [cell.kernel, "static", *["-"] * 5, *values]
    interval = "-"
    if t.low is not None and t.high is not None:
        interval = f"{t.low:.3f}..{t.high:.3f}"
        interval += " undecided" if t.low <= 1 <= t.high else ""
    speed = t.tflops(size) or 0.0
    tuned = t.against.get(TUNED)
    return [
        *(cell.kernel, t.stage, f"{t.us:.1f}", f"{speed:.0f}", f"{t.ratio:.3f}", interval),
        f"{tuned.median:.3f}" if tuned else "-",
        *values,
    ]


def short(value: Any) -> str:
    """An axis value in few characters: `{m: 128, n: 256}` as `m 128, n 256`."""
    if isinstance(value, dict):
        return ", ".join(f"{k} {short(v)}" for k, v in value.items())
    if value is None:
        return "-"
    if isinstance(value, list):
        return "[" + " ".join(short(v) for v in value) + "]"
    return str(value)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
