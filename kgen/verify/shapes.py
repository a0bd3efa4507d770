"""Problem shapes that catch known mistakes, derived from a kernel's tile and ring. Knows no kernel.

All sizes are in elements. D[M,N] = A[M,K] @ B[N,K].T with A (M, lda), B (N, ldb) and D (M, ldd)
row-major.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kgen.errors import VerifyError

ALIGNMENT_BYTES = 16  # of TMA strides and base addresses; CUDA driver API, cuTensorMapEncodeTiled
M_SWEEP = (1, 8, 32, 128, 129, 512, 1024, 2048)
SKINNY = ((8, 8192, 8192), (8, 12288, 8192))


@dataclass(frozen=True)
class Tile:
    """What a kernel computes at a time, and its ring. Units elements, except *_bytes."""

    m: int
    n: int
    k: int
    stages: int
    operand_bits: int = 16
    output_bytes: int = 2
    cluster_m: int = 1
    cluster_n: int = 1
    resident: bool = False  # a resident grid: a CTA takes several tiles
    cuts: bool = False  # a tile may be shared by two clusters
    store_steps: int = 1  # K tiles of the next tile over which a finished one is stored
    k_whole: int = 1  # K must be a multiple: block scales come in fours

    @property
    def k_step(self) -> int:
        """Elements of K in one TMA alignment unit."""
        return ALIGNMENT_BYTES * 8 // self.operand_bits

    @property
    def k_tail(self) -> int:
        """The shortest K that ends on a TMA alignment unit and that the kernel takes."""
        return math.lcm(self.k_step, self.k_whole)

    @property
    def n_step(self) -> int:
        """Elements of N in one TMA alignment unit."""
        return ALIGNMENT_BYTES // self.output_bytes


@dataclass(frozen=True)
class Shape:
    """One problem, its leading dimensions and base offsets, and why it is tried."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldd: int
    why: str
    offset_a: int = 0
    offset_b: int = 0
    offset_d: int = 0

    @property
    def label(self) -> str:
        """M x N x K, with the leading dimensions and offsets that are not the plain ones."""
        plain = (("lda", self.lda, self.k), ("ldb", self.ldb, self.k), ("ldd", self.ldd, self.n))
        parts = [f"{name} {ld}" for name, ld, size in plain if ld != size]
        offsets = (self.offset_a, self.offset_b, self.offset_d)
        if any(offsets):
            parts.append("offsets {},{},{}".format(*offsets))
        return f"{self.m}x{self.n}x{self.k}" + (f" ({', '.join(parts)})" if parts else "")


def _up(size: int, step: int) -> int:
    """The next multiple of `step`, at least one."""
    return max(1, -(-size // step)) * step


def shape(tile: Tile, m: int, n: int, k: int, why: str) -> Shape:
    """A problem whose leading dimensions are the smallest that TMA takes."""
    ld = _up(k, tile.k_step)
    return Shape(m, n, k, ld, ld, _up(n, tile.n_step), why)


def k_lengths(tile: Tile) -> tuple[tuple[int, str], ...]:
    """K around the ring of S stages of k elements: whole multiples, one tile either side, and
    tails.

    The tails sit where whole tiles end together with the ring: S*k + 8, 2*S*k + 40, S*k - 8 and S*k
    at 16 bits.
    Source  NVIDIA/cutlass#3536: K tail skipped when whole tiles are a multiple of the stage count
    """
    ring, step = tile.stages * tile.k, tile.k_tail
    lengths = (
        (step, "K is one TMA unit, far less than a tile"),
        (tile.k, "one K tile: the ring is never full"),
        (ring - tile.k, "one K tile fewer than the ring holds"),
        (ring, "exactly one ring of K tiles"),
        (ring + tile.k, "one K tile more than the ring holds: first reuse of a stage"),
        (2 * ring, "two full rings: the phase bits return to their start"),
        (ring - step, "the tail is in the last tile of the ring"),
        (ring + step, "a tail of one TMA unit behind a full ring"),
        (2 * ring + 5 * step, "a longer tail behind two full rings"),
        (ring + 1, "K is odd: the last TMA unit is partly out of bounds"),
    )
    return tuple(x for x in lengths if x[0] % tile.k_whole == 0)


def _edges(tile: Tile, k: int) -> Iterator[Shape]:
    """M and N around one and two tiles, aligned and guarded stores."""
    for extra, words in ((-1, "a tile less one"), (0, "a tile"), (1, "a tile and one more")):
        yield shape(tile, tile.m + extra, tile.n, k, f"M is {words}")
        yield shape(tile, tile.m, tile.n + extra, k, f"N is {words}")
    yield shape(tile, tile.m + 1, tile.n + 1, k, "both edges cut at once")
    wide = tile.n + 1 if tile.n % 2 == 0 else tile.n
    odd = shape(tile, tile.m + 1, wide, k, "ldd is odd: no row of D but the first is aligned")
    yield replace(odd, ldd=wide)
    yield shape(tile, 1, 8, k, "M = 1, N = 8: less than one MMA in either direction")


def _layouts(tile: Tile, k: int) -> Iterator[Shape]:
    """Padding between rows and base addresses that are only 16-byte aligned."""
    plain = shape(tile, tile.m, tile.n, k, "")
    yield replace(
        plain,
        lda=plain.lda + tile.k_step,
        ldb=plain.ldb + 3 * tile.k_step,
        ldd=plain.ldd + 2 * tile.n_step,
        why="three different leading dimensions, all longer than the rows",
    )
    yield replace(
        plain,
        offset_a=tile.k_step,
        offset_b=3 * tile.k_step,
        offset_d=tile.n_step,
        why="base addresses aligned to 16 bytes and no more",
    )


def _empty(tile: Tile) -> Iterator[Shape]:
    yield shape(tile, 0, tile.n, tile.k, "M = 0: nothing to do")
    yield shape(tile, tile.m, 0, tile.k, "N = 0: nothing to do")
    yield shape(tile, tile.m, tile.n, 0, "K = 0: D is zeros")


def _many_tiles(tile: Tile, sm_count: int, k: int) -> Shape:
    """Two tiles for every SM and one over, as square as the count allows, rounded up to whole
    clusters.
    """
    count = 2 * sm_count + 1
    rows = max(d for d in range(1, math.isqrt(count) + 1) if count % d == 0)
    m = _up(rows, tile.cluster_m) * tile.m
    n = _up(count // rows, tile.cluster_n) * tile.n
    why = f"{count} tiles on {sm_count} SMs: two rounds for every CTA and one tile more"
    return shape(tile, m, n, k, why)


def _unique(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """Equal problems become one whose `why` lists every reason."""
    merged: dict[Shape, list[str]] = {}
    for one in shapes:
        merged.setdefault(replace(one, why=""), []).append(one.why)
    return tuple(replace(one, why="; ".join(dict.fromkeys(why))) for one, why in merged.items())


def _checked(tile: Tile) -> None:
    if min(tile.m, tile.n, tile.k, tile.stages, tile.cluster_m, tile.cluster_n) < 1:
        raise VerifyError(f"no shapes for {tile}: every size must be at least 1")
    if tile.k % tile.k_tail:
        raise VerifyError(f"no shapes for {tile}: k is not a multiple of {tile.k_tail} elements")


def derived_shapes(tile: Tile, sm_count: int) -> tuple[Shape, ...]:
    """Every shape that a kernel with this tile must get right, cheap ones first.

    Units   sm_count: SMs of the GPU at hand
    Raises  VerifyError for a tile without extent, or whose k the kernel itself would refuse
    """
    _checked(tile)
    k = (tile.stages + 1) * tile.k
    sweep_n = 2 * tile.n
    found = [
        *_empty(tile),
        *(shape(tile, tile.m, tile.n, length, why) for length, why in k_lengths(tile)),
        *_edges(tile, k),
        *_layouts(tile, k),
        *(shape(tile, m, sweep_n, k + tile.k_tail, f"M sweep: {m}") for m in M_SWEEP),
        _many_tiles(tile, sm_count, k),
        *(shape(tile, *size, "few rows, many columns, long K") for size in SKINNY),
    ]
    return _unique(found)


def several_turns(tile: Tile) -> Iterator[Shape]:
    """Three cluster tiles for two resident clusters: a second turn for one of them, or a cut."""
    m, n = 2 * tile.cluster_m * tile.m + 1, tile.cluster_n * tile.n - tile.n_step
    long = max(5, 2 * tile.store_steps - 1) * tile.k  # of a cut tile, the last part is half of it
    words = "three cluster tiles for two clusters"
    yield shape(tile, m, n, long, f"{words}: a second turn")
    yield shape(tile, m, n, tile.k, f"{words}, one K tile each: turns shorter than the ring")
    yield shape(tile, m, n, 0, f"{words}, no K: zeros in a second turn")
    m, n = tile.cluster_m * tile.m - 1, 3 * tile.cluster_n * tile.n - 7
    for k in (long, tile.k) if tile.store_steps > 1 else (long,):
        odd = shape(tile, m, n, k, f"{words}, each with an odd last row; ldd is odd")
        yield replace(odd, ldd=odd.n)
    few = shape(
        tile, 9, tile.n + 1, tile.k, "an odd number of rows, fewer than a warp's; ldd is odd"
    )
    yield replace(few, ldd=few.n)
    if tile.cuts:
        tall = 5 * tile.cluster_m * tile.m + 1
        yield shape(tile, tall, tile.n_step, 3 * tile.k, "six cluster tiles, cut for five clusters")


def emulator_shapes(tile: Tile) -> tuple[Shape, ...]:
    """The same mistakes in a few tiles: at most four, and K of at most three rings and a tile."""
    _checked(tile)
    k = tile.k + tile.k_tail
    # The rows end inside the second slab of a consumer, the columns inside the last panel.
    m, n = tile.m + tile.m // 4 + 1, max(1, tile.n - 7)
    tall = shape(tile, m, n, k, "two tiles down, the second one cut; ldd is odd")
    wide = shape(tile, tile.m, tile.n + 1, k, "two tiles, the last column alone; ldd is odd")
    four = shape(tile, tile.m + 1, tile.n + tile.n_step, k, "four tiles, three of them cut")
    found = [
        *_empty(tile),
        shape(tile, 1, 8, tile.k, "M = 1, N = 8: less than one MMA in either direction"),
        replace(tall, ldd=tall.n),
        replace(wide, ldd=wide.n),
        four,
        *(
            shape(tile, tile.m, tile.n, length, why)
            for length, why in k_lengths(tile)
            if length > tile.k or length == tile.k_tail
        ),
        shape(
            tile,
            tile.m,
            tile.n,
            (3 * tile.stages + 1) * tile.k,
            "three rings and a tile: every phase wraps twice, also of a stage released late",
        ),
        *_layouts(tile, k),
        *(several_turns(tile) if tile.resident else ()),
    ]
    return _unique(found)
