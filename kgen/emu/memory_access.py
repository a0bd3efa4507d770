"""Accesses through the generic proxy: where they lead, what they must be ordered after, and their
order.

Memory is sequentially consistent here, apart from asynchronous delay; what acquire and release add
is
order.
Source  PTX ISA chapter 8 (memory consistency model)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu import global_access
from kgen.emu.machine import Cta, Fragment, Wait
from kgen.emu.memory import Allocation
from kgen.emu.operation import bits_of
from kgen.emu.order import Knowledge
from kgen.emu.program import UnmodelledError, require
from kgen.emu.ptx import Instruction
from kgen.emu.registers import PARAM_WINDOW, SHARED_WINDOW
from kgen.emu.shadow import WORD, Footprint
from kgen.emu.shared_access import check_mbarriers, in_bounds, resolve

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

_HINTS = (
    *(f"L1::{hint}" for hint in ("evict_last", "evict_first", "evict_normal", "evict_unchanged")),
    *(f"L2::{hint}" for hint in ("64B", "128B", "256B", "cache_hint")),
    *(f"L2::{hint}" for hint in ("evict_last", "evict_first", "evict_normal")),
    *("L1::no_allocate", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"),
)
_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "generic")
_SEMANTICS = (
    "weak",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "mmio",
)


@dataclass(frozen=True)
class Access:
    """How an instruction touches memory: element type and count, space, ordering."""

    size: int  # bytes of an element
    count: int  # elements of a lane
    space: str  # global, shared or generic
    acquires: bool
    releases: bool
    relaxed: bool  # takes part in synchronisation, without acquire or release

    @property
    def bytes(self) -> int:
        return self.size * self.count

    @property
    def synchronises(self) -> bool:
        return self.acquires or self.releases or self.relaxed


def parse_access(instruction: Instruction, *extra: str) -> Access:
    require(instruction, *_HINTS, *_SPACES, *_SEMANTICS, "v2", "v4", "v8", instruction.type, *extra)
    count = next((n for n in (2, 4, 8) if instruction.has(f"v{n}")), 1)
    space = "generic"
    if instruction.has("global"):
        space = "global"
    elif any(part.startswith("shared") for part in instruction.parts):
        space = "shared"
    size = bits_of(instruction.type) // 8
    if size not in (1, 2, 4, 8):
        raise UnmodelledError(f"{instruction.opcode}: elements of type {instruction.type}")
    both = instruction.has("acq_rel")
    return Access(
        size, count, space,
        both or instruction.has("acquire"), both or instruction.has("release"),
        instruction.has("relaxed") or instruction.has("volatile"),
    )  # fmt: skip


@dataclass
class PollWait(Wait):
    """A warp that reads the same location again and again."""

    where: str
    soft = True

    def describe(self) -> str:
        return f"polls {self.where}"


# ---------------------------------------------------------------- places


@dataclass(frozen=True)
class GlobalPlace:
    allocation: Allocation
    offsets: np.ndarray  # of each active lane, in the allocation


@dataclass(frozen=True)
class SharedPlace:
    cta: Cta
    offsets: np.ndarray


@dataclass(frozen=True)
class ParamPlace:
    """Kernel parameters, which are only ever read."""

    memory: np.ndarray
    offsets: np.ndarray


Place = GlobalPlace | SharedPlace | ParamPlace


def locate(warp: Warp, access: Access, addresses: np.ndarray, pc: int, verb: str) -> Place | None:
    """Where the active lanes' addresses lead; None, with a finding, if they lead nowhere."""
    grid = warp.grid
    if (addresses % access.bytes).any():
        text = f"{verb} {access.bytes} bytes at an address that is not a multiple of {access.bytes}"
        grid.finding("alignment", text, warp, pc)
        return None
    low, high = int(addresses.min()), int(addresses.max()) + access.bytes
    if access.space == "shared" or SHARED_WINDOW <= low < SHARED_WINDOW + (1 << 32):
        place = resolve(warp, low, pc)
        if place is None:
            return None
        cta, offset = place
        offsets = offset + (addresses - low)
        if not in_bounds(warp, cta, offset, offset + high - low, pc):
            return None
        return SharedPlace(cta, offsets)
    if PARAM_WINDOW <= low < SHARED_WINDOW:
        return _in_parameters(warp, addresses - PARAM_WINDOW, access, pc, verb)
    allocation, fault = grid.memory.locate(addresses, access.bytes)
    if allocation is None:
        assert fault is not None
        grid.finding(fault.kind, f"{verb} {fault.text}", warp, pc)
        return None
    return GlobalPlace(allocation, addresses - allocation.base)


def _in_parameters(
    warp: Warp, offsets: np.ndarray, access: Access, pc: int, verb: str
) -> ParamPlace | None:
    parameters = warp.grid.parameters
    low, high = int(offsets.min()), int(offsets.max()) + access.bytes
    if verb != "reads" or parameters.has_map(low, high):
        raise UnmodelledError(f"a generic access that {verb} parameters or tensor maps")
    if high > len(parameters.data):
        text = f"{verb} up to byte {high} of {len(parameters.data)} bytes of parameters"
        warp.grid.finding("global-bounds", text, warp, pc)
        return None
    padded = bytes(parameters.data).ljust(-(-len(parameters.data) // 8) * 8, b"\0")
    return ParamPlace(np.frombuffer(padded, np.uint8), offsets)


def element_index(offsets: np.ndarray, access: Access) -> np.ndarray:
    """(lanes, elements) indices into memory viewed as elements."""
    return offsets[:, None] // access.size + np.arange(access.count)


def element_view(memory: np.ndarray, size: int) -> np.ndarray:
    return memory[: memory.size // size * size].view(f"u{size}")


def words_of(offsets: np.ndarray, size: int) -> Footprint:
    """Footprint of accesses of `size` bytes in shared memory."""
    lo, hi = int(offsets.min()), int(offsets.max()) + size
    if hi - lo <= size:
        return Footprint(lo, hi)
    words = offsets[:, None] // WORD + np.arange(-(-size // WORD))
    return Footprint.of_words(words.ravel())


def read_place(warp: Warp, place: Place, access: Access, pc: int) -> np.ndarray:
    """Checks and performs a read: (lanes, elements)."""
    index = element_index(place.offsets, access)
    if isinstance(place, ParamPlace):
        return element_view(place.memory, access.size)[index]
    if isinstance(place, SharedPlace):
        footprint = words_of(place.offsets, access.bytes)
        shadow = place.cta.shadow
        if not (access.synchronises and shadow.only_atomic(footprint)):
            warp.grid.check_access(warp, place.cta, footprint, pc, write=False, by_async=False)
        if not access.synchronises:
            shadow.record_read(warp, footprint)
        return element_view(place.cta.shared, access.size)[index]
    if access.synchronises:
        global_access.check_previous(warp, place.allocation, pc, writes=False)
    else:
        global_access.check_read(warp, place.allocation, place.offsets, access.bytes, pc)
    return element_view(place.allocation.data, access.size)[index]


def write_place(
    warp: Warp, place: Place, access: Access, values: np.ndarray, pc: int, atomic: bool = False
) -> None:
    """Checks and performs a write of (lanes, elements)."""
    assert not isinstance(place, ParamPlace)
    index = element_index(place.offsets, access)
    unordered = atomic or access.synchronises
    if isinstance(place, SharedPlace):
        footprint = words_of(place.offsets, access.bytes)
        check_mbarriers(warp, place.cta, footprint.lo, footprint.hi, pc)
        shadow = place.cta.shadow
        if not (unordered and shadow.only_atomic(footprint)):
            warp.grid.check_access(warp, place.cta, footprint, pc, write=True, by_async=False)
        element_view(place.cta.shared, access.size)[index] = values
        shadow.record_write(footprint, warp.index, warp.order.now, atomic=unordered)
        shadow.forget_origin(footprint)
        warp.grid.version += 1
        return
    global_access.check_write(
        warp, place.allocation, place.offsets, access.bytes, pc, atomic=unordered
    )
    element_view(place.allocation.data, access.size)[index] = values
    global_access.record_write(
        warp, place.allocation, place.offsets, access.bytes, atomic=unordered
    )
    warp.grid.version += 1


# ---------------------------------------------------------------- order through memory


def acquire_from(warp: Warp, addresses: np.ndarray, access: Access) -> None:
    """A synchronising read takes what releases to these addresses published."""
    for address in set(addresses.tolist()):
        published = warp.grid.sync_memory.get(address)
        if published is None:
            continue
        if access.acquires:
            warp.order.acquire(published)
        else:
            warp.order.acquire_relaxed(published)


def release_to(warp: Warp, addresses: np.ndarray, access: Access) -> None:
    """A synchronising write publishes; relaxed ones what an earlier fence covered."""
    published = warp.order.release() if access.releases else warp.order.release_relaxed()
    memory: dict[int, Knowledge] = warp.grid.sync_memory
    for address in set(addresses.tolist()):
        if address in memory:
            memory[address].join(published)
        else:
            memory[address] = published.copy()


def is_poll(warp: Warp, fragment: Fragment, pc: int, values: np.ndarray, where: str) -> bool:
    """Whether this read repeats one that gave the same, with nothing changed since: the warp may
    rest.
    """
    state = (pc, warp.grid.version, values.tobytes())
    if warp.polled == state:
        warp.polled = (-1, -1, None)
        warp.grid.park(warp, fragment, PollWait(where))
        return True
    warp.polled = state
    return False
