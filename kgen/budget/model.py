"""The budget of one kernel: everything it takes from the hardware, as data."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.arch import Arch
from kgen.budget.ledger import Ledger
from kgen.spec import KernelSpec


@dataclass(frozen=True)
class Role:
    """A set of warps that runs one branch of the kernel. Registers are 32-bit, per thread."""

    name: str
    warps: int
    first_warp: int
    register_cap: int  # what one thread of the role may hold
    accumulators: int
    overhead: int  # addresses, loop state, epilogue: an estimate until ptxas has spoken
    waiting: int = 0  # a finished tile, rounded, that is stored during the next one
    block_sums: int = 0  # accumulators of one slab and block of K, where sums are promoted

    @property
    def registers(self) -> int:
        """Registers per thread that the role is expected to need."""
        return self.accumulators + self.block_sums + self.waiting + self.overhead


@dataclass(frozen=True)
class Barrier:
    """A named row of mbarriers. arrivals complete a phase; tx_bytes come on top."""

    name: str
    count: int
    arrivals: int
    tx_bytes: int
    arriver: str
    waiter: str


@dataclass(frozen=True)
class TmaBox:
    """One kind of TMA request. Extents in elements, innermost first."""

    operand: str
    inner_axis: str
    outer_axis: str
    inner: int
    outer: int
    element_bytes: int
    swizzle_bytes: int  # 0 is none
    per_tile: str  # how often, for a reader
    count: int  # boxes per stage (inputs) or per tile (d)
    elements_per_byte: int = 1  # 2 for types of four bits, whose element_bytes is 1

    @property
    def bytes(self) -> int:
        """Shared-memory bytes of one box; out-of-bounds elements count."""
        return self.inner * self.outer * self.element_bytes // self.elements_per_byte


@dataclass(frozen=True)
class Budget:
    """What the kernel of `spec` needs. Every `auto` of the spec is resolved."""

    spec: KernelSpec
    arch: Arch
    threads: int
    smem: Ledger
    launch_cap: int  # registers per thread at launch
    register_pool: int  # what setmaxnreg can deal out: launch_cap, summed over the warpgroups
    roles: tuple[Role, ...]
    barriers: tuple[Barrier, ...]
    boxes: tuple[TmaBox, ...]
    swizzle_bytes: int
    stage_bytes: int
    operand_bytes_per_flop: float

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """Every memory that the kernel is budgeted in."""
        return (self.smem,)

    def role(self, name: str) -> Role:
        """The role called `name`."""
        return next(role for role in self.roles if role.name == name)

    def box(self, operand: str) -> TmaBox:
        """The box of operand `a`, `b` or `d`."""
        return next(box for box in self.boxes if box.operand == operand)
