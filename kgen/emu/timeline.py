"""The timeline of a run as Chrome trace events, which Perfetto opens. Time is emulated: one tick
per warp-instruction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .grid import Grid
    from .machine import Fragment, Wait, Warp
    from .order import AsyncOp

_ENGINES = 1000  # thread numbers from here on are engines (TMA, wgmma), not warps


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
            engine = _ENGINES + (1 if operation.kind == "wgmma" else 0)
            cta = operation.warp.cta.number
            self._event(
                operation.kind, operation.issued_at, grid.steps, cta, engine, operation.pc, grid
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
    """Chrome trace JSON, with names for CTAs, warps and engines."""
    names: list[dict[str, object]] = []
    for pid, tid in sorted({(int(str(e["pid"])), int(str(e["tid"]))) for e in events}):
        label = {_ENGINES: "TMA", _ENGINES + 1: "wgmma"}.get(tid, f"warp {tid}")
        names.append(
            {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": label}}
        )
        names.append(
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"CTA {pid}"}}
        )
    return json.dumps({"traceEvents": names + events})
