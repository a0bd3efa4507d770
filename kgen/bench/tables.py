"""The results table of the README, made from result files. Knows Markdown and results, nothing of
timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kgen.bench.results import RatioRecord, Result, Timed, Window, stale_results
from kgen.errors import KgenError
from kgen.files import write_whole

BEGIN = "<!-- kgen results: begin (generated, do not edit) -->"
END = "<!-- kgen results: end -->"
LADDER_BEGIN = "<!-- kgen ladder: begin (generated, do not edit) -->"
LADDER_END = "<!-- kgen ladder: end -->"
_COLUMNS = ("kernel", "M x N x K", "launches", "us", "TFLOPS", "against", "ratio", "state")
_LEGEND = (
    "us: median of the rounds [lowest..highest] per launch. ratio: median of the kernel's speed "
    "over the baseline's in the same round [95 % bootstrap interval]; undecided if that holds 1."
)
_EMPTY = "No results recorded yet."


def _ratio(record: RatioRecord) -> str:
    text = f"{record.median:.3f} [{record.low:.3f}..{record.high:.3f}]"
    return f"{text} undecided" if record.verdict == "undecided" else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _against(window: Window, baseline: str) -> str:
    """The baseline, its speed, and what it computes if that is not what the candidate computes."""
    own = window.timings[0]
    other = next((t for t in window.timings if t.name == baseline), None)
    if other is None:
        return baseline
    notes = f" ({other.note}; kernel: {own.note})" if other.note != own.note else ""
    return f"{baseline} {other.tflops:.0f}{notes}"


def _size(problem: Timed) -> str:
    return " x ".join(str(extent) for extent in (problem.m, problem.n, problem.k))


def _rows(result: Result, problem: Timed, state: str) -> Iterator[tuple[str, ...]]:
    size = _size(problem)
    for window in problem.windows:
        own = window.timings[0]
        span = f"{own.median_us:.1f} [{own.low_us:.1f}..{own.high_us:.1f}]"
        head = (result.kernel, size, str(window.launches), span, f"{own.tflops:.0f}")
        if not window.ratios:
            yield (*head, "-", "-", state)
        for record in window.ratios:
            yield (*head, _against(window, record.baseline), _ratio(record), state)


def results_table(results: Iterable[Result], digests: dict[str, str]) -> str:
    """Markdown: one table per GPU, driver and toolkit, and one row per problem, window and
    baseline.

    digests  kernel name to the digest of its current source; results of another source are marked
        stale
    """
    ordered = sorted(results, key=lambda r: (r.gpu.name, r.gpu.driver, r.gpu.toolkit, r.kernel))
    stale = stale_results(ordered, digests)
    groups: dict[str, list[tuple[str, ...]]] = {}
    notes: dict[str, list[str]] = {}
    for result in ordered:
        gpu = result.gpu
        libraries = "".join(f", {k} {v}" for k, v in sorted(gpu.libraries.items()))
        title = f"{gpu.name}, driver {gpu.driver}, CUDA {gpu.toolkit or 'unknown'}{libraries}"
        state = "current" if result not in stale else _staleness(result, digests)
        for problem in sorted(result.timings, key=lambda t: (t.m * t.n * t.k, t.m, t.n)):
            groups.setdefault(title, []).extend(_rows(result, problem, state))
            found = notes.setdefault(title, [])
            found += [f"{result.kernel}: {note}" for note in result.notes]
            found += [f"{result.kernel}, {_size(problem)}: {note}" for note in problem.notes]
    if not groups:
        return _EMPTY
    return "\n\n".join(_section(title, rows, notes[title]) for title, rows in groups.items())


def _staleness(result: Result, digests: dict[str, str]) -> str:
    known = result.kernel in digests
    return "**stale**: the source has changed since" if known else "**stale**: no longer generated"


def _section(title: str, rows: list[tuple[str, ...]], notes: list[str]) -> str:
    lines = [f"**{title}**", ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    lines += ["", _LEGEND]
    if notes:
        lines.append("")
    lines += [f"- {note}" for note in dict.fromkeys(notes)]
    return "\n".join(lines)


def update_readme(
    path: Path, results: Iterable[Result], digests: dict[str, str], ladder: str = ""
) -> bool:
    """Put the tables between their markers in a Markdown file; return whether the file changed.

    Everything outside the markers, line ends included, stays as it is. The ladder's markers may be
    missing.
    Raises  KgenError if the markers of the results are missing, or any are repeated or in the wrong
        order
    """
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise KgenError(f"{path}: cannot be read: {error}") from error
    new = _between(path, text, BEGIN, END, results_table(results, digests))
    if LADDER_BEGIN in new or LADDER_END in new:
        new = _between(path, new, LADDER_BEGIN, LADDER_END, ladder)
    if new == text:
        return False
    write_whole(path, new.encode())
    return True


def _between(path: Path, text: str, begin: str, end: str, table: str) -> str:
    """`text` with `table` between its two markers."""
    if (text.count(begin), text.count(end)) != (1, 1) or text.index(begin) > text.index(end):
        raise KgenError(f"{path}: wants one line {begin!r} and behind it one line {end!r}")
    newline = "\r\n" if "\r\n" in text else "\n"
    table = table.replace("\n", newline)
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    return f"{head}{begin}{newline}{newline}{table}{newline}{newline}{end}{tail}"
