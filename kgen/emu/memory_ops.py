"""Loads and stores through the generic proxy: ld, st, atom, red, in global and shared memory.

Memory is sequentially consistent here, apart from asynchronous delay; what acquire and release add
is order.
Source  PTX ISA 9.7.9.8 (ld), 9.7.9.11 (st), 9.7.13.6 (atom), 9.7.13.7 (red), chapter 8
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import global_access
from .atomics import combine, is_modelled
from .isa import vector_items
from .machine import Cta, Fragment, Wait
from .memory import Allocation
from .operation import bits_of
from .order import Knowledge
from .program import Handler, Outcome, Program, UnmodelledError, handles, require
from .ptx import SINK, Instruction
from .registers import PARAM_WINDOW, SHARED_WINDOW, WARP_LANES
from .shadow import WORD, Footprint
from .shared_access import check_mbarriers, in_bounds, resolve

if TYPE_CHECKING:
    from .machine import Warp

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
    both = instruction.has("acq_rel")
    return Access(
        bits_of(instruction.type) // 8, count, space,
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


Place = GlobalPlace | SharedPlace


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
        raise UnmodelledError("a generic access to the parameters")
    allocation, fault = grid.memory.locate(addresses, access.bytes)
    if allocation is None:
        assert fault is not None
        grid.finding(fault.kind, f"{verb} {fault.text}", warp, pc)
        return None
    return GlobalPlace(allocation, addresses - allocation.base)


def _element_index(offsets: np.ndarray, access: Access) -> np.ndarray:
    """(lanes, elements) indices into memory viewed as elements."""
    return offsets[:, None] // access.size + np.arange(access.count)


def _view(memory: np.ndarray, size: int) -> np.ndarray:
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
    index = _element_index(place.offsets, access)
    if isinstance(place, SharedPlace):
        footprint = words_of(place.offsets, access.bytes)
        warp.grid.check_access(warp, place.cta, footprint, pc, write=False, by_async=False)
        place.cta.shadow.record_read(warp, footprint)
        return _view(place.cta.shared, access.size)[index]
    if not access.synchronises:
        global_access.check_read(warp, place.allocation, place.offsets, access.bytes, pc)
    return _view(place.allocation.data, access.size)[index]


def write_place(
    warp: Warp, place: Place, access: Access, values: np.ndarray, pc: int, atomic: bool = False
) -> None:
    """Checks and performs a write of (lanes, elements)."""
    index = _element_index(place.offsets, access)
    if isinstance(place, SharedPlace):
        footprint = words_of(place.offsets, access.bytes)
        check_mbarriers(warp, place.cta, footprint.lo, footprint.hi, pc)
        warp.grid.check_access(warp, place.cta, footprint, pc, write=True, by_async=False)
        _view(place.cta.shared, access.size)[index] = values
        place.cta.shadow.record_write(footprint, warp.index, warp.order.now)
        place.cta.shadow.forget_origin(footprint)
        return
    unordered = atomic or access.synchronises
    global_access.check_write(
        warp, place.allocation, place.offsets, access.bytes, pc, atomic=unordered
    )
    _view(place.allocation.data, access.size)[index] = values
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


def _poll(warp: Warp, fragment: Fragment, pc: int, values: np.ndarray, where: str) -> bool:
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


# ---------------------------------------------------------------- instructions


def _setters(program: Program, instruction: Instruction, size: int) -> Callable[..., None]:
    """Writes (lanes, elements) into the destination registers; signed types are extended to the
    register.
    """
    items = vector_items(instruction.operands[0])
    setters = [program.registers.setter(item) for item in items]
    signed = instruction.type[0] == "s" and size < 4
    width = np.uint64 if size == 8 else np.uint32

    def put(warp: Warp, fragment: Fragment, active: np.ndarray, values: np.ndarray) -> None:
        for position, setter in enumerate(setters):
            column = values[:, position]
            if signed:
                column = column.view(f"i{size}").astype(np.int32).view(np.uint32)
            row = np.zeros(WARP_LANES, width)
            row[active] = column
            setter(warp, fragment, active, row)

    return put


@handles("ld")
def load(program: Program, instruction: Instruction, pc: int) -> Handler:
    access = parse_access(instruction)
    addresses = program.registers.addresses(instruction.operands[1])
    put = _setters(program, instruction, access.size)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "reads")
        if place is None:
            put(warp, fragment, active, np.zeros((chosen.size, access.count), f"u{access.size}"))
            return None
        if access.synchronises:
            acquire_from(warp, chosen, access)
        values = read_place(warp, place, access, pc)
        put(warp, fragment, active, values)
        if access.synchronises and _poll(
            warp, fragment, pc, values, f"address {int(chosen[0]):#x}"
        ):
            return "blocked"
        return None

    return run


def _rows(
    program: Program, operands: tuple, bits: int
) -> Callable[[Warp, Fragment, np.ndarray], np.ndarray]:
    """Reads registers of the active lanes as (lanes, elements)."""
    getters = [program.registers.row(operand, max(bits, 32)) for operand in operands]
    dtype = f"u{bits // 8}"

    def get(warp: Warp, fragment: Fragment, active: np.ndarray) -> np.ndarray:
        return np.stack(
            [getter(warp, fragment)[active].astype(dtype) for getter in getters], axis=1
        )

    return get


@handles("st")
def store(program: Program, instruction: Instruction, pc: int) -> Handler:
    if instruction.has("async") or instruction.has("bulk"):
        raise UnmodelledError(f"instruction {instruction.opcode}")
    access = parse_access(instruction)
    addresses = program.registers.addresses(instruction.operands[0])
    values = _rows(program, vector_items(instruction.operands[1]), 8 * access.size)

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "writes")
        if place is None:
            return None
        write_place(warp, place, access, values(warp, fragment, active), pc)
        if access.synchronises:
            release_to(warp, chosen, access)
        return None

    return run


_ATOMIC = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas", "noftz")


@handles("atom", "red")
def atomic(program: Program, instruction: Instruction, pc: int) -> Handler:
    """atom d, [a], b [, c] and red [a], b; lanes are served in order."""
    if instruction.has("async"):
        raise UnmodelledError(f"instruction {instruction.opcode}")
    access = parse_access(instruction, *_ATOMIC)
    operation = next((p for p in instruction.parts if p in _ATOMIC), "")
    if operation != "cas" and not is_modelled(operation, instruction.type):
        raise UnmodelledError(f"{instruction.opcode}: {operation}.{instruction.type}")
    has_result = instruction.root == "atom"
    pointer, *sources = instruction.operands[1:] if has_result else instruction.operands
    addresses = program.registers.addresses(pointer)
    vectors = [_rows(program, vector_items(source), 8 * access.size) for source in sources]
    put = (
        _setters(program, instruction, access.size)
        if has_result and instruction.operands[0] != SINK
        else None
    )
    ordered = Access(
        access.size, access.count, access.space, access.acquires, access.releases, True
    )

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = addresses(warp, fragment)[active]
        place = locate(warp, access, chosen, pc, "updates")
        if place is None:
            return None
        values = [get(warp, fragment, active) for get in vectors]
        acquire_from(warp, chosen, ordered)
        old = _update(place, access, operation, instruction.type, values)
        write_place(warp, place, ordered, old[1], pc, atomic=True)
        release_to(warp, chosen, ordered)
        if put is not None:
            put(warp, fragment, active, old[0])
            if operation == "cas" and _poll(
                warp, fragment, pc, old[0], f"address {int(chosen[0]):#x}"
            ):
                return "blocked"
        return None

    return run


def _update(
    place: Place, access: Access, operation: str, dtype: str, values: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(what each lane read, what memory holds after all lanes), lane by lane."""
    memory = place.cta.shared if isinstance(place, SharedPlace) else place.allocation.data
    elements = _view(memory, access.size)
    index = _element_index(place.offsets, access)
    before = np.zeros_like(values[0])
    work = {int(i): elements[int(i)] for i in index.ravel()}
    for lane, element in np.ndindex(index.shape):
        at = int(index[lane, element])
        old = np.array([work[at]], elements.dtype)
        before[lane, element] = old[0]
        new = values[0][lane : lane + 1, element]
        if operation == "cas":
            work[at] = values[1][lane, element] if old[0] == new[0] else old[0]
        else:
            work[at] = combine(operation, dtype, old, new)[0]
    after = np.array([work[int(i)] for i in index.ravel()], elements.dtype).reshape(index.shape)
    return before, after
