"""Ratios of paired timings and how far they can be trusted. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kgen.errors import KgenError

MINIMUM_ROUNDS = 3  # fewer say nothing about the run-to-run spread of 1 to 2 %
RESAMPLES = 10_000
CONFIDENCE = 0.95

Verdict = Literal["faster", "slower", "undecided"]


@dataclass(frozen=True)
class Ratio:
    """Speed of the candidate over the baseline, above 1 if the candidate is faster.

    `low` to `high` is the bootstrap confidence interval of the median; with three rounds it is
    their range.
    """

    median: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self) -> Verdict:
        """ "faster", "slower", or "undecided" if the interval contains 1."""
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "undecided"

    def __str__(self) -> str:
        note = f", {self.verdict}" if self.verdict == "undecided" else ""
        return f"{self.median:.3f} [{self.low:.3f}..{self.high:.3f}]{note}"


def median_ratio(candidate: Sequence[float], baseline: Sequence[float], *, seed: int = 0) -> Ratio:
    """Median over rounds of baseline time / candidate time of the same round.

    Pairing by round takes out what both share: temperature, power and clock of that minute. Units
    any unit of time, the same for both
    Raises  KgenError for unequal counts, fewer than MINIMUM_ROUNDS rounds, or a time that is not
        positive
    """
    ratios = _ratios(candidate, baseline)
    low, high = _interval(_resampled(ratios, np.random.default_rng(seed)))
    return Ratio(float(np.median(ratios)), low, high, len(ratios))


def mean_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], *, seed: int = 0) -> Ratio:
    """Geometric mean over problems of the ratio that `median_ratio` gives each of them.

    pairs  candidate and baseline times of every problem, paired by round

    The rounds of every problem are resampled on their own. `rounds` is the fewest of a problem.
    Raises  KgenError as median_ratio, and without a problem
    """
    if not pairs:
        raise KgenError("a mean over problems needs at least one")
    generator = np.random.default_rng(seed)
    found = [_ratios(candidate, baseline) for candidate, baseline in pairs]
    resampled = np.mean([np.log(_resampled(x, generator)) for x in found], axis=0)
    low, high = _interval(np.exp(resampled))
    middle = np.exp(np.mean([np.log(np.median(x)) for x in found]))
    return Ratio(float(middle), low, high, min(map(len, found)))


def _ratios(candidate: Sequence[float], baseline: Sequence[float]) -> np.ndarray:
    if len(candidate) != len(baseline):
        raise KgenError(
            f"a ratio needs pairs: {len(candidate)} candidate and {len(baseline)} baseline times"
        )
    rounds = len(candidate)
    if rounds < MINIMUM_ROUNDS:
        raise KgenError(
            f"{rounds} round(s) measured, at least {MINIMUM_ROUNDS} are needed: "
            "a single run is not a result; fix: --rounds 3"
        )
    times = np.array([candidate, baseline], dtype="float64")
    if not (np.isfinite(times).all() and (times > 0).all()):
        raise KgenError("a ratio needs positive, finite times")
    return times[1] / times[0]


def _resampled(ratios: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Medians of bootstrap resamples of the rounds."""
    rounds = len(ratios)
    picks = generator.integers(0, rounds, size=(RESAMPLES, rounds))
    return np.median(ratios[picks], axis=1)


def _interval(values: np.ndarray) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail], method="nearest")
    return float(low), float(high)
