"""One start of a sweep: enumerate, compile, then the GPU's screen and finals, or the emulator.

Everything is recorded as it happens, so that the next start repeats nothing.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kgen.bench.device import operand_layout
from kgen.bench.protocol import Settings
from kgen.errors import DeviceError, KgenError
from kgen.sweep.built import build_all, toolchain_identity
from kgen.sweep.candidate import Built
from kgen.sweep.database import exclusive
from kgen.sweep.emulated import Emulate, covered, emulate, emulate_all
from kgen.sweep.gpus import Gpus, find_gpus
from kgen.sweep.keys import device_id
from kgen.sweep.lanes import Block, Final, Lanes, Work
from kgen.sweep.load import Sweep
from kgen.sweep.queries import cells_of, ranked, settings_of
from kgen.sweep.record import Recorder
from kgen.sweep.space import Point, chosen_points, points_of
from kgen.sweep.store import Store
from kgen.sweep.survey import require_points, survey
from kgen.sweep.watch import Watch

VISIT = 32  # kernels screened on one problem before the next has its turn
On = Literal["auto", "gpu", "emulator", "none"]


@dataclass
class Session:
    """Settings of one start.

    on        where kernels run: a GPU of their target if there is one, else the emulator
    build_only  stop after the compiler, for a machine that has the GPU and no compiler
    work, emulate  what runs in child processes; tests put functions there that misbehave
    """

    sweep: Sweep
    results: Path
    on: On = "auto"
    build_only: bool = False
    retry: tuple[str, ...] = ()
    watch: Watch = field(default_factory=Watch)
    work: Work = field(default_factory=Work)
    emulate: Emulate = emulate
    clock: Callable[[], float] = time.monotonic

    def run(self) -> str:
        """Go as far as this machine and the budget allow; returns the outcome in words.

        Raises  KgenError for an empty space, a file in use, another kgen's file, a full disk
        """
        self.watch.phase("points", self.sweep.size)
        points = points_of(self.sweep, self.watch.step)
        require_points(self.sweep, survey(self.sweep, points))
        if self.results.is_dir():
            raise KgenError(f"{self.results}: is a folder; results are kept in a file")
        file = Path(os.path.realpath(self.results))  # one lock, whichever link leads to it
        lock = file.with_name(file.name + ".lock")
        budget, now = self.sweep.file.budget, self.clock()
        seconds = 60 * budget.minutes if budget.minutes else math.inf
        share = budget.finals_share if self.sweep.file.finals.keep else 0.0
        self._end, self._screen_end = now + seconds, now + seconds * (1 - share)
        self._cut = False  # whether an end was met
        with (
            exclusive(lock, f"{self.results} is in use by another kgen sweep"),
            Store.open(self.results) as store,
        ):
            start = store.begin(
                self.sweep.name, self.sweep.digest, self.sweep.text, self._settings()
            )
            outcome = "failed"
            try:
                self._work(store, points, start)
                outcome = "out of time" if self._cut else "done"
            except KeyboardInterrupt:
                outcome = "interrupted"
                raise
            except BaseException as error:
                outcome = f"failed: {error}"
                raise
            finally:
                store.end(start, outcome)
        return outcome

    def _settings(self) -> dict[str, Any]:
        file = self.sweep.file
        return {
            "axes": {axis.path: list(axis.values) for axis in self.sweep.axes},
            "rank": file.rank.model_dump(),
            "screen": file.screen.model_dump(),
            "finals": file.finals.model_dump(),
            "toolchain": toolchain_identity(),
            "device": None,
        }

    def _out_of_time(self) -> bool:
        return self._passed(self._end)

    def _screen_is_over(self) -> bool:
        return self._passed(self._screen_end)

    def _passed(self, end: float) -> bool:
        if self.clock() < end:
            return False
        self._cut = True
        return True

    def _work(self, store: Store, points: list[Point], start: int) -> None:
        name = self.sweep.name
        for status in self.retry:
            store.forget(status)
        known = store.kernels_of(name)
        rows = [_point_row(point, known) for point in points]
        store.replace_space(name, rows, [(p.name, *p.size) for p in self.sweep.problems])
        chosen = chosen_points(self.sweep, points)
        self.watch.phase("compile", len(chosen))
        built = build_all(
            chosen,
            store,
            name,
            _twins(points),
            self.sweep.file.timeouts.build_s,
            self._out_of_time,
            self.watch.step,
        )
        if self.build_only or self.on == "none":
            return
        with ExitStack() as locks:
            gpus = self._gpus(built, locks)
            if gpus is None:
                self._emulate(store, built)
            else:
                identity = device_id(gpus.facts)
                store.put_device(identity, gpus.facts)
                store.put_setting(start, "device", identity)
                self._time(store, built, gpus)

    def _gpus(self, built: list[Built], locks: ExitStack) -> Gpus | None:
        """The GPUs that can run these kernels; None where the emulator is to take over."""
        if self.on == "emulator" or not built:
            return None
        try:
            gpus = find_gpus(self.work, locks)
        except DeviceError as error:
            if self.on == "gpu":
                raise
            self.watch.note(f"no GPU: {error}; kernels are checked in the emulator")
            return None
        for text in gpus.notes:
            self.watch.note(text)
        if not self._runnable(built, gpus):
            for child in gpus.children:
                child.close()
            targets = ", ".join(sorted({b.candidate.plan.target for b in built}))
            text = f"{gpus.facts['name']} runs no kernel for {targets}"
            if self.on == "gpu":
                raise DeviceError(text)
            self.watch.note(f"{text}; they are checked in the emulator")
            return None
        return gpus

    def _runnable(self, built: list[Built], gpus: Gpus) -> list[Built]:
        here = gpus.facts["compute_capability"]
        return [
            b for b in built if "".join(map(str, b.candidate.plan.compute_capability)) == str(here)
        ]

    def _emulate(self, store: Store, built: list[Built]) -> None:
        known, why = covered(built)
        if why and not known and self.on == "emulator":
            raise DeviceError(why)
        if why:  # the others stay `built`
            text = f"{len(built) - len(known)} of {len(built)} kernels are not emulated: {why}"
            self.watch.note(text)
        emulate_all(
            known,
            store,
            self.sweep.file.emulator.schedules,
            self.sweep.file.timeouts.emulate_s,
            self._out_of_time,
            self.watch,
            self.emulate,
        )

    def _time(self, store: Store, built: list[Built], gpus: Gpus) -> None:
        file = self.sweep.file
        screen = Settings((file.screen.window,), file.screen.rounds, 0.0, file.screen.warmup)
        finals = Settings(
            (file.finals.window,), file.finals.rounds, file.finals.cooldown_s, file.finals.warmup
        )
        lanes = Lanes(
            gpus.children,
            self.work,
            screen,
            finals,
            file.timeouts.screen_s,
            file.timeouts.finals_s,
            self._out_of_time,
            self._screen_is_over,
        )
        try:
            recorder = Recorder(store, gpus.facts, screen, finals, self.watch)
            mine = self._runnable(built, gpus)
            blocks = list(self._blocks(mine, recorder))
            self.watch.phase("screen", sum(len(b.kernels) for b in blocks))
            recorder.take(lanes.screen(blocks))
            todo = list(self._finalists(store, mine, recorder))
            self.watch.phase("finals", sum(len(f.kernels) for f in todo))
            recorder.take(lanes.finals(todo))
        finally:
            lanes.close()

    def _blocks(self, built: list[Built], recorder: Recorder) -> list[Block]:
        """What is not screened yet, VISIT kernels of every problem and layout at a time.

        So a screen that time cuts short has seen a part of every problem.
        """
        groups: dict[Any, list[Built]] = {}
        for problem in self.sweep.problems:
            for one in built:
                if not recorder.knows("screen", one, problem) and one.source not in recorder.bad:
                    key = (problem, operand_layout(one.candidate.plan))
                    groups.setdefault(key, []).append(one)
        every = self.sweep.file.screen.reference_every
        found = []
        for (problem, layout), group in groups.items():
            for turn, visit in enumerate(_visits(group)):
                for first in range(0, len(visit), every):
                    block = Block(problem, layout, tuple(visit[first : first + every]))
                    found.append((turn, block))
        return [block for _, block in sorted(found, key=lambda pair: pair[0])]

    def _finalists(self, store: Store, built: list[Built], recorder: Recorder) -> list[Final]:
        """The best of every problem by its screen, as far as they are not timed in full yet."""
        settings = settings_of(store, self.sweep.name)["settings"]
        cells = cells_of(store, self.sweep.name, stages=("screen",))
        by_source = {b.source: b for b in built}
        found = []
        for problem in self.sweep.problems:
            best = [
                c
                for c in ranked(cells, problem.size, settings)
                if problem.size in c.timings and c.source_digest in by_source
            ][: self.sweep.file.finals.keep]
            kernels = [by_source[c.source_digest] for c in best]
            left = tuple(k for k in kernels if not recorder.knows("final", k, problem))
            unverified = frozenset(k.source for k in left if not recorder.knows("verify", k))
            # Baselines share one operand layout, so a final does too.
            layouts = {operand_layout(k.candidate.plan): [] for k in left}
            for kernel in left:
                layouts[operand_layout(kernel.candidate.plan)].append(kernel)
            found += [Final(problem, tuple(group), unverified) for group in layouts.values()]
        return found


def _visits(kernels: list[Built]) -> list[list[Built]]:
    """Kernels in parts of VISIT, each from all over the space: digests mix the values of axes."""
    mixed = sorted(kernels, key=lambda b: b.source)
    parts = [mixed[first : first + VISIT] for first in range(0, len(mixed), VISIT)]
    return [sorted(part, key=lambda b: b.candidate.point.index) for part in parts]


def _twins(points: list[Point]) -> dict[int, list[int]]:
    """A kernel's first point to all points that it is the kernel of."""
    found: dict[int, list[int]] = {}
    for point in points:
        if point.fits:
            found.setdefault(point.index if point.twin < 0 else point.twin, []).append(point.index)
    return found


def _point_row(point: Point, known: dict[str, str]) -> dict[str, Any]:
    """A row of `point`. A point that this start may not reach keeps what is known of its kernel."""
    return {
        "number": point.index,
        "axes": json.dumps(point.values, default=str),
        "kernel": known.get(point.loaded.spec.name) if point.loaded else None,
        "rules": json.dumps(sorted({loss.rule for loss in point.losses})),
        "reason": "\n".join(loss.reason for loss in point.losses),
    }
