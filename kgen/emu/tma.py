"""What TMA loads and stores share: tensor-map operands, coordinates, and the bounds of a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Fragment
from kgen.emu.memory import Allocation
from kgen.emu.program import Program
from kgen.emu.ptx import Mem
from kgen.emu.registers import Getter
from kgen.emu.shadow import WORD, Footprint
from kgen.emu.tensormap import Box, TensorMap

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

HINTS = (
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
POISON = 0xFF  # contents of a destination between issue and completion
POISON_WORD = 0xFFFFFFFF


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


def find_map(warp: Warp, address: int, corner: list[int], pc: int) -> TensorMap | None:
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


def corner_is_legal(
    warp: Warp, pc: int, tensor_map: TensorMap, corner: list[int], store: bool
) -> bool:
    """False, with a finding, where the hardware raises an illegal instruction."""
    reason = tensor_map.refuses(corner, store)
    if reason:
        text = f"illegal instruction: box of {tensor_map.array} at {tuple(corner)}: {reason}"
        warp.grid.finding("tma-coordinate", text, warp, pc, tensor_map.array)
    return not reason


def footprint_of(tensor_map: TensorMap, offset: int, box: Box) -> Footprint:
    """The shared memory of a copy, with gaps where rows are narrower than the swizzle."""
    if tensor_map.row_pitch == tensor_map.row_bytes:
        return Footprint(offset, offset + tensor_map.tx_bytes)
    return Footprint.of_words((offset + box.shared_bytes) // WORD)


def check_box(
    warp: Warp,
    pc: int,
    tensor_map: TensorMap,
    allocation: Allocation,
    box: Box,
    store: bool = False,
) -> None:
    """The map may reach further than the array that backs it; stores, further than the map."""
    low, high = tensor_map.extent
    past = box.written & ~box.in_bounds if store else None
    if past is not None and past.any():
        check_ragged(warp, pc, tensor_map, past)
    elif low >= 0 and high <= allocation.data.size:
        return
    at = (tensor_map.offset + box.global_bytes)[box.written if store else box.in_bounds]
    if at.size and (
        int(at.min()) < 0 or int(at.max()) + tensor_map.element_bytes > allocation.data.size
    ):
        text = (
            f"the box reaches byte {int(at.max())} of {allocation.array.name}, which has "
            f"{allocation.data.size}"
        )
        warp.grid.finding("global-bounds", text, warp, pc, allocation.array.name)


def check_ragged(warp: Warp, pc: int, tensor_map: TensorMap, past: np.ndarray) -> None:
    """A store writes whole units of 16 bytes: rows that end inside one are written past their end.

    Measured on an H200, of stores and reductions: what arrives there is shared memory.
    """
    row, size = tensor_map.dims[0], tensor_map.element_bytes
    text = (
        f"rows of {row} x {size} B = {row * size} B do not end on 16 bytes: {int(past.sum())} "
        f"elements behind the end of rows of {tensor_map.array} are written"
    )
    warp.grid.finding("store-past-extent", text, warp, pc, tensor_map.array)
