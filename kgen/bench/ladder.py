"""The ladder of a README: what every rung adds and how fast it is, as a table and as a chart.

Made from specs and result files; measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from kgen.bench.results import Result, Timed, Window
from kgen.spec import KernelSpec, load_spec, opening_line

SIZE = 8192  # M = N = K
LAUNCHES = 30
BASELINE = "torch.mm"
_COLUMNS = ("rung", "what it adds", "CTA tile", "stages", "TFLOPS", f"against {BASELINE}", "state")
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Rung:
    """One spec of the ladder; `title` and `adds` are the two halves of its opening line."""

    title: str
    adds: str
    spec: KernelSpec


@dataclass(frozen=True)
class Speed:
    """A rung on one GPU: TFLOPS of the kernel and of the baseline beside it, and their ratio."""

    tflops: float
    baseline: float | None
    ratio: float | None
    stale: bool


def rungs(folder: Path) -> tuple[Rung, ...]:
    """The specs v0.yaml, v1.yaml, ... of a folder, in order."""
    found = []
    for path in sorted(folder.glob("v[0-9].yaml")):
        title, _, adds = opening_line(path).partition(": ")
        found.append(Rung(title, adds, load_spec(path).spec))
    return tuple(found)


def speed_of(
    rung: Rung, results: Iterable[Result], gpu: str, digests: dict[str, str]
) -> Speed | None:
    """What a window of LAUNCHES at SIZE cubed has measured; None if there is none."""
    for result in results:
        if (result.kernel, result.gpu.name) == (rung.spec.name, gpu):
            for problem in result.timings:
                window = _window(problem)
                if window is not None:
                    stale = digests.get(result.kernel) != result.source_digest
                    return _speed(window, stale)
    return None


def _window(problem: Timed) -> Window | None:
    if (problem.m, problem.n, problem.k) != (SIZE, SIZE, SIZE):
        return None
    return next((w for w in problem.windows if w.launches == LAUNCHES), None)


def _speed(window: Window, stale: bool) -> Speed:
    baseline = next((t.tflops for t in window.timings if t.name == BASELINE), None)
    ratio = next((r.median for r in window.ratios if r.baseline == BASELINE), None)
    return Speed(window.timings[0].tflops, baseline, ratio, stale)


def gpus_of(ladder: Sequence[Rung], results: Iterable[Result]) -> tuple[str, ...]:
    """GPUs that some rung was measured on."""
    names = {rung.spec.name for rung in ladder}
    return tuple(sorted({r.gpu.name for r in results if r.kernel in names}))


def ladder_table(ladder: Sequence[Rung], results: Sequence[Result], digests: dict[str, str]) -> str:
    """Markdown: one table per GPU that a rung was measured on, every rung in each.

    digests  kernel name to the digest of its current source
    """
    sections = []
    for gpu in gpus_of(ladder, results) or ("",):
        title = f"**{gpu or 'No GPU yet'}**, {SIZE}^3, windows of {LAUNCHES} launches"
        lines = [title, "", "| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
        lines += ["| " + " | ".join(row) + " |" for row in _rows(ladder, results, gpu, digests)]
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _rows(
    ladder: Sequence[Rung], results: Sequence[Result], gpu: str, digests: dict[str, str]
) -> Iterator[tuple[str, ...]]:
    for rung in ladder:
        s, speed = rung.spec.schedule, speed_of(rung, results, gpu, digests)
        tile = f"{s.tile.m} x {s.tile.n} x {s.tile.k}"
        figures = (_NOT_MEASURED, "-", "-")
        if speed is not None:
            ratio = f"{speed.ratio:.3f}" if speed.ratio is not None else "-"
            figures = (f"{speed.tflops:.0f}", ratio, "**stale**" if speed.stale else "current")
        yield rung.title, rung.adds, tile, str(s.stages), *figures


_LEFT, _TOP, _BAR, _GAP, _WIDTH = 110, 56, 26, 12, 620
_INK, _FILL, _MARK = "#24292f", "#3b6ea5", "#c4572b"


def ladder_chart(ladder: Sequence[Rung], results: Sequence[Result], digests: dict[str, str]) -> str:
    """An SVG of one bar per rung, on the GPU that most rungs were measured on.

    A mark stands at the baseline's speed in the same process; a rung that was not measured, or
    whose source has changed since, says so instead.
    """
    gpus = gpus_of(ladder, results)
    speeds = {gpu: [speed_of(r, results, gpu, digests) for r in ladder] for gpu in gpus}
    gpu = max(gpus, key=lambda g: sum(s is not None for s in speeds[g]), default="")
    shown = speeds.get(gpu, [None] * len(ladder))
    values = [max(s.tflops, s.baseline or 0) for s in shown if s is not None]
    scale = _WIDTH / max(values, default=1)
    height = _TOP + len(ladder) * (_BAR + _GAP) + 12
    title = f"{gpu or 'No GPU yet'}: TFLOPS at {SIZE}^3, windows of {LAUNCHES} launches"
    body = [_text(16, 22, title, weight="bold"), _text(16, 42, f"mark: {BASELINE}", fill=_MARK)]
    for index, (rung, speed) in enumerate(zip(ladder, shown, strict=True)):
        y = _TOP + index * (_BAR + _GAP)
        middle = y + _BAR // 2 + 5
        body.append(_text(16, middle, rung.title))
        body += _bar(speed, y, middle, scale)
    size = f'width="{_LEFT + _WIDTH + 110}" height="{height}"'
    style = 'font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""])


def _bar(speed: Speed | None, y: int, middle: int, scale: float) -> Iterator[str]:
    if speed is None:
        yield _text(_LEFT, middle, _NOT_MEASURED)
        return
    width = speed.tflops * scale
    opacity = ' fill-opacity="0.4"' if speed.stale else ""
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{_FILL}"{opacity}/>'
    )
    label = f"{speed.tflops:.0f}" + (" (stale)" if speed.stale else "")
    furthest = max(width, (speed.baseline or 0) * scale)
    yield _text(_LEFT + furthest + 8, middle, label)
    if speed.baseline is not None:
        x = _LEFT + speed.baseline * scale
        yield (f'<path d="M{x:.1f} {y - 3}V{y + _BAR + 3}" stroke="{_MARK}" stroke-width="3"/>')


def _text(x: float, y: int, text: str, weight: str = "normal", fill: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{fill}" font-weight="{weight}">{escape(text)}</text>'
