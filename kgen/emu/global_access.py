"""Accesses to global memory: bounds, the launch's rules, and races between warps of any CTA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.memory import Allocation, granules_of
from kgen.emu.order import HAPPENED, VISIBLE
from kgen.emu.shadow import NOBODY, operation_of, writer_of

if TYPE_CHECKING:
    from kgen.emu.machine import Warp
    from kgen.emu.order import AsyncOp


def _distinct(allocation: Allocation, granules: np.ndarray) -> list[tuple[int, int, bool]]:
    """Distinct (writer, stamp, atomic) under an access."""
    writers, stamps, atomics = (
        allocation.writer[granules],
        allocation.stamp[granules],
        allocation.atomic[granules],
    )
    if writers.size == 0:
        return []
    if (
        (writers == writers[0]).all()
        and (stamps == stamps[0]).all()
        and (atomics == atomics[0]).all()
    ):
        return [(int(writers[0]), int(stamps[0]), bool(atomics[0]))]
    both = (writers.astype(np.int64) << 33) | (stamps.astype(np.int64) << 1) | atomics
    return [(int(v) >> 33, int(v) >> 1 & 0xFFFFFFFF, bool(v & 1)) for v in np.unique(both)]


def check_previous(warp: Warp, allocation: Allocation, pc: int, writes: bool) -> None:
    """What the grid before may still be working on: nothing but constant arrays may be touched
    before its end is known, and nothing read before its results can be.
    """
    previous = warp.grid.previous
    if previous is None or allocation.array.constant:
        return
    knows = warp.order.knows
    if not (knows.completed if writes else knows.data) >> previous.number & 1:
        name, verb = allocation.array.name, "writes" if writes else "reads"
        text = f"{verb} {name}, which the grid before may still use: no griddepcontrol.wait"
        warp.grid.finding("missing-grid-wait", text, warp, pc, name)


def check_read(warp: Warp, allocation: Allocation, offsets: np.ndarray, size: int, pc: int) -> None:
    """Earlier writes of these bytes must be visible. Inputs are never written, so they need no
    check.
    """
    check_previous(warp, allocation, pc, writes=False)
    if allocation.array.role == "in":
        return
    grid, knows, name = warp.grid, warp.order.knows, allocation.array.name
    for writer, stamp, _ in _distinct(allocation, granules_of(allocation, offsets, size)):
        if writer == NOBODY:
            continue
        if writer < 0:
            number = operation_of(writer)
            if not knows.data >> number & 1:
                what = grid.describe_operation(number)
                text = f"reads {name} where {what} writes, with no order between them"
                grid.finding("race", text, warp, pc, name, what)
        elif writer != warp.index and knows.clock[VISIBLE, writer] < stamp:
            other = grid.warps[writer].name
            ordered = knows.clock[HAPPENED, writer] >= stamp
            why = (
                "ordered, but no release and acquire makes it visible"
                if ordered
                else "with no order between them"
            )
            text = f"reads {name} where {other} wrote: {why}"
            grid.finding("not-visible" if ordered else "race", text, warp, pc, name, other)


def check_write(
    warp: Warp,
    allocation: Allocation,
    offsets: np.ndarray,
    size: int,
    pc: int,
    atomic: bool = False,
) -> None:
    """The launch's rules, and earlier writes of the same bytes, which must be ordered before this
    one.
    """
    check_previous(warp, allocation, pc, writes=True)
    grid, knows, name = warp.grid, warp.order.knows, allocation.array.name
    for fault in grid.memory.write_faults(allocation, offsets, size):
        grid.finding(fault.kind, fault.text, warp, pc, name)
    for writer, stamp, was_atomic in _distinct(allocation, granules_of(allocation, offsets, size)):
        if writer == NOBODY or (atomic and was_atomic):
            continue
        if writer < 0:
            number = operation_of(writer)
            if not knows.completed >> number & 1:
                what = grid.describe_operation(number)
                text = f"overwrites {name} where {what} writes, with no order between them"
                grid.finding("race", text, warp, pc, name, what)
        elif writer != warp.index and knows.clock[HAPPENED, writer] < stamp:
            other = grid.warps[writer].name
            text = f"overwrites {name} where {other} wrote, with no order between them"
            grid.finding("race", text, warp, pc, name, other)


def record_write(
    warp: Warp,
    allocation: Allocation,
    offsets: np.ndarray,
    size: int,
    operation: AsyncOp | None = None,
    atomic: bool = False,
) -> None:
    """Remembers who wrote; an asynchronous operation writes under its write number."""
    granules = granules_of(allocation, offsets, size)
    allocation.writer[granules] = (
        warp.index if operation is None else writer_of(operation.write_number)
    )
    allocation.stamp[granules] = warp.order.now if operation is None else 0
    allocation.atomic[granules] = atomic
    allocation.stored[granules] = True
