"""The tensor memory accelerator: cp.async.bulk.tensor loads, stores and reductions.

A load fills shared memory and takes its bytes off an mbarrier; a store or reduction reads shared
memory later, and is
waited for through bulk groups. Non-tensor bulk copies are in bulk.py.
Source  PTX ISA 9.7.9.27 (bulk copies); facts/hopper.md section 6
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from . import global_access, mbarrier_ops
from .machine import Cta, Fragment
from .memory import Allocation
from .order import AsyncOp, Knowledge
from .program import Handler, Outcome, Program, handles, require
from .ptx import Instruction, Mem
from .registers import Getter
from .shadow import UNIT, Footprint, writer_of
from .shared_access import OFFSET_MASK, in_bounds, note_remote, resolve
from .sync import Mbarrier
from .tensormap import Box, TensorMap

if TYPE_CHECKING:
    from .machine import Warp

_HINTS = (
    "L2::cache_hint",
    "bulk",
    "async",
    "tensor",
    "1d",
    "2d",
    "3d",
    "4d",
    "5d",
    "global",
    "tile",
)
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
POISON = 0xFF  # contents of a destination between issue and completion


def sign32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def element_view(memory: np.ndarray, size: int) -> np.ndarray:
    """uint8 memory as unsigned elements; a tail shorter than an element is left out."""
    return memory[: memory.size // size * size].view(f"u{size}")


def coordinates(program: Program, operand: Mem) -> list[Getter]:
    return [program.registers.scalar(coord) for coord in operand.coords]


def per_lane(active: np.ndarray, fragment: Fragment, act: Callable[[], None]) -> None:
    """Bulk copies are issued by every active thread on its own; `act` reads the operands of the
    leader.
    """
    before = fragment.leader
    for lane in np.flatnonzero(active):
        fragment.leader = int(lane)
        act()
    fragment.leader = before


# ---------------------------------------------------------------- loads


@handles(
    *(
        f"cp.async.bulk.tensor.{rank}d.shared::{space}"
        for rank in range(1, 6)
        for space in ("cluster", "cta")
    )
)
def load(program: Program, instruction: Instruction, pc: int) -> Handler:
    """[dst], [map, {coordinates}], [mbar] {, cta mask} {, cache policy}"""
    require(
        instruction,
        *_HINTS,
        "shared::cluster",
        "shared::cta",
        "mbarrier::complete_tx::bytes",
        "multicast::cluster",
    )
    registers = program.registers
    destination, source, barrier, *rest = instruction.operands
    assert isinstance(source, Mem)
    dst, bar = registers.address(destination), registers.address(barrier)
    map_address, coords = registers.address(source), coordinates(program, source)
    mask = registers.scalar(rest[0]) if instruction.has("multicast::cluster") else None

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def one() -> None:
            corner = [sign32(coord(warp, fragment)) for coord in coords]
            chosen = mask(warp, fragment) & 0xFFFF if mask is not None else None
            _load(
                warp,
                pc,
                dst(warp, fragment),
                map_address(warp, fragment),
                corner,
                bar(warp, fragment),
                chosen,
            )

        per_lane(active, fragment, one)
        return None

    return issue


def _tensor_map(warp: Warp, address: int, corner: list[int], pc: int) -> TensorMap | None:
    tensor_map = warp.grid.parameters.tensor_map(address)
    if tensor_map is None:
        warp.grid.finding(
            "operand", f"{address:#x} is not the address of a tensor map parameter", warp, pc
        )
    elif tensor_map.rank != len(corner):
        text = f"{len(corner)} coordinates for a tensor map of rank {tensor_map.rank}"
        warp.grid.finding("operand", text, warp, pc)
        return None
    return tensor_map


def _destinations(warp: Warp, cta: Cta, mask: int | None, pc: int) -> list[Cta]:
    if mask is None:
        return [cta]
    ctas = warp.cta.cluster.ctas
    if mask == 0 or mask >> len(ctas):
        text = f"multicast mask {mask:#x} in a cluster of {len(ctas)} CTAs"
        warp.grid.finding("operand", text, warp, pc)
    return [other for other in ctas if mask >> other.rank & 1]


def _load(
    warp: Warp, pc: int, dst: int, map_address: int, corner: list[int], bar: int, mask: int | None
) -> None:
    grid = warp.grid
    tensor_map = _tensor_map(warp, map_address, corner, pc)
    place = resolve(warp, dst, pc)
    if tensor_map is None or place is None:
        return
    offset = place[1]
    footprint = Footprint(offset, offset + tensor_map.tx_bytes)
    if offset % tensor_map.shared_alignment:
        grid.finding("alignment", f"destination +{offset} is not a multiple of 128", warp, pc)
    targets: list[tuple[Cta, Mbarrier]] = []
    for cta in _destinations(warp, place[0], mask, pc):
        if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
            return
        barrier = mbarrier_ops.find(warp, (cta.rank << 24) | (bar & OFFSET_MASK), pc)
        if barrier is None:
            return
        if not barrier.fenced:
            text = (
                f"{barrier} is used by TMA, and no fence published its initialisation to the "
                f"async proxy"
            )
            grid.finding("missing-init-fence", text, warp, pc)
            barrier.fenced = True
        targets.append((cta, barrier))
    allocation = grid.memory.by_name[tensor_map.array]
    box = tensor_map.box_addresses(corner, offset)
    _check_box(warp, pc, tensor_map, allocation, box)
    issued = warp.order.knows.copy()
    operation = grid.new_operation(
        "TMA load",
        warp,
        pc,
        lambda op: _arrived(op, tensor_map, allocation, box, offset, footprint, targets, issued),
    )
    for cta, _ in targets:
        if cta is not warp.cta:
            note_remote(warp, cta, pc)
            cta.remote_operations.append(operation.number)
        grid.check_access(warp, cta, footprint, pc, write=True, by_async=True)
        cta.shared[footprint.lo : footprint.hi] = POISON
        cta.shadow.record_write(footprint, writer_of(operation.number), 0)
    warp.order.tick()
    grid.submit(operation)


def _check_box(
    warp: Warp, pc: int, tensor_map: TensorMap, allocation: Allocation, box: Box
) -> None:
    """The map may reach further than the array that backs it."""
    low, high = tensor_map.extent
    if low >= 0 and high <= allocation.data.size:
        return
    at = (tensor_map.offset + box.global_bytes)[box.in_bounds]
    if at.size and (
        int(at.min()) < 0 or int(at.max()) + tensor_map.element_bytes > allocation.data.size
    ):
        text = (
            f"the box reaches byte {int(at.max())} of {allocation.array.name}, which has "
            f"{allocation.data.size}"
        )
        warp.grid.finding("global-bounds", text, warp, pc, allocation.array.name)


def _fetch(tensor_map: TensorMap, allocation: Allocation, box: Box) -> np.ndarray:
    """Element bits of a box, out-of-bounds elements filled."""
    size = tensor_map.element_bytes
    memory = element_view(allocation.data, size)
    index = (tensor_map.offset + box.global_bytes) // size
    if box.in_bounds.all():
        bits = memory[np.clip(index, 0, memory.size - 1)]
    else:
        inside = np.where(box.in_bounds, index, 0)
        fill = memory.dtype.type(tensor_map.fill_bits)
        bits = np.where(box.in_bounds, memory[np.clip(inside, 0, memory.size - 1)], fill)
    return tensor_map.load_values(bits) if tensor_map.converts_on_load() else bits


def _arrived(
    operation: AsyncOp,
    tensor_map: TensorMap,
    allocation: Allocation,
    box: Box,
    offset: int,
    footprint: Footprint,
    targets: list[tuple[Cta, Mbarrier]],
    issued: Knowledge,
) -> None:
    """The bytes are in shared memory of every destination, and each mbarrier learns of its share.
    """
    warp, pc = operation.warp, operation.pc
    bits = _fetch(tensor_map, allocation, box)
    size = tensor_map.element_bytes
    at = offset + box.shared_bytes
    indices = box.indices
    outer = indices[1] if tensor_map.rank > 1 else np.zeros_like(indices[0])
    origin = (outer << 32) | (indices[0] & 0xFFFFFFFF)
    units = slice(footprint.lo // UNIT, footprint.hi // UNIT)
    for cta, barrier in targets:
        element_view(cta.shared, size)[at // size] = bits
        shadow = cta.shadow
        shadow.changed(footprint)
        lost = int(shadow.unread[units].sum()) * UNIT
        if lost:
            text = f"overwrites {lost} bytes that an earlier TMA load brought and nothing read"
            warp.grid.finding("never-read", text, warp, pc, str(footprint))
        if size >= UNIT:
            shadow.provenance[at // UNIT] = origin
            if size > UNIT:
                shadow.provenance[at // UNIT + 1] = origin
        else:
            shadow.provenance[at[::2] // UNIT] = origin[::2]
        shadow.unread[units] = True
        if not box.in_bounds.all():  # zeros beyond the edge need no reader
            shadow.unread[at[~box.in_bounds] // UNIT] = False
        mbarrier_ops.complete_bytes(operation, barrier, tensor_map.tx_bytes, issued)


# ---------------------------------------------------------------- stores and reductions


@handles(
    *(f"cp.async.bulk.tensor.{rank}d.global" for rank in range(1, 6)),
    *(f"cp.reduce.async.bulk.tensor.{rank}d.global" for rank in range(1, 6)),
)
def store(program: Program, instruction: Instruction, pc: int) -> Handler:
    """[map, {coordinates}], [src] {, cache policy}"""
    require(instruction, *_HINTS, "reduce", "shared::cta", "bulk_group", *_REDUCTIONS)
    reduction = next((p for p in instruction.parts if p in _REDUCTIONS), "")
    registers = program.registers
    target, source, *_ = instruction.operands
    assert isinstance(target, Mem)
    map_address, coords, src = (
        registers.address(target),
        coordinates(program, target),
        registers.address(source),
    )

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        def one() -> None:
            corner = [sign32(coord(warp, fragment)) for coord in coords]
            _store(warp, pc, map_address(warp, fragment), corner, src(warp, fragment), reduction)

        per_lane(active, fragment, one)
        return None

    return issue


def _store(
    warp: Warp, pc: int, map_address: int, corner: list[int], src: int, reduction: str
) -> None:
    grid = warp.grid
    tensor_map = _tensor_map(warp, map_address, corner, pc)
    place = resolve(warp, src, pc)
    if tensor_map is None or place is None:
        return
    cta, offset = place
    footprint = Footprint(offset, offset + tensor_map.tx_bytes)
    if offset % tensor_map.shared_alignment:
        grid.finding("alignment", f"source +{offset} is not a multiple of 128", warp, pc)
    if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
        return
    grid.check_access(warp, cta, footprint, pc, write=False, by_async=True)
    cta.shadow.mark_used(footprint)
    allocation = grid.memory.by_name[tensor_map.array]
    box = tensor_map.box_addresses(corner, offset)
    _check_box(warp, pc, tensor_map, allocation, box)
    size = tensor_map.element_bytes
    targets = (tensor_map.offset + box.global_bytes)[box.in_bounds]
    targets = targets[(targets >= 0) & (targets + size <= allocation.data.size)]
    global_access.check_write(warp, allocation, targets, size, pc, atomic=bool(reduction))
    kind = "TMA reduce" if reduction else "TMA store"
    operation = grid.new_operation(
        kind, warp, pc, lambda op: _stored(cta, tensor_map, allocation, box, offset, reduction)
    )
    grid.add_write_number(operation)
    operation.reads = [(cta, footprint)]
    cta.shadow.add_live(operation)
    global_access.record_write(warp, allocation, targets, size, operation, atomic=bool(reduction))
    warp.store_open.append(operation)
    warp.order.tick()
    grid.submit(operation)


def _stored(
    cta: Cta, tensor_map: TensorMap, allocation: Allocation, box: Box, offset: int, reduction: str
) -> None:
    """Shared memory is read, and global memory written; parts out of bounds are dropped."""
    size = tensor_map.element_bytes
    bits = element_view(cta.shared, size)[(offset + box.shared_bytes) // size]
    memory = element_view(allocation.data, size)
    index = (tensor_map.offset + box.global_bytes) // size
    inside = box.in_bounds & (index >= 0) & (index < memory.size)
    at, bits = index[inside], bits[inside]
    if reduction:
        from .atomics import combine

        bits = combine(reduction, tensor_map.dtype, memory[at], bits)
    memory[at] = bits
