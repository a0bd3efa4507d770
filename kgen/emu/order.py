"""What a warp knows of the others: two clocks, and the asynchronous operations it has seen
complete.

HAPPENED  the latest step of every warp that is ordered before this point (control order). Decides
          whether an
          overwrite may hit a reader, and whether a barrier phase can run ahead of an observer.
VISIBLE   the latest step whose generic-proxy writes can be read here (release / acquire). Always
          behind HAPPENED:
          the completion of a TMA load proves that its issuer got so far, yet publishes none of the
          issuer's writes.
ASYNC     the part of VISIBLE that the async proxy sees too; raised to VISIBLE by fence.proxy.async
          anywhere on
          the path.

Completions are one bit per operation, so that seeing operation k says nothing of k - 1.
Source  PTX ISA chapter 8 (memory consistency model), 9.7.13 (proxies)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kgen.emu.machine import Cta, Warp
    from kgen.emu.shadow import Footprint

HAPPENED, VISIBLE, ASYNC = 0, 1, 2


class Knowledge:
    """One point of the order. Joined by every acquire, copied by every release."""

    __slots__ = ("clock", "completed", "data")

    def __init__(self, clock: np.ndarray, completed: int = 0, data: int = 0) -> None:
        self.clock = clock  # (3, warps of the grid)
        self.completed = completed  # bit i: asynchronous operation i is over
        self.data = data  # bit i: and what it wrote can be read

    @classmethod
    def nothing(cls, warps: int) -> Knowledge:
        return cls(np.zeros((3, warps), np.int64))

    def copy(self) -> Knowledge:
        return Knowledge(self.clock.copy(), self.completed, self.data)

    def join(self, other: Knowledge) -> None:
        np.maximum(self.clock, other.clock, out=self.clock)
        self.completed |= other.completed
        self.data |= other.data

    def join_order(self, other: Knowledge) -> None:
        """Control order only: nothing becomes visible."""
        np.maximum(self.clock[HAPPENED], other.clock[HAPPENED], out=self.clock[HAPPENED])
        self.completed |= other.completed

    def without_data(self) -> Knowledge:
        """What a relaxed operation publishes: its place in the order."""
        bare = Knowledge(np.zeros_like(self.clock), self.completed, 0)
        bare.clock[HAPPENED] = self.clock[HAPPENED]
        return bare

    def publish_to_async(self) -> None:
        """fence.proxy.async"""
        np.maximum(self.clock[ASYNC], self.clock[VISIBLE], out=self.clock[ASYNC])


@dataclass(eq=False)
class AsyncOp:
    """One asynchronous operation: it was issued, and the schedule decides when `run` happens.

    number        its bit in Knowledge; a store has a second one, `write_number`, for its writes to
                  global memory
    reads         shared memory that must not change before it is over
    pipe          operations of one pipe run in the order of issue
    """

    number: int
    kind: str
    warp: Warp
    pc: int
    run: Callable[[AsyncOp], None]
    write_number: int = -1
    reads: list[tuple[Cta, Footprint]] = field(default_factory=list)
    pipe: object = None
    done: bool = False
    issued_at: int = 0

    def describe(self) -> str:
        place = self.warp.grid.program.place(self.pc)
        return f"{self.kind} issued by {self.warp.name} at {place}"


class OrderTracker:
    """Per-warp order state: what it knows, and what fences hold back or carry."""

    __slots__ = ("deferred", "fenced", "index", "knows", "now")

    def __init__(self, index: int, warps: int) -> None:
        self.index = index  # of the warp in the grid
        self.knows = Knowledge.nothing(warps)
        self.now = 1  # own step: stamps this warp's accesses
        self.knows.clock[HAPPENED, index] = 1
        self.knows.clock[VISIBLE, index] = 1
        self.fenced: Knowledge | None = (
            None  # published by later relaxed operations (fence.acq_rel)
        )
        self.deferred: Knowledge | None = None  # taken by relaxed operations, visible after a fence

    def tick(self) -> None:
        self.now += 1
        self.knows.clock[HAPPENED, self.index] = self.now
        self.knows.clock[VISIBLE, self.index] = self.now

    def release(self) -> Knowledge:
        """Everything known and done so far; later accesses of this warp are not part of it."""
        published = self.knows.copy()
        self.tick()
        return published

    def release_relaxed(self) -> Knowledge:
        """The order alone, and with it what an earlier fence.acq_rel covered."""
        published = self.knows.without_data()
        if self.fenced is not None:
            published.join(self.fenced)
        self.tick()
        return published

    def acquire(self, published: Knowledge) -> None:
        self.knows.join(published)

    def acquire_relaxed(self, published: Knowledge) -> None:
        self.knows.join_order(published)
        if self.deferred is None:
            self.deferred = published.copy()
        else:
            self.deferred.join(published)

    def fence(self) -> None:
        """fence.acq_rel / fence.sc / membar: completes earlier relaxed acquires, starts later
        relaxed releases.
        """
        if self.deferred is not None:
            self.knows.join(self.deferred)
            self.deferred = None
        self.fenced = self.knows.copy()
        self.tick()

    def proxy_fence(self) -> None:
        self.knows.publish_to_async()
        self.tick()
