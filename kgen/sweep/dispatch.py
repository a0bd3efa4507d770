"""What a user gains who calls the best kernel of each problem: means over problems. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kgen.bench.statistics import Ratio, mean_ratio
from kgen.sweep.queries import Timing


@dataclass(frozen=True)
class Mean:
    """Geometric mean over problems of the speed over one baseline.

    problems  that it is over; of: that have a best kernel
    """

    baseline: str
    ratio: Ratio
    problems: int
    of: int

    def __str__(self) -> str:
        problems = str(self.of) if self.problems == self.of else f"{self.problems} of {self.of}"
        r = self.ratio
        verdict = ", undecided" if r.verdict == "undecided" else ""
        interval = f"{r.median:.3f} [{r.low:.3f}..{r.high:.3f}]"
        return f"{interval} of {self.baseline}, over {problems} problems{verdict}"


def means(best: Iterable[Timing | None]) -> list[Mean]:
    """One mean for each baseline, the reference first. Of finals alone: a screen is no result.

    best  what is known of the best kernel of every problem
    """
    timings = list(best)
    pairs: dict[str, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {}
    for timing in timings:
        if timing is not None and (timed := timing.timed):
            own, *others = timed.windows[0].timings
            for other in others:
                pairs.setdefault(other.name, []).append((own.rounds_us, other.rounds_us))
    return [Mean(name, mean_ratio(x), len(x), len(timings)) for name, x in pairs.items()]
