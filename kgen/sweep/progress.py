"""What a person sees of a sweep: a bar with an estimate, counts, the best so far; or plain lines.

On a terminal the picture is live; elsewhere every phase writes a line now and then.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kgen.sweep.watch import Watch

LEAST_STEPS = 5  # before an estimate means anything
LINE_SECONDS = 10.0  # between two plain lines
WIDTH = 30


class Estimate:
    """Time left of a phase, from the steps done so far in this start."""

    def __init__(self, total: int, clock: Any = time.monotonic) -> None:
        self.total = total
        self.done = 0
        self._clock = clock
        self._began = clock()

    def step(self) -> None:
        """One more is done."""
        self.done += 1

    def __str__(self) -> str:
        """`12/150, about 40 s left`, or no estimate while it would be a guess."""
        count = f"{self.done}/{self.total}"
        if self.done >= self.total:
            return f"{count} in {_time(self._clock() - self._began)}"
        if self.done < LEAST_STEPS:
            return count
        left = (self._clock() - self._began) / self.done * (self.total - self.done)
        return f"{count}, about {_time(left)} left"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class PlainWatch(Watch):
    """Lines for a log."""

    def __init__(self, stream: TextIO, clock: Any = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._name = ""
        self._estimate = Estimate(0)
        self._counts: Counter[str] = Counter()
        self._last = 0.0

    def phase(self, name: str, total: int) -> None:
        self._name, self._estimate = name, Estimate(total, self._clock)
        self._counts.clear()
        self._last = self._clock()
        self._say(f"{name}: {total} to do" if total else f"{name}: nothing left to do")

    def step(self, status: str) -> None:
        self._estimate.step()
        self._counts[status] += 1
        last = self._estimate.done >= self._estimate.total
        if last or self._clock() - self._last >= LINE_SECONDS:
            self._last = self._clock()
            self._say(f"{self._name}: {self._estimate}: {counts_text(self._counts)}")

    def best(self, problem: str, text: str) -> None:
        self._say(f"best at {problem}: {text}")

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class LiveWatch(Watch):
    """A table and a bar on a terminal; leave the `with` block to free it.

    transient  the picture goes when it is left
    """

    def __init__(self, console: Console, transient: bool = False) -> None:
        self._phases: list[tuple[str, Estimate, Counter[str]]] = []
        self._best: dict[str, str] = {}
        self._live = Live(  # may ask for the picture at once
            console=console,
            refresh_per_second=5,
            get_renderable=self._picture,
            transient=transient,
        )

    def __enter__(self) -> LiveWatch:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def phase(self, name: str, total: int) -> None:
        self._phases.append((name, Estimate(total), Counter()))

    def step(self, status: str) -> None:
        _, estimate, counts = self._phases[-1]
        estimate.step()
        counts[status] += 1

    def best(self, problem: str, text: str) -> None:
        self._best[problem] = text

    def note(self, text: str) -> None:
        self._live.console.print(Text(text))

    def _picture(self) -> Group:
        phases = Table.grid(padding=(0, 2))
        for name, estimate, counts in self._phases:
            full = WIDTH * estimate.done // max(estimate.total, 1)
            bar = "━" * full + "╌" * (WIDTH - full)
            phases.add_row(name, bar, str(estimate), counts_text(counts))
        best = Table.grid(padding=(0, 2))
        for problem, text in self._best.items():
            best.add_row(Text(problem), Text(text))
        return Group(phases, best)


def counts_text(counts: Counter[str]) -> str:
    """`140 built, 3 ptxas_rejected`."""
    return ", ".join(f"{n} {status}" for status, n in counts.most_common())
