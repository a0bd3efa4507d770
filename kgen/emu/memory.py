"""Global memory: one allocation per array of the launch, with a shadow of who wrote what.

Every access is checked against the arrays: outside all of them, between the rows of one, or into an
input. Values change at once; asynchronous delay and order belong to the callers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgen.emu.launch import Array
from kgen.emu.shadow import NOBODY

GLOBAL_BASE = 0x0000_0010_0000_0000
_SPACING = 1 << 21  # distance between allocations is a multiple of this


@dataclass(eq=False)
class Allocation:
    """An array in memory. Writers and stamps are kept per granule: an element, at most 4 bytes."""

    array: Array
    base: int
    data: np.ndarray  # uint8

    def __post_init__(self) -> None:
        self.granule = min(self.array.element_bytes, 4)
        granules = -(-self.data.size // self.granule)
        self.owned: np.ndarray | None = None  # None: every byte belongs to an element
        if self.array.pitch != self.array.shape[-1]:
            self.owned = np.zeros(self.data.size, bool)
            offsets = self.array.element_offsets().ravel()
            for byte in range(self.array.element_bytes):
                self.owned[offsets + byte] = True
        self.writer = np.full(granules, NOBODY, np.int32)
        self.stamp = np.zeros(granules, np.int32)
        self.atomic = np.zeros(
            granules, bool
        )  # last written by an atomic: unordered with other atomics
        self.stored = np.zeros(granules, bool)

    @property
    def end(self) -> int:
        return self.base + self.data.size

    def unstored_elements(self) -> int:
        """Elements that nothing stored, for outputs."""
        first = self.array.element_offsets().ravel() // self.granule
        return int((~self.stored[first]).sum())


@dataclass(frozen=True)
class Fault:
    """Why some lanes of an access are refused."""

    kind: str
    text: str


class GlobalMemory:
    """All allocations, by address."""

    def __init__(self, arrays: tuple[Array, ...]) -> None:
        self.allocations: list[Allocation] = []
        self.by_name: dict[str, Allocation] = {}
        at = GLOBAL_BASE
        for array in arrays:
            allocation = Allocation(array, at, array.allocate())
            self.allocations.append(allocation)
            self.by_name[array.name] = allocation
            at += (allocation.data.size // _SPACING + 2) * _SPACING
        self._bases = [allocation.base for allocation in self.allocations]

    def find(self, address: int) -> Allocation | None:
        index = bisect_right(self._bases, address) - 1
        if index < 0 or address >= self.allocations[index].end:
            return None
        return self.allocations[index]

    def locate(self, addresses: np.ndarray, size: int) -> tuple[Allocation | None, Fault | None]:
        """The one array that all `addresses` (each `size` bytes) fall into."""
        low, high = int(addresses.min()), int(addresses.max()) + size
        allocation = self.find(low)
        if allocation is None or high > allocation.end:
            return None, Fault(
                "global-bounds", f"{self.describe(low)} .. {self.describe(high - 1)}"
            )
        return allocation, None

    def describe(self, address: int) -> str:
        """An address in terms of the arrays."""
        inside = self.find(address)
        if inside is not None:
            return f"{inside.array.name}+{address - inside.base}"
        index = bisect_right(self._bases, address) - 1
        if index >= 0 and address - self.allocations[index].end < _SPACING:
            near = self.allocations[index]
            return f"{address - near.end} bytes behind the end of {near.array.name}"
        if index + 1 < len(self._bases) and self._bases[index + 1] - address < _SPACING:
            near = self.allocations[index + 1]
            return f"{near.base - address} bytes before {near.array.name}"
        return f"address {address:#x}, in no array"

    def write_faults(
        self, allocation: Allocation, byte_offsets: np.ndarray, size: int
    ) -> Iterator[Fault]:
        """Stores that the launch forbids; offsets are relative to the allocation."""
        name = allocation.array.name
        if allocation.array.role == "in":
            yield Fault("input-written", f"stores into {name}, which the launch declares an input")
        if allocation.owned is not None and byte_offsets.size:
            outside = ~allocation.owned[byte_offsets]
            if outside.any():
                first = int(byte_offsets[outside.argmax()])
                yield Fault(
                    "global-padding",
                    f"{int(outside.sum())} stores between the rows of {name}, first at +{first}",
                )


def granules_of(allocation: Allocation, byte_offsets: np.ndarray, size: int) -> np.ndarray:
    """Granule numbers that accesses of `size` bytes touch."""
    first = byte_offsets // allocation.granule
    extra = np.arange(-(-size // allocation.granule))
    return (first[:, None] + extra).ravel()
