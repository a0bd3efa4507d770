"""The timeline of a run as Chrome trace events, which Perfetto opens. Time is emulated: one tick
per warp-instruction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Fragment, Wait, Warp
    from kgen.emu.order import AsyncOp

ENGINES = 1000  # thread numbers from here on are engines (TMA, wgmma), not warps


class Timeline:
    """Collects events; does nothing unless enabled."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.events: list[dict[str, object]] = []
        self._since: dict[int, tuple[int, str]] = {}

    def wait(self, grid: Grid, warp: Warp, fragment: Fragment, wait: Wait) -> None:
        if self.enabled:
            self._since[id(fragment)] = (grid.steps, wait.describe())

    def resume(self, grid: Grid, warp: Warp, fragment: Fragment) -> None:
        if self.enabled and (begun := self._since.pop(id(fragment), None)):
            self._event(
                f"wait: {begun[1]}",
                begun[0],
                grid.steps,
                warp.cta.number,
                warp.number,
                fragment.pc,
                grid,
            )

    def operation(self, grid: Grid, operation: AsyncOp) -> None:
        if self.enabled:
            engine = ENGINES + (1 if operation.kind == "wgmma" else 0)
            cta = operation.warp.cta.number
            self._event(
                operation.kind, operation.issued_at, grid.steps, cta, engine, operation.pc, grid
            )

    def finish(self, grid: Grid) -> None:
        """Names of CTAs, of warps with what they do, and of the engines."""
        if not self.enabled:
            return
        work: dict[int, set[str]] = {}
        for operation in grid.operations:
            if operation is grid.previous:
                continue
            if operation.kind == "wgmma":
                first = operation.warp.number // 4 * 4
                for warp in operation.warp.cta.warps[first : first + 4]:
                    work.setdefault(warp.index, set()).add("wgmma")
            else:
                work.setdefault(operation.warp.index, set()).add(operation.kind)
        for cta in (cta for cluster in grid.clusters for cta in cluster.ctas):
            self._name("process_name", cta.number, 0, f"CTA {cta.number}")
            self._name("thread_name", cta.number, ENGINES, "TMA")
            self._name("thread_name", cta.number, ENGINES + 1, "wgmma")
            for warp in cta.warps:
                does = ", ".join(sorted(work.get(warp.index, set()))) or "no copies, no products"
                self._name("thread_name", cta.number, warp.number, f"warp {warp.number}: {does}")

    def _name(self, kind: str, cta: int, thread: int, name: str) -> None:
        self.events.append(
            {"name": kind, "ph": "M", "pid": cta, "tid": thread, "args": {"name": name}}
        )

    def _event(
        self, name: str, start: int, end: int, cta: int, thread: int, pc: int, grid: Grid
    ) -> None:
        self.events.append(
            {
                "name": name,
                "ph": "X",
                "ts": start,
                "dur": max(end - start, 1),
                "pid": cta,
                "tid": thread,
                "args": {"at": grid.program.place(pc)},
            }
        )


def chrome_trace(events: list[dict[str, object]]) -> str:
    """Chrome trace JSON."""
    return json.dumps({"traceEvents": events})
