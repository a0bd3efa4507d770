"""One run of one launch under one schedule: builds the machine, steps warps, and lets operations
happen.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.finish import check_end, coverage_of, deadlock_findings, endless_findings
from kgen.emu.launch import MAX_SHARED_BYTES, Launch
from kgen.emu.machine import Cluster, Cta, Fragment, Wait, Warp
from kgen.emu.members import release_members
from kgen.emu.memory import GlobalMemory
from kgen.emu.order import AsyncOp, Knowledge
from kgen.emu.params import Parameters
from kgen.emu.program import BLOCKED, Program
from kgen.emu.registers import WARP_LANES
from kgen.emu.report import KINDS, Finding, Findings, RunReport
from kgen.emu.sched import schedule as schedule_named
from kgen.emu.stepper import RunStoppedError, can_run, turn
from kgen.emu.sync import REGISTERS_PER_SM, launch_cap
from kgen.emu.timeline import Timeline
from kgen.emu.wgmma_state import WgmmaState
from kgen.errors import EmulatorError

if TYPE_CHECKING:
    from kgen.emu.shadow import Footprint


class Grid:
    """The machine during one run."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        schedule: str,
        max_steps: int,
        timeline: bool = False,
    ) -> None:
        self.program = program
        self.launch = launch
        self.schedule = schedule_named(schedule)
        self.max_steps = max_steps
        self.shared_bytes = program.registers.static_bytes + launch.dynamic_shared_bytes
        if self.shared_bytes > MAX_SHARED_BYTES:
            raise EmulatorError(
                f"launch of {launch.kernel}: dynamic_shared_bytes: {launch.dynamic_shared_bytes} "
                f"and {program.registers.static_bytes} static bytes are over the limit of "
                f"{MAX_SHARED_BYTES}"
            )
        self.memory = GlobalMemory(launch.arrays)
        self.parameters = Parameters(program.kernel, launch, self.memory)
        self.findings = Findings()
        self.timeline = Timeline(enabled=timeline)
        self.operations: list[AsyncOp] = []  # by number; write numbers share the entry
        self.pending: list[AsyncOp] = []
        self.ready: deque[Warp] = deque()
        self.parked_polls: list[tuple[Warp, Fragment]] = []
        self.steps = 0  # warp-instructions
        self.version = 0  # changes whenever something happens that a poll could notice
        self.hits = [0] * len(program.code)
        self.sync_memory: dict[int, Knowledge] = {}  # global address -> what releases published
        self.warps: list[Warp] = []
        self.clusters: list[Cluster] = []
        self._build()
        self.previous: AsyncOp | None = None  # the grid before, as an operation to be waited for
        if launch.overlaps_previous:
            self.previous = self.new_operation("", self.warps[0], 0, lambda operation: None)

    # ------------------------------------------------------------ construction

    def _build(self) -> None:
        launch = self.launch
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        per_cta = -(-threads // WARP_LANES)
        grid, cluster = launch.grid, launch.cluster
        ctas = grid[0] * grid[1] * grid[2]
        self.warp_count = per_cta * ctas
        size = cluster[0] * cluster[1] * cluster[2]
        registers = launch.registers or self.program.kernel.maxnreg or launch_cap(threads)
        clusters: dict[tuple[int, ...], Cluster] = {}
        for number in range(ctas):
            position = (
                number % grid[0],
                number // grid[0] % grid[1],
                number // (grid[0] * grid[1]),
            )
            corner = tuple(p // c for p, c in zip(position, cluster, strict=True))
            inner = tuple(p % c for p, c in zip(position, cluster, strict=True))
            home = clusters.setdefault(corner, Cluster(size))
            rank = inner[0] + cluster[0] * (inner[1] + cluster[1] * inner[2])
            cta = Cta(self, home, number, position, rank)
            home.ctas.append(cta)
            cta.pool.free = REGISTERS_PER_SM - registers * WARP_LANES * per_cta
            for warp_number in range(per_cta):
                warp = Warp(self, cta, warp_number, len(self.warps))
                warp.registers = registers
                cta.warps.append(warp)
                self.warps.append(warp)
        self.clusters = list(clusters.values())
        for home in self.clusters:
            home.ctas.sort(key=lambda cta: cta.rank)

    def new_wgmma_state(self) -> WgmmaState:
        return WgmmaState(set(self.program.wgmma_registers))

    def check_open_products(self, warp: Warp) -> None:
        """A warp is about to learn something: its uncommitted products must have been in order
        before.
        """
        from kgen.emu.wgmma import check_products

        check_products(warp, warp.wgmma.open)

    # ------------------------------------------------------------ the run

    def run(self) -> RunReport:
        started = time.perf_counter()
        for warp in self.warps:
            self._enqueue(warp)
        try:
            with np.errstate(all="ignore"):
                self._loop()
        except RunStoppedError:
            pass
        else:
            check_end(self)
        outputs = {
            array.name: array.elements(self.memory.by_name[array.name].data)
            for array in self.launch.arrays
            if array.role != "in"
        }
        seconds = time.perf_counter() - started
        coverage = coverage_of(self)
        self.timeline.finish(self)
        return RunReport(
            self.schedule.name,
            list(self.findings),
            outputs,
            coverage,
            self.steps,
            seconds,
            self.timeline.events,
        )

    def _loop(self) -> None:
        schedule = self.schedule
        while True:
            if self.steps > self.max_steps:
                endless_findings(self)
                raise RunStoppedError
            if not self.ready:
                if self.pending:
                    self._happen(schedule.choose(self.pending))
                elif self.parked_polls:
                    self._resume_polls()
                elif any(warp.fragments for warp in self.warps):
                    deadlock_findings(self)
                    raise RunStoppedError
                else:
                    return
                continue
            if self.pending and schedule.interrupts(self.pending):
                self._happen(schedule.choose(self.pending))
                continue
            warp = schedule.next_warp(self.ready)
            warp.queued = False
            turn(self, warp, schedule.slice())
            if can_run(self, warp):
                self._enqueue(warp)

    def end_fragment(self, warp: Warp, fragment: Fragment) -> None:
        """The lanes of a fragment end."""
        warp.fragments.remove(fragment)
        self.version += 1
        release_members(warp)
        if not warp.fragments:
            from kgen.emu.barrier_ops import warp_ended

            warp_ended(self, warp)

    # ------------------------------------------------------------ waiting

    def _enqueue(self, warp: Warp) -> None:
        if not warp.queued:
            warp.queued = True
            self.ready.append(warp)

    def park(self, warp: Warp, fragment: Fragment, wait: Wait) -> str:
        """Parks a fragment. The instruction is executed again when it is woken."""
        fragment.waiting = wait
        if wait.soft:
            self.parked_polls.append((warp, fragment))
        self.timeline.wait(self, warp, fragment, wait)
        return BLOCKED

    def wake(self, waiters: list[tuple[Warp, Fragment]]) -> None:
        self.version += 1
        for warp, fragment in waiters:
            if fragment.waiting is not None:
                self.timeline.resume(self, warp, fragment)
                fragment.waiting = None
            self._enqueue(warp)
        waiters.clear()
        if self.parked_polls:
            self._resume_polls()

    def _resume_polls(self) -> None:
        polls, self.parked_polls = self.parked_polls, []
        for warp, fragment in polls:
            if fragment.waiting is not None and fragment.waiting.soft:
                self.timeline.resume(self, warp, fragment)
                fragment.waiting = None
                self._enqueue(warp)

    # ------------------------------------------------------------ asynchronous operations

    def submit(self, operation: AsyncOp) -> None:
        """Hands an operation to the schedule."""
        operation.issued_at = self.steps
        if self.schedule.immediate:
            self._perform(operation)
        else:
            self.pending.append(operation)

    def new_operation(self, kind: str, warp: Warp, pc: int, run, pipe: object = None) -> AsyncOp:
        operation = AsyncOp(len(self.operations), kind, warp, pc, run, pipe=pipe)
        self.operations.append(operation)
        return operation

    def add_write_number(self, operation: AsyncOp) -> None:
        operation.write_number = len(self.operations)
        self.operations.append(operation)

    def describe_operation(self, number: int) -> str:
        return self.operations[number].describe()

    def _happen(self, operation: AsyncOp) -> None:
        self.pending.remove(operation)
        self._perform(operation)

    def _perform(self, operation: AsyncOp) -> None:
        operation.done = True
        self.version += 1
        operation.run(operation)
        self.timeline.operation(self, operation)
        if self.parked_polls:
            self._resume_polls()

    def force(self, operations: list[AsyncOp]) -> None:
        """A wait for these operations: they happen now, after those before them in their pipes."""
        for operation in operations:
            if operation.done:
                continue
            if operation.pipe is not None:
                for earlier in [o for o in self.pending if o.pipe == operation.pipe]:
                    if earlier.number < operation.number:
                        self._happen(earlier)
            if operation in self.pending:
                self._happen(operation)

    # ------------------------------------------------------------ reports

    def clock(self, name: str) -> int:
        """%clock and its kin count warp-instructions of the whole grid."""
        wide = "64" in name or name == "%globaltimer"
        return self.steps & (0xFFFFFFFFFFFFFFFF if wide else 0xFFFFFFFF)

    def finding(
        self,
        kind: str,
        text: str,
        warp: Warp | None = None,
        pc: int = -1,
        where: str = "",
        other: str = "",
    ) -> None:
        line = ptx = ""
        if pc >= 0:
            instruction = self.program.code[pc]
            line = str(instruction.location)
            ptx = f"ptx:{instruction.line} {instruction.opcode}"
        name = warp.name if warp is not None else ""
        self.findings.add(
            Finding(kind, KINDS[kind], text, line, ptx, name, where, other, self.schedule.name)
        )

    def check_access(
        self, warp: Warp, cta: Cta, footprint: Footprint, pc: int, write: bool, by_async: bool
    ) -> None:
        """Reports every conflict of one access to shared memory."""
        shadow = cta.shadow
        conflicts = shadow.write_conflicts if write else shadow.read_conflicts
        for conflict in conflicts(warp, footprint, by_async):
            self.finding(conflict.kind, conflict.text, warp, pc, str(footprint), conflict.other)
