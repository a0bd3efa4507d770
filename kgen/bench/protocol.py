"""How a kernel and its baselines are timed: interleaved, rested, rotated. Pure; the GPU comes in as
callables.

One reading is: rest, warm-up launches, one timed window of back-to-back launches. Every contestant
gets the same rest, and the order turns round every round, so that neither a warm board nor a cold
one favours the same contestant. No reading is ever dropped; what looks wrong about them is said in
the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgen.bench.sampler import Sample, Sampler
from kgen.bench.statistics import MINIMUM_ROUNDS, Ratio, median_ratio
from kgen.errors import KgenError

CLOCK_DROP = 0.10  # a window that ends this far below the fastest clock seen was slowed down
NO_SAMPLER = Sampler(missing="clocks and power were not asked for")
SPREAD = 0.05  # between the rounds of one contestant; run-to-run noise is 1 to 2 %


@dataclass(frozen=True)
class Contestant:
    """Something to time. `launchers` each launch once, on buffers of their own; they are used in
    turn.

    `note` says what it computes, for the like-for-like column: accumulator, output format.
    """

    name: str
    launchers: tuple[Callable[[], None], ...]
    note: str = ""


@dataclass(frozen=True)
class Bench:
    """The machine. `elapsed` runs a function and gives the device seconds of the work that it
    queued, by events in stream order: the warm-up launches queued just before must not count.
    """

    elapsed: Callable[[Callable[[], None]], float]
    synchronize: Callable[[], None]
    sleep: Callable[[float], None]
    sampler: Sampler = NO_SAMPLER


@dataclass(frozen=True)
class Settings:
    """Units  windows, warmup in launches; cooldown in seconds."""

    windows: tuple[int, ...] = (30,)
    rounds: int = 3
    cooldown_s: float = 3.0
    warmup: int = 5

    def __post_init__(self) -> None:
        if self.rounds < MINIMUM_ROUNDS:
            raise KgenError(f"--rounds {self.rounds}: at least {MINIMUM_ROUNDS} are needed")
        if not self.windows or min(self.windows) < 1 or len(set(self.windows)) < len(self.windows):
            raise KgenError(f"--window {self.windows}: wants different positive launch counts")
        if self.cooldown_s < 0 or self.warmup < 0:
            raise KgenError("--cooldown and --warmup cannot be negative")


@dataclass(frozen=True)
class Reading:
    """One timed window. `order` is its place in the round; samples are from right before and after
    it.
    """

    contestant: str
    window: int
    round: int
    order: int
    seconds_per_launch: float
    before: Sample | None
    after: Sample | None


@dataclass(frozen=True)
class Measurement:
    """All readings of one problem."""

    candidate: str
    baselines: tuple[str, ...]
    settings: Settings
    readings: tuple[Reading, ...]
    notes: tuple[str, ...]

    def times(self, contestant: str, window: int) -> tuple[float, ...]:
        """Seconds per launch, by round."""
        found = (r for r in self.readings if (r.contestant, r.window) == (contestant, window))
        return tuple(r.seconds_per_launch for r in sorted(found, key=lambda r: r.round))

    def ratio(self, baseline: str, window: int) -> Ratio:
        """Speed of the candidate over a baseline."""
        return median_ratio(self.times(self.candidate, window), self.times(baseline, window))

    @property
    def undecided(self) -> bool:
        """Whether any ratio's interval contains 1."""
        return any(
            self.ratio(name, window).verdict == "undecided"
            for name in self.baselines
            for window in self.settings.windows
        )


def _read(
    bench: Bench, contestant: Contestant, window: int, settings: Settings, at: tuple[int, int]
) -> Reading:
    """One reading; `at` is its round and its place in it."""
    bench.synchronize()
    bench.sleep(settings.cooldown_s)
    turn = 0

    def launch(count: int) -> None:
        nonlocal turn
        for _ in range(count):
            contestant.launchers[turn % len(contestant.launchers)]()
            turn += 1

    before = bench.sampler.read()
    launch(settings.warmup)
    seconds = bench.elapsed(lambda: launch(window))
    after = bench.sampler.read()
    if not (np.isfinite(seconds) and seconds > 0):
        raise KgenError(f"{contestant.name}: the timer gave {seconds} s for {window} launches")
    return Reading(contestant.name, window, *at, seconds / window, before, after)


def measure(
    candidate: Contestant,
    baselines: Sequence[Contestant],
    settings: Settings,
    bench: Bench,
    progress: Callable[[Reading], None] = lambda reading: None,
) -> Measurement:
    """Time a candidate and its baselines in every window, `rounds` times.

    Raises  KgenError for contestants without launchers or with equal names, or a timer that does
        not advance
    """
    contestants = [candidate, *baselines]
    names = [contestant.name for contestant in contestants]
    if len(set(names)) < len(names):
        raise KgenError(f"contestants need different names, got {', '.join(names)}")
    for contestant in contestants:
        if not contestant.launchers:
            raise KgenError(f"{contestant.name} has nothing to launch")
    readings = []
    for window in settings.windows:
        for turn in range(settings.rounds):
            order = contestants if turn % 2 == 0 else contestants[::-1]
            for place, contestant in enumerate(order):
                readings.append(_read(bench, contestant, window, settings, (turn, place)))
                progress(readings[-1])
    result = Measurement(candidate.name, tuple(names[1:]), settings, tuple(readings), ())
    return replace(result, notes=_notes(result, bench.sampler))


def _notes(measurement: Measurement, sampler: Sampler) -> tuple[str, ...]:
    """What a reader must know about these readings."""
    notes = [sampler.missing] if sampler.missing else []
    if not measurement.settings.cooldown_s:
        notes.append("measured without a pause: the board's clock may favour one contestant")
    notes += _throttling(measurement.readings)
    for window in measurement.settings.windows:
        for name in (measurement.candidate, *measurement.baselines):
            times = measurement.times(name, window)
            spread = max(times) / min(times) - 1
            if spread > SPREAD:
                notes.append(f"{name}, {window} launches: rounds differ by {100 * spread:.0f} %")
    return tuple(notes)


def _throttling(readings: Sequence[Reading]) -> list[str]:
    """Reasons the driver gave, and windows that ended on a lower clock than the fastest seen."""
    samples = [s for r in readings for s in (r.before, r.after) if s is not None]
    if not samples:
        return []
    notes = []
    for reason in sorted({reason for sample in samples for reason in sample.throttle}):
        hit = sum(reason in (*_reasons(r.before), *_reasons(r.after)) for r in readings)
        notes.append(f"the driver reported {reason} in {hit} of {len(readings)} windows")
    fastest = max(sample.sm_mhz for sample in samples)
    for name in sorted({r.contestant for r in readings}):
        for window in sorted({r.window for r in readings}):
            ends = [
                r.after.sm_mhz
                for r in readings
                if r.after and (r.contestant, r.window) == (name, window)
            ]
            if ends and min(ends) < (1 - CLOCK_DROP) * fastest:
                clocks = f"{min(ends):.0f} of {fastest:.0f} MHz"
                notes.append(f"{name}, {window} launches: the SM clock fell to {clocks}")
    return notes


def _reasons(sample: Sample | None) -> tuple[str, ...]:
    return sample.throttle if sample else ()
