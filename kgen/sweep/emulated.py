"""The second phase where no GPU is: every kernel in the emulator, one killable process per core."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from dataclasses import replace
from typing import Any

from pebble import ProcessExpired, ProcessPool

from kgen.build.compile import compile_source
from kgen.emu.report import SEVERITY, Judgement
from kgen.errors import DeviceError, KgenError
from kgen.render import render
from kgen.sweep.built import LONGEST_REASON, LOOK_SECONDS
from kgen.sweep.candidate import Built, Job, Outcome
from kgen.sweep.child import death_of
from kgen.sweep.keys import emulate_key
from kgen.sweep.store import Run, Store
from kgen.sweep.watch import Watch
from kgen.verify.emulator import EmulatedCase, require_covered, shapes_of, verify_in_emulator

Emulate = Callable[[Job, tuple[str, ...]], Outcome]


def emulate(job: Job, schedules: tuple[str, ...]) -> Outcome:
    """One kernel over the shapes that follow from its tile: values bit for bit, and findings."""
    plan = job.plan
    ptx = compile_source(
        render(plan).source, name=plan.name, target=plan.target, emit="ptx", line_info=True
    )
    cases, judgement = verify_in_emulator(
        plan, ptx.data.decode(), shapes_of(plan), schedules, job.registers
    )
    return _judged(cases, judgement)


def _judged(cases: list[EmulatedCase], judgement: Judgement) -> Outcome:
    """A finding is what the emulator knows to be wrong; what it does not model says nothing."""
    for case in cases:
        if case.report.verdict == "incomplete":
            continue  # it stopped there, so what is in D is no answer
        if case.wrong:
            what = f"{case.wrong} elements of D are wrong, the first {case.first_wrong}"
            return Outcome("emulator_finding", f"wrong at {case.shape.label}: {what}")
        if not case.report.outputs_agree:
            return Outcome("emulator_finding", f"schedules disagree at {case.shape.label}")
    worst_first = sorted(judgement.findings, key=lambda f: SEVERITY.index(f.level))
    text = "; ".join(map(str, worst_first))
    if any(f.level != "incomplete" for f in worst_first):
        return Outcome("emulator_finding", text[:LONGEST_REASON])
    if worst_first:
        return _not_known(text)
    gaps = "; ".join(judgement.gaps)  # right as far as it ran; the rest is for a GPU to say
    return Outcome("emulated", f"{judgement.verdict}: {gaps}"[:LONGEST_REASON] if gaps else "")


def _not_known(why: str) -> Outcome:
    """The emulator could not say whether a kernel is right, which is no word against it."""
    return Outcome("built", f"not known to the emulator: {why}"[:LONGEST_REASON])


def covered(built: list[Built]) -> tuple[list[Built], str]:
    """The kernels whose instructions the emulator knows, and why it leaves out the others."""
    found, why = list[Built](), ""
    for one in built:
        try:
            require_covered(one.candidate.plan)
            found.append(one)
        except DeviceError as error:
            why = str(error)
    return found, why


def emulate_all(
    built: list[Built],
    store: Store,
    schedules: tuple[str, ...],
    timeout: float,
    out_of_time: Callable[[], bool],
    watch: Watch,
    work: Emulate = emulate,
) -> None:
    """Emulate what the store does not know yet, and record it.

    work  what runs in the children; tests put one there that misbehaves
    """
    done = {row["key"] for row in store.rows("SELECT key FROM run WHERE stage = 'emulate'")}
    keys = {b.source: emulate_key(b.source, b.toolchain, schedules) for b in built}
    todo = [b for b in built if keys[b.source].digest not in done]
    watch.phase("emulate", len(todo))
    with closing(_in_children(todo, schedules, timeout, out_of_time, work)) as outcomes:
        for one, outcome, seconds in outcomes:
            run = Run(one.source, "emulate", one.toolchain, outcome.status, outcome.reason)
            store.put_run(keys[one.source], replace(run, seconds=seconds))
            watch.step(outcome.status)


def _in_children(
    todo: list[Built],
    schedules: tuple[str, ...],
    timeout: float,
    out_of_time: Callable[[], bool],
    work: Emulate,
) -> Generator[tuple[Built, Outcome, float]]:
    workers = os.cpu_count() or 1
    pool = ProcessPool(max_workers=workers, context=multiprocessing.get_context("spawn"))
    try:
        rest, running = deque(todo), dict[Any, tuple[Built, float]]()
        while True:
            while rest and len(running) < workers and not out_of_time():
                one = rest.popleft()
                future = pool.schedule(work, args=[one.job, schedules], timeout=timeout)
                running[future] = (one, time.monotonic())
            if not running:
                return
            done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
            for future in done:
                one, began = running.pop(future)
                yield one, _outcome(future, timeout), time.monotonic() - began
    finally:
        pool.stop()
        pool.join()


def _outcome(future: Any, timeout: float) -> Outcome:
    try:
        return future.result()
    except TimeoutError:
        return Outcome("hung", f"the emulator did not finish in {timeout:g} s and was stopped")
    except ProcessExpired as end:
        return Outcome("crashed", f"its process died: {death_of(end.exitcode)}")
    except KgenError as error:
        return _not_known(str(error))
    except Exception as error:
        return Outcome("crashed", f"{type(error).__name__}: {error}"[:LONGEST_REASON])
