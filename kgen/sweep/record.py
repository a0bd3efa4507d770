"""Turns what happens in the lanes into rows of the store; knows which rows are there already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kgen.bench.protocol import Settings
from kgen.sweep.candidate import Built
from kgen.sweep.drift import reference_at
from kgen.sweep.keys import Key, device_id, timing_key, verify_key
from kgen.sweep.lanes import HARMFUL, Event
from kgen.sweep.problems import Problem
from kgen.sweep.store import Run, Store
from kgen.sweep.watch import Watch


class Recorder:
    """Turns events of the lanes into rows, and knows which are there already."""

    def __init__(
        self,
        store: Store,
        facts: dict[str, Any],
        screen: Settings,
        finals: Settings,
        watch: Watch,
    ) -> None:
        self._store = store
        self._facts = facts
        self._settings = {"screen": screen, "final": finals}
        self._watch = watch
        self._device = device_id(facts)
        rows = store.rows("SELECT key, kernel, status, device FROM run")
        self._done = {row["key"] for row in rows}
        self.bad = {
            r["kernel"] for r in rows if r["status"] in HARMFUL and r["device"] == self._device
        }
        self._best: dict[str, float] = {}

    def key(self, stage: str, kernel: Built, problem: Problem | None = None) -> Key:
        """Of one piece of work on this machine."""
        if problem is None:
            return verify_key(kernel.source, kernel.toolchain, self._facts)
        return timing_key(
            stage,
            kernel.source,
            kernel.toolchain,
            self._facts,
            problem.label,
            self._settings[stage],
        )

    def knows(self, stage: str, kernel: Built, problem: Problem | None = None) -> bool:
        """Whether the store holds the outcome of this piece of work."""
        return self.key(stage, kernel, problem).digest in self._done

    def take(self, events: Iterable[Event]) -> None:
        """Record every event."""
        for event in events:
            if event.kernel is not None:
                self._record(event, event.kernel)
            elif event.stage == "skipped":
                self._watch.step("skipped")
            else:
                self._watch.note(event.outcome.reason)

    def _record(self, event: Event, kernel: Built) -> None:
        key = self.key(event.stage, kernel, event.problem)
        run = Run(
            kernel.source,
            event.stage,
            kernel.toolchain,
            event.outcome.status,
            event.outcome.reason,
            event.problem.size if event.problem else None,
            self._device,
            seconds=round(event.seconds, 3),
        )
        value = event.outcome.value
        if event.stage == "screen" and value:
            run = _screened(run, value, event)
        elif event.stage == "verify" and value:
            run = replace(run, detail=value)
        elif value:
            run = _timed(run, value)
        self._store.put_run(key, run)
        self._done.add(key.digest)
        if not event.again and event.stage != "verify":
            self._watch.step(run.status)
        if run.status in HARMFUL:
            self.bad.add(kernel.source)
            where = f" at {event.problem.name}" if event.problem else ""
            first = run.reason.splitlines()[0] if run.reason else ""
            self._watch.note(f"{kernel.candidate.plan.name}{where}: {run.status}: {first}")
        elif event.problem and run.ratio and run.ratio > self._best.get(event.problem.name, 0):
            self._best[event.problem.name] = run.ratio
            speed = f"{run.ratio:.3f} of {value['reference']}"
            text = f"{speed}, {kernel.candidate.plan.name} ({event.stage})"
            self._watch.best(event.problem.name, text)


def _screened(run: Run, value: dict[str, Any], event: Event) -> Run:
    reference = reference_at(value["at"], event.readings)
    return replace(
        run,
        us=value["us"],
        reference_us=reference,
        ratio=reference / value["us"],
        sm_mhz=value["sm_mhz"],
        power_w=value["power_w"],
        detail={
            "note": value["note"],
            "notes": value["notes"],
            "rounds_us": value["rounds_us"],
            "reference": value["reference"],
            "reference_readings": len(event.readings),
        },
    )


def _timed(run: Run, value: dict[str, Any]) -> Run:
    columns = ("us", "reference_us", "ratio", "low", "high", "sm_mhz", "power_w")
    rest = {k: v for k, v in value.items() if k not in columns}
    return replace(run, **{c: value[c] for c in columns}, detail=rest)
