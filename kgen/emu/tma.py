"""What TMA loads and stores share: tensor-map operands, coordinates, and the bounds of a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .machine import Fragment
from .memory import Allocation
from .program import Program
from .ptx import Mem
from .registers import Getter
from .tensormap import Box, TensorMap

if TYPE_CHECKING:
    from .machine import Warp

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


def check_box(warp: Warp, pc: int, tensor_map: TensorMap, allocation: Allocation, box: Box) -> None:
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
