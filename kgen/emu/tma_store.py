"""TMA stores and reductions: shared memory into a box of a tensor, waited for through bulk groups.

Source  PTX ISA 9.7.9.27 (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor);
        both as an H200 ran them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu import global_access
from kgen.emu.machine import Cta, Fragment
from kgen.emu.memory import Allocation
from kgen.emu.program import Handler, Outcome, Program, handles, require
from kgen.emu.ptx import Instruction, Mem
from kgen.emu.shared_access import in_bounds, resolve
from kgen.emu.tensormap import Box, TensorMap

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

from kgen.emu.tma import (
    HINTS,
    check_box,
    coordinates,
    corner_is_legal,
    element_view,
    find_map,
    footprint_of,
    per_lane,
    sign32,
)

_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@handles(
    *(f"cp.async.bulk.tensor.{rank}d.global" for rank in range(1, 6)),
    *(f"cp.reduce.async.bulk.tensor.{rank}d.global" for rank in range(1, 6)),
)
def store(program: Program, instruction: Instruction, pc: int) -> Handler:
    """[map, {coordinates}], [src] {, cache policy}"""
    require(instruction, *HINTS, "reduce", "shared::cta", "bulk_group", *_REDUCTIONS)
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
    tensor_map = find_map(warp, map_address, corner, pc)
    place = resolve(warp, src, pc)
    if tensor_map is None or place is None:
        return
    cta, offset = place
    box = tensor_map.box_addresses(corner, offset)
    footprint = footprint_of(tensor_map, offset, box)
    if offset % tensor_map.shared_alignment:
        grid.finding("alignment", f"source +{offset} is not a multiple of 128", warp, pc)
    if not in_bounds(warp, cta, footprint.lo, footprint.hi, pc):
        return
    grid.check_access(warp, cta, footprint, pc, write=False, by_async=True)
    cta.shadow.mark_used(footprint)
    allocation = grid.memory.by_name[tensor_map.array]
    if corner_is_legal(warp, pc, tensor_map, corner, store=True):
        check_box(warp, pc, tensor_map, allocation, box, store=True)
    size = tensor_map.element_bytes
    targets = (tensor_map.offset + box.global_bytes)[box.written]
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
    """Shared memory is read, and global memory written; parts out of bounds are dropped, but for
    the rest of the 16 bytes in which a row ends.
    """
    size = tensor_map.element_bytes
    bits = element_view(cta.shared, size)[(offset + box.shared_bytes) // size]
    memory = element_view(allocation.data, size)
    index = (tensor_map.offset + box.global_bytes) // size
    inside = box.written & (index >= 0) & (index < memory.size)
    at, bits = index[inside], bits[inside]
    if reduction:
        from kgen.emu.atomics import combine

        bits = combine(reduction, tensor_map.dtype, memory[at], bits)
    memory[at] = bits
