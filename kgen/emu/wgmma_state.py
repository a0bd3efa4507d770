"""A warp's view of its warpgroup's asynchronous products: groups, and registers that they still
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgen.emu.order import AsyncOp, Knowledge

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Warp
    from kgen.emu.wgmma_form import Form


@dataclass(eq=False)
class WgmmaCall:
    """One wgmma.mma_async of one warpgroup, issued by its four warps."""

    operation: AsyncOp
    operands: tuple[int, int | None, int, bool]  # pc, A descriptor, B descriptor, scale-d
    registers: frozenset[str]
    form: Form
    warps: list[Warp] = field(default_factory=list)
    issued: list[Knowledge] = field(default_factory=list)  # what each warp knew when it issued
    checked: set[int] = field(default_factory=set)  # warps whose reads were checked

    @property
    def complete(self) -> bool:
        """Whether all four warps have issued it."""
        return len(self.warps) == 4


class WgmmaState:
    """unfenced: registers written since the last wgmma.fence; in_flight: registers of unfinished
    products.
    """

    def __init__(self, unfenced: set[str]) -> None:
        self.unfenced = unfenced
        self.open: list[WgmmaCall] = []
        self.groups: list[list[WgmmaCall]] = []
        self.sequence = 0
        self.in_flight: set[str] = set()

    def calls(self) -> list[WgmmaCall]:
        return [call for group in self.groups for call in group] + self.open

    def refresh(self) -> None:
        self.in_flight = set().union(*[call.registers for call in self.calls()])

    def touch(
        self, grid: Grid, warp: Warp, pc: int, touched: frozenset[str], written: Iterable[str]
    ) -> None:
        """An instruction other than wgmma reads or writes registers of wgmma instructions."""
        if self.in_flight and not touched.isdisjoint(self.in_flight):
            names = sorted(touched & self.in_flight)
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            calls = [call for call in self.calls() if not touched.isdisjoint(call.registers)]
            what = calls[0].operation.describe()
            text = (
                f"touches {some} while {what} may still use them: no wgmma.wait_group came between"
            )
            grid.finding("accumulator-in-flight", text, warp, pc, other=what)
            grid.force([call.operation for call in calls if call.complete])
        self.unfenced.update(written)
