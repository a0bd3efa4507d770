"""What a report shows, from a sweep's results: figures per axis, intervals, roofs, losses. Pure."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kgen.arch import ARCHS
from kgen.bench.baselines import TUNED
from kgen.bench.results import RatioRecord
from kgen.dtypes import dtype
from kgen.spec import parse_spec
from kgen.sweep.dispatch import Mean, means
from kgen.sweep.figures import FIGURES
from kgen.sweep.queries import (
    RANKED,
    Cell,
    Size,
    Timing,
    cells_of,
    devices_in,
    problems_in,
    ranked,
    references,
    settings_of,
)
from kgen.sweep.space import without_numbers
from kgen.sweep.store import Store


@dataclass(frozen=True)
class Figure:
    """What heat maps and ladders show of a kernel. `less`: the smaller, the better."""

    name: str
    unit: str
    less: bool
    measured: bool


@dataclass(frozen=True)
class Report:
    """A sweep's results, read once."""

    sweep: str
    start: dict[str, Any]
    settings: dict[str, Any]
    cells: tuple[Cell, ...]
    problems: dict[Size, str]
    devices: dict[str, dict[str, Any]]

    @cached_property
    def keys(self) -> tuple[dict[str, str], ...]:
        """The axis values of every cell, as texts that can be compared and hashed."""
        return tuple({path: text_of(x) for path, x in cell.axes.items()} for cell in self.cells)

    @cached_property
    def timed(self) -> bool:
        """Whether a GPU has timed anything."""
        return any(t.ratio for c in self.cells for t in c.timings.values())

    @cached_property
    def reference(self) -> str:
        """What the kernels' speed is measured against, in words."""
        return references(t for c in self.cells for t in c.timings.values())

    @cached_property
    def figure(self) -> Figure:
        """Speed over the reference, or the first static figure of the ranking."""
        if self.timed:
            return Figure(f"speed over {self.reference}", "", False, True)
        name = self.settings["rank"]["static"][0]
        return Figure(FIGURES[name].meaning, FIGURES[name].unit, FIGURES[name].less, False)

    @cached_property
    def gpu(self) -> dict[str, Any]:
        """Facts of the GPU; empty where there was none."""
        used = Counter(t.device for c in self.cells for t in c.timings.values() if t.device)
        return self.devices.get(used.most_common(1)[0][0], {}) if used else {}

    @cached_property
    def winners(self) -> dict[Size, Cell]:
        """The best kernel of every problem that has one."""
        found = {size: ranked(list(self.cells), size, self.settings) for size in self.problems}
        return {size: best[0] for size, best in found.items() if best}

    def value(self, cell: Cell, size: Size | None) -> float | None:
        """The figure of a kernel on a problem; without one the geometric mean over all problems."""
        if not self.figure.measured:
            return cell.figures.get(self.settings["rank"]["static"][0])
        if size is not None:
            timing = cell.timings.get(size)
            return timing.ratio if timing else None
        ratios = [t.ratio for t in cell.timings.values() if t.ratio]
        if len(ratios) < len(self.problems):
            return None  # a mean over other problems would not compare
        return math.exp(statistics.fmean(map(math.log, ratios)))

    def better(self, values: Iterable[float]) -> float:
        """The best of some values of the figure."""
        return min(values) if self.figure.less else max(values)


def text_of(value: Any) -> str:
    """An axis value as text that can be compared and hashed."""
    return json.dumps(value, sort_keys=True)


def load(store: Store, sweep: str) -> Report:
    """Everything that a report needs."""
    start = settings_of(store, sweep)
    return Report(
        sweep,
        start,
        start["settings"],
        tuple(cells_of(store, sweep)),
        problems_in(store, sweep),
        devices_in(store),
    )


@dataclass(frozen=True)
class Interval:
    """The best kernel of one problem against its reference. low, high: None for a screen."""

    size: Size
    problem: str
    kernel: str
    ratio: float
    low: float | None
    high: float | None
    tflops: float
    reference_tflops: float | None
    sm_mhz: float | None
    power_w: float | None
    notes: tuple[str, ...]
    tuned: RatioRecord | None  # speed over cuBLASLt's fastest candidate

    @property
    def verdict(self) -> str:
        """faster, slower, undecided; or that it is a screen's figure."""
        if self.low is None or self.high is None:
            return "screen only"
        if self.low <= 1 <= self.high:
            return "undecided"
        return "faster" if self.low > 1 else "slower"


def intervals(report: Report) -> list[Interval]:
    """One row per problem that was timed."""
    found = []
    for size, cell in report.winners.items():
        t = cell.timings.get(size)
        if t and t.us and t.ratio:
            found.append(_interval(report.problems[size], size, cell, t))
    return found


def _interval(name: str, size: Size, cell: Cell, t: Timing) -> Interval:
    flops = 2 * math.prod(size)
    assert t.us and t.ratio
    return Interval(
        size,
        name,
        cell.kernel,
        t.ratio,
        t.low,
        t.high,
        flops / t.us / 1e6,
        flops / t.reference_us / 1e6 if t.reference_us else None,
        t.sm_mhz,
        t.power_w,
        tuple(t.detail.get("notes", ())),
        t.against.get(TUNED),
    )


def dispatch_means(report: Report) -> list[Mean]:
    """Means over problems of the best kernels' speed, one for each baseline of the finals."""
    return means(cell.timings.get(size) for size, cell in report.winners.items())


@dataclass(frozen=True)
class Roof:
    """A roofline. Intensity in FLOP per byte that has to move at least once; speeds in TFLOPS."""

    memory_gb_s: float
    peak: float  # at the highest clock
    clock_mhz: float
    held_mhz: float | None  # the clock that was held where the power cap slowed the board
    held: float | None  # the peak at that clock
    points: tuple[tuple[str, float, float, float | None], ...]  # name, intensity, kernel, torch


def roof(report: Report) -> Roof | None:
    """The roofline of the winners; None without a GPU, or where its peak is not known."""
    gpu, rows = report.gpu, intervals(report)
    if not rows or not gpu.get("memory_gb_s"):
        return None
    spec = parse_spec(report.winners[rows[0].size].spec).spec
    bits = dtype(spec.gemm.a.dtype).bits
    per_clock = ARCHS[spec.target].mma_flops_per_clock * 16 // bits * gpu["sm_count"]
    if not per_clock:
        return None
    points = []
    for row in rows:
        m, n, k = row.size
        moved = (m * k + n * k) * bits / 8 + m * n * dtype(spec.gemm.d.dtype).bytes
        points.append((row.problem, 2 * m * n * k / moved, row.tflops, row.reference_tflops))
    held = _held_clock(report)
    return Roof(
        gpu["memory_gb_s"],
        per_clock * gpu["sm_mhz_max"] / 1e6,
        gpu["sm_mhz_max"],
        held,
        per_clock * held / 1e6 if held else None,
        tuple(points),
    )


def _held_clock(report: Report) -> float | None:
    """Median SM clock right after windows in which the driver reported the power cap."""
    found = []
    for cell in report.cells:
        for timing in cell.timings.values():
            for mhz, _, reasons in timing.detail.get("trace", ()):
                if "power cap" in reasons:
                    found.append(mhz)
    return statistics.median(found) if found else None


def _kind(cell: Cell) -> str:
    """A failure without what differs from kernel to kernel, so that equal ones count together."""
    lines = [line.strip() for line in cell.reason.splitlines() if line.strip()]
    return without_numbers(" ".join(lines[:2]).replace(cell.kernel or "\0", "kernel"))


@dataclass(frozen=True)
class Lost:
    """A reason why points have no kernel, or one that cannot be used."""

    status: str
    rule: str
    points: int
    example: str


def losses(report: Report) -> list[Lost]:
    """Rules that points broke and statuses of those that failed later, the commonest first.

    A point that breaks two rules counts for both.
    """
    counts: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for cell in report.cells:
        if cell.status in RANKED or cell.status == "pending":
            continue
        for rule in cell.rules or (_kind(cell),):
            counts[(cell.status, rule)] += 1
            example.setdefault((cell.status, rule), cell.reason)
    return [Lost(*key, n, example[key]) for key, n in counts.most_common()]
