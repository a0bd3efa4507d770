"""The whole contract between Python and the templates: every number and every fact, nothing else.

A template prints these fields and branches on the booleans; it computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.budget import Budget
from kgen.dtypes import DType


@dataclass(frozen=True)
class Constant:
    """`constexpr int name = value;  // note` in the generated file."""

    name: str
    value: int
    note: str


@dataclass(frozen=True)
class Field:
    """One array of SharedStorage. dims are the names of constants, outermost first."""

    type: str
    name: str
    dims: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class ProblemField:
    """One member of the kernel's by-value parameter `Problem`, in memory order.

    value is what the C launcher assigns; `kgen.run.arguments.problem_values` computes the same.
    """

    type: str
    name: str
    numpy: str
    value: str
    note: str


@dataclass(frozen=True)
class BarrierInit:
    """A row of mbarriers in SharedStorage; count and arrivals as CUDA text, constants by name."""

    name: str
    count: str
    arrivals: str
    arriver: str


@dataclass(frozen=True)
class TensorMap:
    """One cuTensorMapEncodeTiled call. Both launchers, C and Python, are made from this row.

    inner and outer name the problem extents (`m`, `n`, `k`), ld the leading dimension in elements.
    box in elements, innermost first; swizzle and promotion in bytes (promotion 0 is off).
    """

    operand: str
    pointer: str
    dtype: DType
    inner: str
    outer: str
    ld: str
    box: tuple[int, int]
    swizzle_bytes: int
    promotion_bytes: int
    promotion_name: str  # enumerator behind CU_TENSOR_MAP_L2_PROMOTION_
    max_ld: int  # elements, exclusive: strides stay below 2^40 bytes

    @property
    def multiple(self) -> int:
        """Elements in 16 bytes, the unit of TMA's strides and base addresses."""
        return 16 // self.dtype.bytes


@dataclass(frozen=True)
class Status:
    """One answer of the launcher, in C and in Python."""

    value: int
    name: str
    text: str


@dataclass(frozen=True)
class Load:
    """One TMA load of a stage: where it lands and what it reads, in elements."""

    destination: str  # member of SharedStorage
    slab: int | None  # index into the member, None for B
    offset: int  # elements into it
    mn_offset: int  # rows (A) or columns (B) after the tile's first
    k_offset: int  # K elements after the stage's first
    k_is_inner: bool


@dataclass(frozen=True)
class ProducerPlan:
    """The warp that fills the ring and drains the D buffers."""

    a_loads: tuple[Load, ...]
    b_loads: tuple[Load, ...]
    frees_buffers: bool  # some consumer waits for a buffer that another used first
    registers: int | None  # setmaxnreg.dec


@dataclass(frozen=True)
class KStep:
    """Descriptor advances of one MMA, in the descriptor's unit of 16 bytes."""

    a: int
    b: int


@dataclass(frozen=True)
class Descriptor:
    """Everything of a 64-bit shared-memory descriptor but the start address."""

    bits: str  # hexadecimal
    note: str


@dataclass(frozen=True)
class Mma:
    """One wgmma form and its operand list. Registers per thread."""

    instruction: str
    registers: int
    register_type: str  # CUDA type of one accumulator register
    constraint: str  # inline-asm constraint of one accumulator register
    operand_rows: tuple[tuple[int, ...], ...]  # accumulator operands, eight a line
    register_rows: tuple[tuple[int, ...], ...]  # the same, four a line
    a_operand: int
    b_operand: int
    trans_a: int
    trans_b: int


@dataclass(frozen=True)
class ConsumerPlan:
    """A warpgroup that multiplies one slab and stages it."""

    k_steps: tuple[KStep, ...]
    k_step_note: str
    releases_previous: bool
    takes_turns: bool
    converts: (
        str | None
    )  # wrapper that packs two f32 into 16-bit storage; None when D is the accumulator
    out: str  # the array that holds D's 16-bit pairs
    registers: int | None  # setmaxnreg.inc


@dataclass(frozen=True)
class Layout:
    """The layout bits of an operand's shared-memory descriptors, as a constant of the file."""

    name: str
    descriptor: Descriptor


@dataclass(frozen=True)
class KernelPlan:
    """What every kernel has, whatever its schedule: identity, interface, storage and launch."""

    name: str
    template: str
    spec_label: str
    spec_digest: str
    target: str
    arch_macro: str  # defined only where the target's own instructions exist
    devices: str
    compute_capability: tuple[int, int]
    minimum_cuda: tuple[int, int]
    problem: str
    interface: tuple[str, ...]  # layouts, limits and alignments of the arguments
    structure: tuple[str, ...]  # warps, grid, order of the sum
    budget: Budget
    constants: tuple[Constant, ...]
    layouts: tuple[Layout, ...]
    problem_fields: tuple[ProblemField, ...]
    storage: tuple[Field, ...]
    barriers: tuple[BarrierInit, ...]
    maps: tuple[TensorMap, ...]
    statuses: tuple[Status, ...]
    extent_limit: int  # largest M, N or K
    max_tiles: int  # grid.x
    max_stride: int  # bytes, exclusive; of a tensor map
    threads: int
    smem_bytes: int
    tile: tuple[int, int, int]

    @property
    def input_maps(self) -> tuple[TensorMap, ...]:
        """The tensor maps of A and B."""
        return self.maps[:2]

    @property
    def map_a(self) -> TensorMap:
        """The tensor map of A."""
        return self.maps[0]

    @property
    def map_b(self) -> TensorMap:
        """The tensor map of B."""
        return self.maps[1]

    @property
    def map_d(self) -> TensorMap:
        """The tensor map of D, used where its rows are 16-byte aligned."""
        return self.maps[2]

    def constant(self, name: str) -> int:
        """The value of a constant of the generated file."""
        return next(c.value for c in self.constants if c.name == name)


@dataclass(frozen=True)
class WgmmaPlan(KernelPlan):
    """A kernel whose consumers multiply with wgmma."""

    mma: Mma
    raster_along_n: bool


@dataclass(frozen=True)
class WgmmaWsPlan(WgmmaPlan):
    """One wgmma_ws kernel."""

    producer: ProducerPlan
    consumer: ConsumerPlan
