"""Schedules: which warp runs next, and when an asynchronous operation happens.

early       every operation happens when it is issued
late        operations happen, oldest first, only when no warp can run
latestore   likewise, but loads come first and reads of shared memory by stores come last
starve:n    operations happen at once; warp n of every CTA runs only when no other warp can
random:s    both choices are drawn from a generator seeded with s
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from kgen.errors import EmulatorError

if TYPE_CHECKING:
    from kgen.emu.machine import Warp
    from kgen.emu.order import AsyncOp

GROUPS = ("starve", "all")  # names that stand for several schedules of a launch
SLICE = 512  # runs and instructions a warp may take in one turn


class Schedule:
    """`early`, and the base of the others."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def immediate(self) -> bool:
        """Whether operations happen at issue."""
        return True

    def next_warp(self, ready: deque[Warp]) -> Warp:
        return ready.popleft()

    def slice(self) -> int:
        return SLICE

    def interrupts(self, pending: list[AsyncOp]) -> bool:
        """Whether an operation should happen now although warps can run."""
        return False

    def choose(self, pending: list[AsyncOp]) -> AsyncOp:
        return pending[0]


class Late(Schedule):
    @property
    def immediate(self) -> bool:
        return False


class LateStore(Late):
    def choose(self, pending: list[AsyncOp]) -> AsyncOp:
        for operation in pending:
            if operation.kind.startswith("TMA load"):
                return operation
        for operation in pending:
            if not operation.kind.startswith(("TMA store", "TMA reduce", "bulk store")):
                return operation
        return pending[0]


class Starve(Schedule):
    def __init__(self, name: str, victim: int) -> None:
        super().__init__(name)
        self.victim = victim

    def next_warp(self, ready: deque[Warp]) -> Warp:
        for _ in range(len(ready)):
            if ready[0].number != self.victim:
                break
            ready.rotate(-1)
        return ready.popleft()


class Random(Late):
    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name)
        self.generator = random.Random(seed)

    def next_warp(self, ready: deque[Warp]) -> Warp:
        ready.rotate(self.generator.randrange(len(ready)))
        return ready.popleft()

    def slice(self) -> int:
        return self.generator.choice((4, 16, 64, SLICE))

    def interrupts(self, pending: list[AsyncOp]) -> bool:
        return bool(pending) and self.generator.random() < 0.2

    def choose(self, pending: list[AsyncOp]) -> AsyncOp:
        chosen = pending[self.generator.randrange(len(pending))]
        if chosen.pipe is None:
            return chosen
        return next(operation for operation in pending if operation.pipe == chosen.pipe)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def starved(name: str) -> int | None:
    """The warp of a name such as "starve:3"."""
    base, _, argument = name.partition(":")
    return int(argument) if base == "starve" and _is_number(argument) else None


def schedule(name: str) -> Schedule:
    """The schedule of a name such as "late" or "random:7"."""
    base, _, argument = name.partition(":")
    if base == "early" and not argument:
        return Schedule(name)
    if base == "late" and not argument:
        return Late(name)
    if base == "latestore" and not argument:
        return LateStore(name)
    victim = starved(name)
    if victim is not None:
        return Starve(name, victim)
    if base == "random" and (_is_number(argument) or name == "random"):
        return Random(name, int(argument or 0))
    raise EmulatorError(
        f"schedules: {name[:60]!r} is none of early, late, latestore, starve:<warp>, random:<seed>"
    )


def require_schedule(name: str) -> None:
    """Raises EmulatorError for a name that is neither a schedule nor a group of them."""
    if name not in GROUPS:
        schedule(name)
