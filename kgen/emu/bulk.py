"""Bulk groups, and the bulk copies that have no tensor map.

Groups belong to the issuing thread; the emulator keeps them per warp, as one elected thread issues.
Source  PTX ISA 9.7.9.25 (cp.async.bulk), cp.async.bulk.commit_group, cp.async.bulk.wait_group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu import global_access, mbarrier_rules
from kgen.emu.atomics import combine, is_modelled
from kgen.emu.machine import Fragment
from kgen.emu.operation import bits_of
from kgen.emu.order import AsyncOp
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles, require
from kgen.emu.ptx import Imm, Instruction
from kgen.emu.shadow import Footprint, writer_of
from kgen.emu.shared_access import in_bounds, note_remote, resolve
from kgen.emu.tma import POISON, element_view, per_lane

if TYPE_CHECKING:
    from kgen.emu.machine import Warp


_LOAD_MODIFIERS = (
    *("async", "bulk", "shared::cluster", "shared::cta", "global"),
    *("mbarrier::complete_tx::bytes", "L2::cache_hint"),
)


@handles("cp.async.bulk.commit_group")
def commit(program: Program, instruction: Instruction, pc: int) -> Handler:
    def close(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        warp.store_groups.append(warp.store_open)
        warp.store_open = []
        return None

    return close


@handles("cp.async.bulk.wait_group")
def wait(program: Program, instruction: Instruction, pc: int) -> Handler:
    """wait_group[.read] N: all but the latest N groups are over (have read their source)."""
    require(instruction, "async", "bulk", "wait_group", "read")
    operand = instruction.operands[0]
    assert isinstance(operand, Imm)
    keep = operand.value
    only_reads = instruction.has("read")

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        groups = warp.store_groups
        over = groups[: len(groups) - keep] if keep else groups
        knows = warp.order.knows
        for group in over:
            warp.grid.force(group)
            for operation in group:
                knows.completed |= 1 << operation.number
                if not only_reads:
                    knows.completed |= 1 << operation.write_number
                    knows.data |= 1 << operation.write_number
        if not only_reads:
            warp.store_groups = groups[len(over) :]
        return None

    return run


@handles("cp.async.bulk.shared::cluster.global", "cp.async.bulk.shared::cta.global")
def load(program: Program, instruction: Instruction, pc: int) -> Handler:
    """[dst], [src], size, [mbar]: global to shared memory, counted by an mbarrier."""
    require(instruction, *_LOAD_MODIFIERS)
    registers = program.registers
    dst, src = (registers.address(operand) for operand in instruction.operands[:2])
    size, bar = (
        registers.scalar(instruction.operands[2]),
        registers.address(instruction.operands[3]),
    )

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def one() -> None:
            _load(warp, pc, *(get(warp, fragment) for get in (dst, src, size, bar)))

        per_lane(active, fragment, one)
        return None

    return issue


def _aligned(warp: Warp, pc: int, *values: int) -> bool:
    if any(value % 16 for value in values):
        text = "addresses and size of a bulk copy must be multiples of 16"
        warp.grid.finding("alignment", text, warp, pc)
        return False
    return True


def _load(warp: Warp, pc: int, dst: int, src: int, size: int, bar: int) -> None:
    grid = warp.grid
    place = resolve(warp, dst, pc)
    allocation, fault = grid.memory.locate(np.array([src]), size)
    if fault is not None:
        grid.finding(fault.kind, f"reads {fault.text}", warp, pc)
    barrier = mbarrier_rules.find(warp, bar, pc)
    if (
        place is None
        or allocation is None
        or barrier is None
        or not _aligned(warp, pc, dst, src, size)
    ):
        return
    cta, offset = place
    footprint = Footprint(offset, offset + size)
    if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
        return
    if not barrier.fenced:
        text = (
            f"{barrier} is used by a bulk copy, and no fence published its initialisation to the "
            f"async proxy"
        )
        grid.finding("missing-init-fence", text, warp, pc)
        barrier.fenced = True
    start = src - allocation.base
    global_access.check_read(warp, allocation, np.arange(start, start + size, 16), 16, pc)
    issued = warp.order.knows.copy()

    def arrived(operation: AsyncOp) -> None:
        cta.shared[footprint.lo : footprint.hi] = allocation.data[start : start + size]
        cta.shadow.forget_origin(footprint)
        cta.shadow.changed(footprint)
        mbarrier_rules.complete_bytes(operation, barrier, size, issued)

    operation = grid.new_operation("bulk load", warp, pc, arrived)
    if cta is not warp.cta:
        note_remote(warp, cta, pc)
        cta.remote_operations.append(operation.number)
    grid.check_access(warp, cta, footprint, pc, write=True, by_async=True)
    cta.shared[footprint.lo : footprint.hi] = POISON
    cta.shadow.record_write(footprint, writer_of(operation.number), 0)
    warp.order.tick()
    grid.submit(operation)


@handles("cp.async.bulk.shared::cluster.shared::cta")
def copy(program: Program, instruction: Instruction, pc: int) -> Handler:
    """[dst], [src], size, [mbar]: own shared memory to that of a CTA of the cluster, and its
    mbarrier.
    """
    require(
        instruction,
        "async",
        "bulk",
        "shared::cluster",
        "shared::cta",
        "mbarrier::complete_tx::bytes",
    )
    registers = program.registers
    dst, src = (registers.address(operand) for operand in instruction.operands[:2])
    size, bar = (
        registers.scalar(instruction.operands[2]),
        registers.address(instruction.operands[3]),
    )

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def one() -> None:
            _copy(warp, pc, *(get(warp, fragment) for get in (dst, src, size, bar)))

        per_lane(active, fragment, one)
        return None

    return issue


def _copy(warp: Warp, pc: int, dst: int, src: int, size: int, bar: int) -> None:
    grid = warp.grid
    place, origin = resolve(warp, dst, pc), resolve(warp, src, pc)
    barrier = mbarrier_rules.find(warp, bar, pc)
    if place is None or origin is None or barrier is None or not _aligned(warp, pc, dst, src, size):
        return
    target, source = place[0], origin[0]
    written = Footprint(place[1], place[1] + size)
    read = Footprint(origin[1], origin[1] + size)
    for cta, footprint in ((target, written), (source, read)):
        if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
            return
    grid.check_access(warp, source, read, pc, write=False, by_async=True)
    grid.check_access(warp, target, written, pc, write=True, by_async=True)
    source.shadow.mark_used(read)
    issued = warp.order.knows.copy()

    def arrived(operation: AsyncOp) -> None:
        target.shared[written.lo : written.hi] = source.shared[read.lo : read.hi]
        target.shadow.forget_origin(written)
        target.shadow.changed(written)
        mbarrier_rules.complete_bytes(operation, barrier, size, issued)

    operation = grid.new_operation("bulk copy", warp, pc, arrived)
    operation.reads = [(source, read)]
    source.shadow.add_live(operation)
    if target is not warp.cta:
        target.remote_operations.append(operation.number)
    target.shared[written.lo : written.hi] = POISON
    target.shadow.record_write(written, writer_of(operation.number), 0)
    warp.order.tick()
    grid.submit(operation)


@handles("cp.async.bulk.global.shared::cta", "cp.reduce.async.bulk.global.shared::cta")
def store(program: Program, instruction: Instruction, pc: int) -> Handler:
    """cp[.reduce].async.bulk.global.shared::cta.bulk_group[.op.type] [dst], [src], size"""
    reduction = dtype = ""
    if instruction.root == "cp" and instruction.has("reduce"):
        words = [p for p in instruction.parts if p not in ("noftz", "L2::cache_hint")]
        reduction, dtype = words[-2], words[-1]
        if not is_modelled(reduction, dtype):
            raise UnmodelledError(f"{instruction.opcode}: {reduction}.{dtype}")
    else:
        require(
            instruction, "async", "bulk", "global", "shared::cta", "bulk_group", "L2::cache_hint"
        )
    registers = program.registers
    dst, src = (registers.address(operand) for operand in instruction.operands[:2])
    size = registers.scalar(instruction.operands[2])

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def one() -> None:
            to, source, length = (get(warp, fragment) for get in (dst, src, size))
            _store(warp, pc, to, source, length, reduction, dtype)

        per_lane(active, fragment, one)
        return None

    return issue


def _store(warp: Warp, pc: int, dst: int, src: int, size: int, reduction: str, dtype: str) -> None:
    grid = warp.grid
    place = resolve(warp, src, pc)
    allocation, fault = grid.memory.locate(np.array([dst]), size)
    if fault is not None:
        grid.finding(fault.kind, f"writes {fault.text}", warp, pc)
    if place is None or allocation is None or not _aligned(warp, pc, dst, src, size):
        return
    cta, offset = place
    footprint = Footprint(offset, offset + size)
    if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
        return
    grid.check_access(warp, cta, footprint, pc, write=False, by_async=True)
    cta.shadow.mark_used(footprint)
    start = dst - allocation.base
    granules = np.arange(start, start + size, allocation.granule)
    global_access.check_write(
        warp, allocation, granules, allocation.granule, pc, atomic=bool(reduction)
    )

    def stored(operation: AsyncOp) -> None:
        data = cta.shared[footprint.lo : footprint.hi]
        if reduction:
            width = bits_of(dtype) // 8
            old = element_view(allocation.data[start : start + size], width)
            data = combine(reduction, dtype, old, element_view(data, width)).view(np.uint8)
        allocation.data[start : start + size] = data

    operation = grid.new_operation("bulk store", warp, pc, stored)
    grid.add_write_number(operation)
    operation.reads = [(cta, footprint)]
    cta.shadow.add_live(operation)
    global_access.record_write(
        warp, allocation, granules, allocation.granule, operation, atomic=bool(reduction)
    )
    warp.store_open.append(operation)
    warp.order.tick()
    grid.submit(operation)
