"""A killable process that does one piece of work at a time, and what its end means.

A crash, a hang or a lost GPU context is the outcome of the piece that was under way; the process is
replaced and the next piece begins afresh.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from pebble import CONSTS, ProcessExpired, ProcessPool

from kgen.errors import DeviceError
from kgen.sweep.candidate import Outcome

# A process that does not end on SIGTERM hangs in the driver or in the kernel; SIGKILL follows.
TERM_SECONDS = 0.3
CONSTS.term_timeout = TERM_SECONDS  # type: ignore[misc]
START_SECONDS = 120.0  # a cold disk reads a gigabyte of GPU libraries first


class Stopped(Exception):  # noqa: N818 - no error: somebody asked for it
    """The child was closed while it worked; what it was doing has no outcome."""


def _enter(environment: dict[str, str]) -> None:
    os.environ.update(environment)


class Child:
    """One process, started when it is first needed. Work must be a function of a module.

    warm  what a new process does first, so that the time it needs is not the first piece's; it
          answers with status `ready`
    """

    def __init__(
        self, warm: tuple[Callable[..., Outcome], str], environment: dict[str, str] | None = None
    ) -> None:
        self._warm, self._ready = warm
        self._environment = environment or {}
        self._pool: ProcessPool | None = None
        self._running: Any = None
        self._closed = False

    def call(self, work: Callable[..., Outcome], *arguments: Any, timeout: float) -> Outcome:
        """What the work answers, or `hung` or `crashed` in its place.

        Units   timeout in seconds
        Raises  Stopped if `close` was called meanwhile; DeviceError if a new process does not get
                ready, which is this machine's fault and not the work's
        """
        if self._pool is None:
            self.start()
        outcome = self._call(work, arguments, timeout)
        if outcome.costs_process:
            self._end()
        return outcome

    def start(self) -> Outcome:
        """Start the process and let it get ready; returns what it answered.

        Raises  DeviceError with the reason why it does not
        """
        outcome = self._call(self._warm, (), START_SECONDS)
        if outcome.status != self._ready:
            self._end()
            raise DeviceError(outcome.reason or f"the worker process answered {outcome.status}")
        return outcome

    def _call(
        self, work: Callable[..., Outcome], arguments: tuple[Any, ...], timeout: float
    ) -> Outcome:
        future = self._started().schedule(work, args=arguments, timeout=timeout)
        self._running = future
        try:
            outcome: Outcome = future.result()
        except CancelledError:
            raise Stopped from None
        except TimeoutError:
            outcome = Outcome("hung", f"no answer in {timeout:g} s; its process was stopped")
        except ProcessExpired as end:
            what = f"its process died: {death_of(end.exitcode)}"
            outcome = Outcome("crashed", what, poisoned=True)
        except Exception as error:  # of the work itself: kgen's or a library's fault, not a hang
            outcome = Outcome("crashed", f"{type(error).__name__}: {error}", poisoned=True)
        if self._closed:
            raise Stopped
        return outcome

    def close(self) -> None:
        """Kill the process, whatever it does."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()  # wakes whoever waits for it; a pool that stops does not
        self._end()

    def _started(self) -> ProcessPool:
        if self._closed:
            raise Stopped
        if self._pool is None:
            self._pool = ProcessPool(
                max_workers=1,
                # No fork: a child must not inherit threads, locks and database handles.
                context=multiprocessing.get_context("spawn"),
                initializer=_enter,
                initargs=[self._environment],
            )
        return self._pool

    def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()
            pool.join()


def death_of(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return f"exit status {code}"
