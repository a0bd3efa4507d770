"""How a tcgen05 tile is divided over the CTAs of a cluster, over MMAs, and over K steps.

A CTA group is one CTA, or a pair with cta_group 2. It computes a tile of up to 2 x 2 MMAs. The only
place that derives these extents from a spec.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.dtypes import DType, dtype
from kgen.scales import TILE_BYTES, TILE_ROWS, TILE_SCALES
from kgen.spec import KernelSpec
from kgen.spec.rules.tcgen05 import LANES, ROW_BYTES, form_of, schedule_of
from kgen.tcgen05 import MmaForm


@dataclass(frozen=True)
class Geometry:
    """Extents in elements, sizes in bytes, of one CTA unless named otherwise."""

    form: MmaForm
    group: int  # CTAs of one MMA
    cluster_m: int
    cluster_n: int
    tile_m: int  # of the CTA group
    tile_n: int
    tile_k: int
    m_tiles: int  # MMAs of one tile
    n_tiles: int
    operand: DType
    store: DType
    words: int  # of four scales, along K, per row and stage; 0 without block scales

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Rows and columns of D that a cluster computes at a time; a pair shares one tile."""
        return self.tile_m * self.cluster_m // self.group, self.tile_n * self.cluster_n

    @property
    def rows_a(self) -> int:
        """Rows of A and D."""
        return self.tile_m // self.group

    @property
    def rows_b(self) -> int:
        """Rows of B for one MMA."""
        return self.form.request.n // self.group

    @property
    def a_shares(self) -> int:
        """CTAs that load one slice each of the same rows of A."""
        return self.cluster_n

    @property
    def b_shares(self) -> int:
        """CTAs that load one slice each of the same rows of B."""
        return self.cluster_m // self.group

    @property
    def row_elements(self) -> int:
        """Elements of one 128-byte row, the contiguous extent of a box."""
        return self.operand.elements_in(ROW_BYTES)

    @property
    def k_steps(self) -> int:
        """MMAs along K per stage."""
        return self.tile_k // self.form.k

    @property
    def a_bytes(self) -> int:
        """A of one stage."""
        return self.rows_a * self.operand.bytes_of(self.tile_k)

    @property
    def b_bytes(self) -> int:
        """B of one stage."""
        return self.n_tiles * self.rows_b * self.operand.bytes_of(self.tile_k)

    @property
    def sfa_blocks(self) -> int:
        """Blocks of 128 rows of A's scales."""
        return self.rows_a // TILE_ROWS if self.words else 0

    @property
    def sfb_blocks(self) -> int:
        """Blocks of 128 rows of B's scales: all columns of the tile, in both CTAs of a pair."""
        return self.tile_n // TILE_ROWS if self.words else 0

    @property
    def sfb_shared(self) -> bool:
        """Each CTA of a pair loads half of B's scales and multicasts it to both."""
        return self.group == 2 and self.sfb_blocks % 2 == 0 and self.words > 0

    @property
    def sfa_bytes(self) -> int:
        """A's scales of one stage."""
        return self.sfa_blocks * self.words * TILE_BYTES

    @property
    def sfb_bytes(self) -> int:
        """B's scales of one stage."""
        return self.sfb_blocks * self.words * TILE_BYTES

    @property
    def accumulator_columns(self) -> int:
        """Columns of tensor memory for the accumulators of one tile."""
        return self.m_tiles * self.tile_n

    @property
    def box_n(self) -> int:
        """Columns of one TMA store."""
        return ROW_BYTES // self.store.bytes

    @property
    def buffer_bytes(self) -> int:
        """One staging buffer of D."""
        return LANES * ROW_BYTES


def geometry(spec: KernelSpec) -> Geometry:
    """The division of a spec that its rules accepted."""
    s, gemm = schedule_of(spec), spec.gemm
    scale = gemm.block_scale
    return Geometry(
        form=form_of(spec),
        group=s.mma.cta_group,
        cluster_m=s.cluster.m,
        cluster_n=s.cluster.n,
        tile_m=s.tile.m,
        tile_n=s.tile.n,
        tile_k=s.tile.k,
        m_tiles=s.tile.m // s.mma.m,
        n_tiles=s.tile.n // s.mma.n,
        operand=dtype(gemm.a.dtype),
        store=dtype(gemm.d.dtype),
        words=s.tile.k // (TILE_SCALES * scale.block) if scale else 0,
    )
