"""How a problem is dealt out to CTAs: the arithmetic of the C launcher, in Python.

A test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.plan import KernelPlan

FLAG_BYTES = 4
FLAG_ALIGNMENT = 256


def ceil_div(extent: int, tile: int) -> int:
    """Tiles that cover an extent."""
    return -(-extent // tile)


@dataclass(frozen=True)
class Grid:
    """One launch: cluster tiles along M and N, clusters, and their share of the K tiles.

    share is 0 where no tile is cut. Workspace in bytes: flags, then parts.
    """

    tiles_m: int
    tiles_n: int
    clusters: int
    cluster_size: int
    share: int
    flag_bytes: int
    part_bytes: int

    @property
    def ctas(self) -> int:
        """CTAs of the launch, all along grid.x."""
        return self.clusters * self.cluster_size

    @property
    def workspace_bytes(self) -> int:
        """Device memory for cut tiles; zero before its first use, zero flags after every launch."""
        return self.flag_bytes + self.part_bytes if self.share else 0


def grid_of(
    plan: KernelPlan,
    m: int,
    n: int,
    k: int,
    resident: int | None = None,
    least_saving: int | None = None,
) -> Grid:
    """The grid of an M x N x K problem.

    resident  clusters that the device holds at a time; needed where the plan's grid is resident
    least_saving  K tiles that cutting must save, if not the plan's own number
    """
    tiles_m = ceil_div(m, plan.cluster_tile[0])
    tiles_n = ceil_div(n, plan.cluster_tile[1])
    size = plan.cluster[0] * plan.cluster[1]
    tiles = tiles_m * tiles_n
    rule = plan.resident
    if rule is None:
        return Grid(tiles_m, tiles_n, tiles, size, 0, 0, 0)
    assert resident, "a resident grid depends on how many clusters the device holds"
    most = min(resident, rule.most or resident, tiles)
    turns = ceil_div(tiles, most)
    clusters, share = ceil_div(tiles, turns), 0
    if rule.least_saving is not None:
        k_tiles = ceil_div(k, plan.tile[2])
        equal = ceil_div(tiles * k_tiles, most)
        saved = turns * k_tiles - equal
        wanted = rule.least_saving if least_saving is None else least_saving
        whole = tiles > most and (most - 1) * equal < tiles * k_tiles
        if saved >= wanted and whole and equal <= plan.max_tiles:
            clusters, share = most, equal
    ctas = clusters * size
    flags = ceil_div(ctas * rule.flags * FLAG_BYTES, FLAG_ALIGNMENT) * FLAG_ALIGNMENT
    return Grid(tiles_m, tiles_n, clusters, size, share, flags, ctas * rule.part_bytes)
