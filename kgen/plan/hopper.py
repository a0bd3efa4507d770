"""What the plans of Hopper's schedules add: roles, MMAs and stores."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.plan.model import KernelPlan, Load


@dataclass(frozen=True)
class ProducerPlan:
    """The warp that fills the ring and drains the D buffers, if D is staged."""

    a_loads: tuple[Load, ...]
    b_loads: tuple[Load, ...]
    drains_buffers: bool
    rows: str  # constant: rows of one consumer
    frees_buffers: bool  # some consumer waits for a buffer that another used first
    registers: int | None  # setmaxnreg.dec


@dataclass(frozen=True)
class Slab:
    """The accumulators of 64 rows, as CUDA text, and the first of the rows in their consumer's."""

    acc: str
    out: str  # the array that holds D's 16-bit pairs
    row: int


@dataclass(frozen=True)
class KStep:
    """One MMA: its accumulators, and descriptor advances in the descriptor's unit of 16 bytes."""

    acc: str
    a: int
    b: int


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
    accumulate_operand: int | None  # None: it always adds
    immediates: tuple[int, ...]  # after scale-d
    swapped: bool  # B is the operand of 64 rows


@dataclass(frozen=True)
class SyncMma:
    """One mma.sync form and its operand lists."""

    instruction: str
    register_type: str
    constraint: str
    registers: tuple[int, ...]  # accumulators of one instruction
    a_operands: tuple[int, ...]
    b_operands: tuple[int, ...]


@dataclass(frozen=True)
class StorePlan:
    """How accumulators become elements of D in global memory."""

    columns: str  # constant: columns of D in one row of a warp's accumulators
    register_type: str  # CUDA type of one accumulator register
    converts: str | None  # wrapper that packs two f32; None when D is the accumulator


@dataclass(frozen=True)
class ConsumerPlan:
    """A warpgroup that multiplies its slabs and stages or stores them."""

    slabs: tuple[Slab, ...]
    several_slabs: bool
    rows: str  # constant: rows of one consumer
    k_steps: tuple[KStep, ...]
    k_step_note: str
    releases_previous: bool
    stores_directly: bool
    takes_turns: bool
    store: StorePlan
    registers: int | None  # setmaxnreg.inc


@dataclass(frozen=True)
class SlabStep:
    """One MMA of a K tile: its slab, and descriptor advances in units of 16 bytes."""

    slab: int
    a: int
    b: int
    first: bool  # of its slab: it overwrites the accumulators of the tile before


@dataclass(frozen=True, kw_only=True)
class WgmmaPlan(KernelPlan):
    """A kernel whose consumers multiply with wgmma."""

    mma: Mma
    consumer: ConsumerPlan


@dataclass(frozen=True, kw_only=True)
class WgmmaWsPlan(WgmmaPlan):
    """One wgmma_ws kernel."""

    producer: ProducerPlan


@dataclass(frozen=True, kw_only=True)
class WgmmaSinglePlan(WgmmaPlan):
    """One wgmma_single kernel."""

    loads: tuple[Load, ...]
    has_ring: bool  # more than one stage


@dataclass(frozen=True, kw_only=True)
class MmaSyncPlan(KernelPlan):
    """One mma_sync kernel."""

    mma: SyncMma
    loads: tuple[Load, ...]
    has_ring: bool
    several_panels: bool  # a K-major row of the stage is more than one row of the swizzle
    store: StorePlan


@dataclass(frozen=True, kw_only=True)
class WgmmaPersistentPlan(KernelPlan):
    """One wgmma_persistent kernel."""

    mma: Mma
    shares_a: bool  # CTAs along N: each loads a part of A for its cluster row
    shares_b: bool  # CTAs along M: each loads a part of B for its cluster column
    shares_both: bool
    several_consumers: bool
    swaps: bool  # D^T = B A^T: columns of D lie along the rows of a wgmma
    snakes: bool  # every second raster group is walked backwards
    wraps: bool
    refills: bool  # no producer: a consumer thread loads
    a_loads: tuple[Load, ...]
    b_loads: tuple[Load, ...]
    steps: tuple[SlabStep, ...]
    k_step_note: str
    releases_previous: bool
    converts: str | None  # wrapper that packs two f32; None when D is the accumulator
    stores_words: bool  # elements of D have 32 bits: they are staged in pairs, not as matrices
    takes_bits: bool  # accumulators are f32 and D is, too: their bits are staged
    ties_sums: bool  # a part is added to sums that are stored as they are
    adds_part: str | None  # wrapper that adds a stored accumulator register
    deferred: bool
    promotes: bool  # every K tile is summed alone, scaled, and added up in f32 registers
    several_slabs: bool
    producer_registers: int | None  # setmaxnreg.dec
    consumer_registers: int | None  # setmaxnreg.inc
