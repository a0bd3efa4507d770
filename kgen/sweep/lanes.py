"""The third phase: one thread and one killable process per GPU, fed with screens, then finals.

Threads only talk to their process and post what happened; the main thread records it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgen.bench.protocol import Settings
from kgen.sweep import device
from kgen.sweep.built import LOOK_SECONDS
from kgen.sweep.candidate import Built, Outcome
from kgen.sweep.child import START_SECONDS, Child, Stopped
from kgen.sweep.problems import Problem

Reading = tuple[float, float]  # moment (s), time per launch (us)
HARMFUL = ("wrong", "hung", "crashed")  # a kernel that was one of them is not run again


@dataclass(frozen=True)
class Work:
    """What runs in the processes that own the GPUs; tests put functions there that misbehave."""

    facts: Callable[[], Outcome] = device.facts
    reference: Callable[..., Outcome] = device.reference
    screen: Callable[..., Outcome] = device.screen
    verify: Callable[..., Outcome] = device.verify
    finals: Callable[..., Outcome] = device.finals


@dataclass(frozen=True)
class Block:
    """Kernels of one operand layout to screen on one problem between two timings of torch."""

    problem: Problem
    layout: Any
    kernels: tuple[Built, ...]


@dataclass(frozen=True)
class Final:
    """The finalists of one problem; those in `unverified` are checked on every shape first."""

    problem: Problem
    kernels: tuple[Built, ...]
    unverified: frozenset[str]


@dataclass(frozen=True)
class Event:
    """Something that happened in a lane. again: it replaces an earlier event of the same work."""

    stage: str  # screen, verify or final; note, or skipped: nothing was done
    outcome: Outcome
    kernel: Built | None = None
    problem: Problem | None = None
    readings: tuple[Reading, ...] = ()
    seconds: float = 0.0
    again: bool = False


@dataclass
class Lanes:
    """The GPUs of this machine that a sweep may use, each with its process."""

    children: Sequence[Child]
    work: Work
    screen_settings: Settings
    finals_settings: Settings
    screen_seconds: float
    finals_seconds: float
    out_of_time: Callable[[], bool] = lambda: False
    screen_is_over: Callable[[], bool] = lambda: False  # the rest of the time is the finals'
    _events: queue.SimpleQueue[Event | BaseException | None] = field(
        default_factory=queue.SimpleQueue
    )
    _stop: threading.Event = field(default_factory=threading.Event)
    _bad: set[str] = field(default_factory=set)  # kernels that need not be tried again

    def screen(self, blocks: Sequence[Block]) -> Iterator[Event]:
        """Screen every block; events as they come."""
        todo = deque(blocks)
        broken: set[Any] = set()
        return self._run(lambda child: self._screens(child, todo, broken))

    def finals(self, finals: Sequence[Final]) -> Iterator[Event]:
        """Check and time every problem's finalists; events as they come."""
        todo = deque(finals)
        return self._run(lambda child: self._finals(child, todo))

    def close(self) -> None:
        """Kill every process; what was under way has no outcome."""
        self._stop.set()
        for child in self.children:
            child.close()

    def _run(self, lane: Callable[[Child], None]) -> Iterator[Event]:
        """One thread per GPU until all are done. Leaves no process behind when interrupted."""

        def body(child: Child) -> None:
            try:
                lane(child)
                self._events.put(None)
            except Stopped:
                self._events.put(None)
            except BaseException as error:
                self._events.put(error)

        threads = [threading.Thread(target=body, args=[c], daemon=True) for c in self.children]
        for thread in threads:
            thread.start()
        left = len(threads)
        try:
            while left:
                try:
                    event = self._events.get(timeout=LOOK_SECONDS)
                except queue.Empty:
                    continue
                if isinstance(event, BaseException):
                    raise event
                if event is None:
                    left -= 1
                else:
                    yield event
        except BaseException:
            self.close()
            raise
        finally:
            for thread in threads:
                thread.join(timeout=5)

    def _done(self) -> bool:
        return self._stop.is_set() or self.out_of_time()

    def _screens(self, child: Child, todo: deque[Block], broken: set[Any]) -> None:
        at: Any = None  # problem and layout that `opening` was timed on
        opening: Reading | None = None
        # Time is asked for only where work is left: a sweep that is through is not out of time.
        while todo and not self._done() and not self.screen_is_over():
            try:
                block = todo.popleft()
            except IndexError:  # another lane took the last one
                return
            here = (block.problem, block.layout)
            if here in broken:
                continue
            if here != at or opening is None:
                at, opening = here, self._reference(child, block)
            if opening is None:
                broken.add(here)
                continue
            done = self._block(child, block, opening)
            timed = [event for event in done if event.outcome.status == "screened"]
            # Also where the process is a new one: it makes the buffers, in torch's time.
            closing = self._reference(child, block) if timed or _replaced(done) else opening
            if closing:
                for event in timed:
                    self._events.put(replace(event, readings=(opening, closing), again=True))
            opening = closing
            if rest := block.kernels[len(done) :]:
                todo.appendleft(replace(block, kernels=rest))

    def _block(self, child: Child, block: Block, opening: Reading) -> list[Event]:
        """Screen the kernels of a block, as far as time and the process last; what happened."""
        happened: list[Event] = []
        for kernel in block.kernels:
            if self._done() or _replaced(happened):
                break
            if kernel.source in self._bad:
                happened.append(Event("skipped", Outcome("skipped")))
                self._events.put(happened[-1])
                continue
            began = time.monotonic()
            outcome = child.call(
                self.work.screen,
                kernel.job,
                block.problem.size,
                self.screen_settings,
                timeout=self.screen_seconds,
            )
            seconds = time.monotonic() - began
            event = Event("screen", outcome, kernel, block.problem, (opening,), seconds)
            self._post(event)
            happened.append(event)
        return happened

    def _post(self, event: Event) -> None:
        """Pass an event on, and remember a kernel that did harm."""
        assert event.kernel is not None
        if event.outcome.status == "no_memory":
            self._events.put(Event("note", event.outcome))
            return
        if event.outcome.status in HARMFUL:
            self._bad.add(event.kernel.source)
        self._events.put(event)

    def _reference(self, child: Child, block: Block) -> Reading | None:
        """torch on a block's problem; a second try in a fresh process if the first fails.

        The first on a problem makes its buffers, so it has the time that a process has to start.
        """
        outcome = Outcome("none")
        for _ in range(2):
            outcome = child.call(
                self.work.reference,
                block.kernels[0].job,
                block.problem.size,
                self.screen_settings,
                timeout=max(START_SECONDS, self.screen_seconds),
            )
            if outcome.status == "reference":
                return outcome.value["at"], outcome.value["us"]
        text = f"{block.problem.name}: torch could not be timed: {outcome.reason}"
        self._events.put(Event("note", Outcome(outcome.status, text), problem=block.problem))
        return None

    def _finals(self, child: Child, todo: deque[Final]) -> None:
        checked: set[str] = set()
        while todo and not self._done():
            try:
                final = todo.popleft()
            except IndexError:  # another lane took the last one
                return
            for kernel in final.kernels:
                if kernel.source in final.unverified - checked - self._bad and not self._done():
                    checked.add(kernel.source)
                    began = time.monotonic()
                    outcome = child.call(self.work.verify, kernel.job, timeout=self.finals_seconds)
                    seconds = time.monotonic() - began
                    self._post(Event("verify", outcome, kernel, seconds=seconds))
            good = [k for k in final.kernels if k.source not in self._bad]
            for _ in range(len(final.kernels) - len(good)):
                self._events.put(Event("skipped", Outcome("skipped")))
            if good and not self._done():
                self._final(child, final.problem, good)

    def _final(self, child: Child, problem: Problem, kernels: list[Built]) -> None:
        """All at once; if that fails, one by one, so that only the guilty one is called so."""
        began = time.monotonic()
        outcome = child.call(
            self.work.finals,
            [k.job for k in kernels],
            problem.size,
            self.finals_settings,
            timeout=self.finals_seconds,
        )
        seconds = time.monotonic() - began
        if outcome.status != "timed" and len(kernels) > 1:
            text = f"{problem.name}: finals of {len(kernels)} kernels {outcome.status}, one by one"
            self._events.put(Event("note", Outcome(outcome.status, f"{text}: {outcome.reason}")))
            for kernel in kernels:
                if not self._done():
                    self._final(child, problem, [kernel])
            return
        for index, kernel in enumerate(kernels):
            value = outcome.value[index] if outcome.status == "timed" else None
            mine = Outcome(outcome.status, outcome.reason, value=value)
            self._post(Event("final", mine, kernel, problem, seconds=seconds / len(kernels)))


def _replaced(events: Sequence[Event]) -> bool:
    """Whether the last piece of work cost its process."""
    return bool(events) and events[-1].outcome.costs_process
