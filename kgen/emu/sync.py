"""State of the synchronisation objects: mbarriers, named barriers, the cluster barrier, the
register pool.

Only the objects and their transitions; the instructions that use them are in sync_ops.py.
Source  PTX ISA 9.7.13 (parallel synchronisation), 9.7.13.15 (mbarrier), 9.7.20 (setmaxnreg)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgen.emu.order import HAPPENED, Knowledge
from kgen.emu.registers import SHARED_BASE

if TYPE_CHECKING:
    from kgen.emu.machine import Cta, Fragment, Warp

Waiter = tuple["Warp", "Fragment"]

MAX_COUNT = (1 << 20) - 1  # arrivals an mbarrier can expect
MAX_TX = (1 << 20) - 1  # bytes by which its tx-count may be off zero


@dataclass(frozen=True)
class Observation:
    """A warp saw a phase complete: which, at which of its own steps, and where in the code."""

    phase: int
    step: int
    pc: int


@dataclass(eq=False)
class Mbarrier:
    """An mbarrier object. A phase is over when neither arrivals nor bytes are pending.

    Knowledge gathers over phases: each arrival is a read-modify-write of the same object, so later
    phases carry what earlier ones published.
    """

    cta: Cta
    offset: int  # bytes, in the CTA's shared memory
    expected: int
    initialised_by: int  # warp of the grid
    initialised_at: int  # its step
    gathered: Knowledge
    pending: int = 0
    tx: int = 0
    phase: int = 0  # number of the phase in progress; its parity is what try_wait.parity names
    published: list[Knowledge | None] = field(
        default_factory=lambda: [None, None]
    )  # by parity of the phase
    fenced: bool = False  # the init was made visible to the async proxy
    observers: dict[int, Observation] = field(default_factory=dict)
    waiters: list[Waiter] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pending = self.expected

    def __str__(self) -> str:
        return f"mbarrier +{self.offset - SHARED_BASE} of CTA {self.cta.number}"

    def state(self) -> str:
        return (
            f"phase {self.phase}, pending arrivals {self.pending} of {self.expected}, pending "
            f"bytes {self.tx}"
        )

    def has_completed(self, parity: int) -> bool:
        """Whether the phase of this parity, the latest one, is over. A fresh barrier counts as past
        parity 1.
        """
        return (self.phase & 1) != (parity & 1)

    def arrive(self, count: int) -> bool:
        """Takes `count` arrivals off the phase; False if it does not expect that many."""
        if count > self.pending:
            return False
        self.pending -= count
        return True

    def lagging(self) -> list[tuple[int, Observation]]:
        """Warps that saw the previous phase with no order before the end of this one."""
        clock = self.gathered.clock[HAPPENED]
        return [
            (warp, seen)
            for warp, seen in self.observers.items()
            if seen.phase == self.phase - 1 and clock[warp] < seen.step
        ]

    def try_complete(self) -> bool:
        """Ends the phase if nothing is pending, and publishes what its arrivals released."""
        if self.pending or self.tx:
            return False
        self.published[self.phase & 1] = self.gathered.copy()
        self.phase += 1
        self.pending = self.expected
        return True


@dataclass(eq=False)
class NamedBarrier:
    """One of the 16 barriers of bar.sync / bar.arrive."""

    number: int
    threads: int = 0  # expected in the current use; 0 between uses
    arrived: int = 0
    gathered: Knowledge | None = None
    waiters: list[Waiter] = field(default_factory=list)
    warps: list[int] = field(default_factory=list)  # that have arrived in the current use
    votes: int = 0  # true predicates of bar.red
    finish: list[Callable[[int, int], None]] = field(default_factory=list)  # (votes, threads)

    def describe(self) -> str:
        present = ", ".join(str(number) for number in self.warps)
        return f"barrier {self.number}: {self.arrived} of {self.threads} threads (warps {present})"

    def reset(self) -> None:
        self.threads = self.arrived = 0
        self.gathered = None
        self.waiters = []
        self.warps = []
        self.votes = 0
        self.finish = []


@dataclass(eq=False)
class ClusterBarrier:
    """barrier.cluster: every thread of the cluster arrives, then waits; ended threads count as
    arrived.
    """

    generation: int = 0
    arrived: int = 0  # threads
    gathered: Knowledge | None = None
    published: Knowledge | None = None
    waiters: list[Waiter] = field(default_factory=list)
    arrived_in: dict[int, int] = field(
        default_factory=dict
    )  # warp of the grid -> generation it arrived in


@dataclass(eq=False)
class RegisterPool:
    """Registers that no warp of the CTA holds: setmaxnreg.dec gives to it, .inc takes from it."""

    free: int = 0  # registers, over all threads
    waiters: list[Waiter] = field(default_factory=list)


REGISTERS_PER_SM = 65536


def launch_cap(threads: int) -> int:
    """Registers per thread that a CTA of this many threads can have at launch.

    The file is split over four SM quadrants of 16384 registers, warps are dealt to them in turn,
    and the allocation is in units of 8. Source: ptxas 13.0 under __launch_bounds__, which gives
    168 to each of 288 threads and 96 to each of 544.
    """
    warps_per_quadrant = -(-threads // 128)
    return min(255, 16384 // (32 * warps_per_quadrant) // 8 * 8)
