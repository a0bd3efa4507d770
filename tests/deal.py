"""How resident clusters share out K tiles, and in which order tiles lie on D, from the description
in the kernels, in plain Python.

All tiles laid end to end are a line of tiles * k_tiles K tiles. Cluster c, counted from the last,
takes `share` of them from c * share on. What that cuts off at its start is its head (the end of a
tile), at its end its tail (the beginning of one).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.run.grid import Grid


@dataclass(frozen=True)
class Turn:
    """K tiles of one tile: k_count from k_first on, wrapping past the last to the first."""

    tile: int
    k_first: int
    k_count: int
    leaves_part: bool = False
    adds_part: bool = False
    cut: int = 0


@dataclass(frozen=True)
class Line:
    """One launch that cuts tiles: clusters, their share, and what they share out."""

    clusters: int
    share: int
    tiles: int
    k_tiles: int

    def head(self, c: int) -> int:
        """K tiles from where cluster c begins to the next end of a tile."""
        return -c * self.share % self.k_tiles

    def end(self, c: int) -> int:
        """Where cluster c ends on the line."""
        return min((c + 1) * self.share, self.tiles * self.k_tiles)

    def tail(self, c: int) -> int:
        """K tiles from the last end of a tile to where cluster c ends."""
        return self.end(c) % self.k_tiles

    def whole(self, c: int) -> int:
        """Whole tiles of cluster c."""
        return (self.end(c) - c * self.share - self.head(c) - self.tail(c)) // self.k_tiles

    def turns(self, index: int) -> Iterator[Turn]:
        """What the cluster of this index does, in order.

        Cut tiles have the highest numbers, in the order of the cuts on the line. Whole tiles are
        dealt out by turns, and in each turn to the clusters in the order in which their heads end;
        only cluster `clusters - 1`, whose share may be shorter, takes what is left.
        """
        last = self.clusters - 1
        c = last - index
        cuts = [i for i in range(self.clusters) if self.head(i) > 0]
        first_cut = self.tiles - len(cuts)
        mine = sum(i < c for i in cuts)
        head, tail = self.head(c), self.tail(c)
        if head:
            yield Turn(first_cut + mine, 0, head, leaves_part=True, cut=mine)
        order = sorted(range(last), key=lambda i: (self.head(i), i))
        for turn in range(self.whole(c)):
            left = first_cut - self.whole(c) + turn
            tile = left if c == last else order.index(c) + turn * last
            yield Turn(tile, head, self.k_tiles)
        if tail:
            mine += head > 0
            yield Turn(first_cut + mine, self.k_tiles - tail, tail, adds_part=True, cut=mine)


def turns(grid: Grid, k_tiles: int, index: int) -> Iterator[Turn]:
    """What the cluster of this index does in a launch, cut tiles or not."""
    tiles = grid.tiles_m * grid.tiles_n
    if grid.share:
        yield from Line(grid.clusters, grid.share, tiles, k_tiles).turns(index)
        return
    for tile in range(index, tiles, grid.clusters):
        yield Turn(tile, 0, k_tiles)


def raster(grid: Grid, group: int, *, along_n: bool, snakes: bool) -> Iterator[tuple[int, int]]:
    """Row and column of every cluster tile, in the order in which they are counted.

    along_n  groups are `group` columns wide and walked row by row; else that many rows high, and
             walked column by column
    snakes   every second group is walked from its end
    """
    walked, across = (grid.tiles_m, grid.tiles_n) if along_n else (grid.tiles_n, grid.tiles_m)
    for number, first in enumerate(range(0, across, group)):
        steps = list(range(walked))
        for step in steps[::-1] if snakes and number % 2 else steps:
            for place in range(first, min(first + group, across)):
                yield (step, place) if along_n else (place, step)
