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
    ratios = times[1] / times[0]
    picks = np.random.default_rng(seed).integers(0, rounds, size=(RESAMPLES, rounds))
    medians = np.median(ratios[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail], method="nearest")
    return Ratio(float(np.median(ratios)), float(low), float(high), rounds)
