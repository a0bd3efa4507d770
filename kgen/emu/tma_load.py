"""TMA loads: a box of a tensor into shared memory of one or several CTAs, counted by an mbarrier.

Source  PTX ISA 9.7.9.27 (cp.async.bulk.tensor); 2-D and multicast loads as an H200 ran them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu import global_access, mbarrier_rules
from kgen.emu.machine import Cta, Fragment
from kgen.emu.memory import Allocation
from kgen.emu.order import AsyncOp, Knowledge
from kgen.emu.program import Handler, Outcome, Program, handles, require
from kgen.emu.ptx import Instruction, Mem
from kgen.emu.shadow import UNIT, WORD, Footprint, writer_of
from kgen.emu.shared_access import OFFSET_MASK, in_bounds, note_remote, resolve
from kgen.emu.sync import Mbarrier
from kgen.emu.tensormap import Box, TensorMap

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

from kgen.emu.tma import (
    HINTS,
    POISON_WORD,
    check_box,
    coordinates,
    corner_is_legal,
    element_view,
    find_map,
    footprint_of,
    per_lane,
    sign32,
)


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
        *HINTS,
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
    tensor_map = find_map(warp, map_address, corner, pc)
    place = resolve(warp, dst, pc)
    if tensor_map is None or place is None:
        return
    offset = place[1]
    box = tensor_map.box_addresses(corner, offset)
    footprint = footprint_of(tensor_map, offset, box)
    if offset % tensor_map.shared_alignment:
        grid.finding("alignment", f"destination +{offset} is not a multiple of 128", warp, pc)
    targets: list[tuple[Cta, Mbarrier]] = []
    for cta in _destinations(warp, place[0], mask, pc):
        if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
            return
        barrier = mbarrier_rules.find(warp, (cta.rank << 24) | (bar & OFFSET_MASK), pc)
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
    global_access.check_previous(warp, allocation, pc, writes=False)
    if corner_is_legal(warp, pc, tensor_map, corner, store=False):
        check_box(warp, pc, tensor_map, allocation, box)
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
        element_view(cta.shared, WORD)[footprint.index] = POISON_WORD
        cta.shadow.record_write(footprint, writer_of(operation.number), 0)
    warp.order.tick()
    grid.submit(operation)


def _fetch(tensor_map: TensorMap, allocation: Allocation, box: Box) -> np.ndarray:
    """Element bits of a box, converted; out-of-bounds elements filled."""
    size = tensor_map.element_bytes
    memory = element_view(allocation.data, size)
    index = (tensor_map.offset + box.global_bytes) // size
    bits = tensor_map.load_values(memory[np.clip(index, 0, memory.size - 1)])
    if box.in_bounds.all():
        return bits
    return np.where(box.in_bounds, bits, memory.dtype.type(tensor_map.fill_bits))


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
    """The bytes are in every destination, and each mbarrier learns of its share."""
    warp, pc = operation.warp, operation.pc
    bits = _fetch(tensor_map, allocation, box)
    size = tensor_map.element_bytes
    at = offset + box.shared_bytes
    indices = box.indices
    outer = indices[1] if tensor_map.rank > 1 else np.zeros_like(indices[0])
    origin = (outer << 32) | (indices[0] & 0xFFFFFFFF)
    for cta, barrier in targets:
        element_view(cta.shared, size)[at // size] = bits
        shadow = cta.shadow
        shadow.changed(footprint)
        units = list(shadow.units(footprint))
        lost = sum(int(shadow.unread[some].sum()) for some in units) * UNIT
        if lost:
            text = f"overwrites {lost} bytes that an earlier TMA load brought and nothing read"
            warp.grid.finding("never-read", text, warp, pc, str(footprint))
        if size >= UNIT:
            shadow.provenance[at // UNIT] = origin
            if size > UNIT:
                shadow.provenance[at // UNIT + 1] = origin
        else:
            shadow.provenance[at[::2] // UNIT] = origin[::2]
        for some in units:
            shadow.unread[some] = True
        if not box.in_bounds.all():  # zeros beyond the edge need no reader
            shadow.unread[at[~box.in_bounds] // UNIT] = False
        mbarrier_rules.complete_bytes(operation, barrier, tensor_map.tx_bytes, issued)
