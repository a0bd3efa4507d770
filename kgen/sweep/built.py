"""The first phase: every candidate is rendered and compiled, on all cores.

One refused source is the outcome of that point; a missing compiler is this machine's.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from threading import Event

from kgen.build import gate, pool
from kgen.build.compile import Artifact, compile_source
from kgen.build.toolchain import lock
from kgen.errors import CompileError, KgenError, ToolchainError
from kgen.sweep.candidate import Built, Candidate, prepare
from kgen.sweep.keys import build_key
from kgen.sweep.space import Point
from kgen.sweep.store import Store

LOOK_SECONDS = 0.2  # between two looks at Ctrl-C and the clock
LONGEST_REASON = 2000


@dataclass(frozen=True)
class BuildOutcome:
    """What became of one point. status: built, compile_failed, ptxas_rejected or unbuilt.

    unbuilt  there is no compiler here, and the cache does not hold the kernel
    """

    candidate: Candidate | None
    status: str
    reason: str = ""
    artifact: Artifact | None = None
    seconds: float = 0.0


def toolchain_identity() -> str:
    """The compiler of sweeps, as keys name it; nothing need be installed."""
    return lock().identity("nvrtc")


def build_all(
    points: Iterable[Point],
    store: Store,
    sweep: str,
    twins: dict[int, list[int]],
    timeout: float,
    out_of_time: Callable[[], bool],
    progress: Callable[[str], None],
) -> list[Built]:
    """Compile what the store does not know, record everything, and return what may run.

    twins  point number to the numbers of all points with the same kernel
    Raises  ToolchainError if there is no compiler and the cache holds no kernel either
    """
    identity = toolchain_identity()
    failed = {
        row["kernel"]: row
        for row in store.rows("SELECT * FROM build WHERE toolchain = ?", identity)
        if row["status"] != "built"
    }
    known = set(failed)
    found: list[Built] = []
    cannot = ""
    with closing(_in_parallel(list(points), known, timeout, out_of_time)) as outcomes:
        for outcome in outcomes:
            candidate = outcome.candidate
            if candidate is None:
                raise KgenError(outcome.reason)
            _record_kernel(store, sweep, candidate, twins)
            if outcome.status == "known":
                progress(failed[candidate.source]["status"])
                continue
            progress(outcome.status)
            if outcome.status == "unbuilt":
                cannot = outcome.reason
                continue
            _record_build(store, candidate, outcome, identity)
            if outcome.status == "built" and outcome.artifact is not None:
                registers = _registers(outcome.artifact)
                found.append(Built(candidate, outcome.artifact.path, registers, identity))
    if cannot and not found:
        raise ToolchainError(cannot)
    return sorted(found, key=lambda b: b.candidate.point.index)


def _in_parallel(
    points: list[Point], known: set[str], timeout: float, out_of_time: Callable[[], bool]
) -> Generator[BuildOutcome]:
    """Outcomes as they come. Leaves at once, and leaves no compiler behind, when interrupted."""
    workers = os.cpu_count() or 1
    stop = Event()
    todo, running = deque(points), set[Future[BuildOutcome]]()
    with ThreadPoolExecutor(workers) as threads:
        try:
            while True:
                while todo and len(running) < 2 * workers and not out_of_time():
                    running.add(threads.submit(_build, todo.popleft(), known, timeout, stop))
                if not running:
                    return
                done, running = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            stop.set()
            while wait(running, 0.02).not_done:
                pool.interrupt()  # again and again: a thread may just be starting a compiler


def _build(point: Point, known: set[str], timeout: float, stop: Event) -> BuildOutcome:
    start = time.perf_counter()
    candidate = None
    try:
        candidate = prepare(point)
        if candidate.source in known or stop.is_set():
            return BuildOutcome(candidate, "known")
        artifact = compile_source(
            candidate.rendered.source,
            name=candidate.plan.name,
            target=candidate.plan.target,
            timeout=timeout,
        )
        artifact.require_clean()
    except ToolchainError as error:
        return BuildOutcome(candidate, "unbuilt", str(error))
    except CompileError as error:
        status = "ptxas_rejected" if gate.check(error.log) else "compile_failed"
        reason = str(error)[:LONGEST_REASON]
        return BuildOutcome(candidate, status, reason, seconds=time.perf_counter() - start)
    except KgenError as error:  # kgen's own templates disagree: no outcome of a point
        return BuildOutcome(None, "broken", str(error))
    return BuildOutcome(candidate, "built", "", artifact, artifact.seconds)


def _registers(artifact: Artifact) -> int:
    return max((r.registers for r in artifact.resources if r.is_kernel), default=0)


def _record_kernel(
    store: Store, sweep: str, candidate: Candidate, twins: dict[int, list[int]]
) -> None:
    loaded = candidate.point.loaded
    assert loaded is not None
    store.put_kernel(
        candidate.source,
        name=candidate.plan.name,
        target=candidate.plan.target,
        spec=candidate.spec_text,
        spec_digest=loaded.digest,
        figures=candidate.point.figures,
        points=(sweep, twins[candidate.point.index]),
    )


def _record_build(store: Store, candidate: Candidate, outcome: BuildOutcome, identity: str) -> None:
    artifact = outcome.artifact
    store.put_build(
        build_key(candidate.source, identity),
        kernel=candidate.source,
        toolchain=identity,
        status=outcome.status,
        reason=outcome.reason,
        registers=_registers(artifact) if artifact else None,
        seconds=round(outcome.seconds, 3),
        artifact=artifact.key if artifact else "",
    )
