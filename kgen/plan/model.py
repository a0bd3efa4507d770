"""The whole contract between Python and the templates: every number and every fact, nothing else.

A template prints these fields and branches on the booleans; it computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.budget import Budget
from kgen.dtypes import DType
from kgen.plan.launch import (
    LaunchAttribute,
    ResidentGrid,
    ScaleArray,
    ScaleMap,
    Status,
    TensorMap,
    launch_attributes,
)


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
class Load:
    """One TMA load of a stage: where it lands and what it reads, in elements."""

    destination: str  # member of SharedStorage
    tile_first: str  # the tile's first row (A) or column (B), as CUDA text
    slab: int | None  # index into the member, None if it is not divided
    offset: int  # elements into it
    mn_offset: int  # rows (A) or columns (B) after the tile's first
    k_offset: int  # K elements after the stage's first
    k_is_inner: bool


@dataclass(frozen=True)
class Descriptor:
    """Everything of a 64-bit shared-memory descriptor but the start address."""

    bits: str  # hexadecimal
    note: str


@dataclass(frozen=True)
class Layout:
    """The layout bits of an operand's shared-memory descriptors, as a constant of the file."""

    name: str
    descriptor: Descriptor


@dataclass(frozen=True, kw_only=True)
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
    slab_m: int  # rows of the tile that one consumer, or one row of warps, computes
    stages: int
    d_type: DType
    raster_grouped: bool
    raster_along_n: bool
    cluster: tuple[int, int] = (1, 1)  # CTAs along M and N
    pdl: bool = False  # launched with programmatic stream serialisation
    resident: ResidentGrid | None = None  # None: one CTA for every tile
    scale_maps: tuple[ScaleMap, ...] = ()  # block scales of A and B, loaded by TMA
    scale_arrays: tuple[ScaleArray, ...] = ()  # the same, read by the consumers
    takes_global_scale: bool = False  # the launch takes one more factor of D
    is_oversized: bool = False  # needs the oversized shared-memory mode

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
    def map_d(self) -> TensorMap | None:
        """The tensor map of D, used where its rows are 16-byte aligned; None if TMA never is."""
        return self.maps[2] if len(self.maps) > 2 else None

    @property
    def takes_scales(self) -> bool:
        """Whether the launch takes block scales of A and B."""
        return bool(self.scale_maps or self.scale_arrays)

    @property
    def launch_attributes(self) -> tuple[LaunchAttribute, ...]:
        """What a launch asks for beyond grid, block and shared memory."""
        return launch_attributes(self.pdl, self.is_oversized)

    @property
    def attribute_count(self) -> int:
        """How many launch attributes there are."""
        return len(self.launch_attributes)

    @property
    def clustered(self) -> bool:
        """Whether CTAs run in clusters."""
        return self.cluster != (1, 1)

    @property
    def cuts_tiles(self) -> bool:
        """Whether a launch may need a workspace for the parts of cut tiles."""
        return self.resident is not None and self.resident.cuts

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Rows and columns of D that a cluster computes at a time."""
        return self.tile[0] * self.cluster[0], self.tile[1] * self.cluster[1]

    @property
    def counted_tile(self) -> tuple[str, str]:
        """The rows and columns by which the launcher counts tiles, as CUDA text."""
        if self.resident or self.clustered:
            m, n = self.cluster_tile
            return str(m), str(n)
        return "kTileM", "kTileN"

    def constant(self, name: str) -> int:
        """The value of a constant of the generated file."""
        return next(c.value for c in self.constants if c.name == name)
