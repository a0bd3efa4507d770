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
    """One process, started when it is first needed. Work must be a function of a module."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment or {}
        self._pool: ProcessPool | None = None
        self._closed = False

    def call(self, work: Callable[..., Outcome], *arguments: Any, timeout: float) -> Outcome:
        """What the work answers, or `hung` or `crashed` in its place.

        Units   timeout in seconds; the first call of a process has START_SECONDS on top
        Raises  Stopped if `close` was called meanwhile
        """
        fresh = self._pool is None
        pool = self._started()
        limit = timeout + (START_SECONDS if fresh else 0.0)
        future = pool.schedule(work, args=arguments, timeout=limit)
        try:
            outcome: Outcome = future.result()
        except CancelledError:
            raise Stopped from None
        except TimeoutError:
            outcome = Outcome("hung", f"no answer in {limit:g} s; its process was stopped")
        except ProcessExpired as end:
            outcome = Outcome("crashed", f"its process died: {death_of(end.exitcode)}")
        except Exception as error:  # of the work itself: kgen's or a library's fault, not a hang
            outcome = Outcome("crashed", f"{type(error).__name__}: {error}", poisoned=True)
        if self._closed:
            raise Stopped
        if outcome.poisoned:
            self._end()
        return outcome

    def close(self) -> None:
        """Kill the process, whatever it does."""
        self._closed = True
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
