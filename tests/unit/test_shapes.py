"""Derived shapes: the right problems come out of tile, ring and SM count by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.errors import VerifyError
from kgen.verify.shapes import (
    M_SWEEP,
    Shape,
    Tile,
    derived_shapes,
    emulator_shapes,
    k_lengths,
    shape,
)

V6 = Tile(256, 256, 64, stages=3)
TILES = st.builds(
    Tile,
    m=st.sampled_from([64, 128, 192, 256]),
    n=st.integers(1, 32).map(lambda x: 8 * x),
    k=st.sampled_from([16, 32, 64, 128]),
    stages=st.integers(1, 8),
    operand_bits=st.sampled_from([4, 8, 16, 32]),
    k_whole=st.sampled_from([1, 64, 128]),
    output_bytes=st.sampled_from([2, 4]),
).filter(lambda tile: tile.k % tile.k_tail == 0)


def sizes(shapes: tuple[Shape, ...]) -> set[tuple[int, int, int]]:
    """(M, N, K) of every shape."""
    return {(s.m, s.n, s.k) for s in shapes}


def test_k_tails_come_from_stages_and_tile() -> None:
    """S = 4, k = 64 gives 4*64+8, 8*64+40, 4*64-8 and 4*64 without being told."""
    assert {264, 552, 248, 256} <= {k for k, _ in k_lengths(Tile(128, 256, 64, stages=4))}


def test_k_tails_keep_16_bytes_for_wider_and_narrower_types() -> None:
    """The tail is one TMA unit: 16 elements of 8 bits, 4 of 32."""
    for operand_bits, step in ((8, 16), (32, 4)):
        lengths = {k for k, _ in k_lengths(Tile(128, 128, 32, 4, operand_bits=operand_bits))}
        assert {4 * 32 + step, 8 * 32 + 5 * step, 4 * 32 - step} <= lengths


def test_k_is_whole_where_block_scales_come_in_fours() -> None:
    """NVFP4: a scale for 16 elements, so K is a multiple of 64, also in the tails."""
    tile = Tile(512, 256, 256, 5, operand_bits=4, k_whole=64)
    lengths = {k for k, _ in k_lengths(tile)}
    assert {64, 5 * 256 - 64, 5 * 256 + 64, 10 * 256 + 320} <= lengths
    assert {k % 64 for k in lengths} == {0}


@pytest.mark.parametrize("tile", [V6, Tile(128, 256, 64, stages=4)], ids=["v6", "f32acc"])
def test_the_promised_shapes_are_there(tile: Tile) -> None:
    """Tile +- 1, ring +- 1, M = 1, N = 8, empty, more tiles than CTAs, 8 rows of a wide D."""
    shapes = derived_shapes(tile, 132)
    found = sizes(shapes)
    ring_plus = (tile.stages + 1) * tile.k
    for extra in (-1, 0, 1):
        assert (tile.m + extra, tile.n, ring_plus) in found
        assert (tile.m, tile.n + extra, ring_plus) in found
        assert (tile.m, tile.n, (tile.stages + extra) * tile.k) in found
    assert (1, 8, ring_plus) in found
    assert {(8, 8192, 8192), (8, 12288, 8192)} <= found
    assert {0 in s for s in found} == {True, False}
    assert sum(not s.m for s in shapes) == sum(not s.n for s in shapes) == 1
    assert sum(not s.k for s in shapes) == 1
    assert {m for m, n, _ in found if n == 2 * tile.n} >= set(M_SWEEP)
    tiles = {(m // tile.m) * (n // tile.n) for m, n, _ in found if m % tile.m == n % tile.n == 0}
    assert 2 * 132 + 1 in tiles


def test_more_tiles_than_ctas_for_any_sm_count() -> None:
    """A prime tile count gives one row of tiles; clusters round up to whole ones."""
    for sm_count in (1, 2, 114, 132, 148):
        count = 2 * sm_count + 1
        assert any(s.m * s.n == count * 256 * 256 for s in derived_shapes(V6, sm_count))
    paired = Tile(128, 256, 64, 3, cluster_m=2)
    many = [s for s in derived_shapes(paired, 132) if "265 tiles" in s.why]
    assert [(s.m // 128) % 2 for s in many] == [0]


def test_layouts_cover_guarded_stores_padding_and_offsets() -> None:
    """An odd ldd, leading dimensions that all differ, and bases aligned to exactly 16 bytes."""
    shapes = derived_shapes(V6, 132)
    assert any(s.ldd % 8 and s.ldd == s.n and s.m > V6.m for s in shapes)
    assert any(s.ldd % 8 == 0 and s.n % 8 for s in shapes), "TMA store with a cut edge"
    assert any(len({s.lda - s.k, s.ldb - s.k, s.ldd - s.n, 0}) == 4 for s in shapes)
    moved = [s for s in shapes if s.offset_a]
    assert [tuple(o * 2 % 32 for o in (s.offset_a, s.offset_b, s.offset_d)) for s in moved] == [
        (16, 16, 16)
    ]


@given(TILES, st.integers(1, 160))
def test_every_shape_is_one_that_tma_can_load(tile: Tile, sm_count: int) -> None:
    """Operand strides and offsets keep 16 bytes, rows fit, reasons are given, no problem comes
    twice.
    """
    for shapes in (derived_shapes(tile, sm_count), emulator_shapes(tile)):
        for s in shapes:
            for ld, offset in ((s.lda, s.offset_a), (s.ldb, s.offset_b)):
                assert ld >= max(s.k, 1)
                assert ld * tile.operand_bits % 128 == 0 == offset * tile.operand_bits % 128
            assert s.k % tile.k_whole == 0
            assert s.ldd >= s.n and s.offset_d * tile.output_bytes % 16 == 0
            assert s.why and s.label.startswith(f"{s.m}x{s.n}x{s.k}")
        keys = [(s.m, s.n, s.k, s.lda, s.ldb, s.ldd, s.offset_a, s.offset_d) for s in shapes]
        assert len(keys) == len(set(keys))


def test_emulator_shapes_are_small_and_still_cover_the_ring() -> None:
    """At most four tiles, three rings and a tile; still a tail, a cut edge, odd ldd and K = 0."""
    shapes = emulator_shapes(V6)
    assert len(shapes) <= 19
    for s in shapes:
        assert -(-s.m // V6.m) * -(-s.n // V6.n) <= 4
        assert s.k <= (3 * V6.stages + 1) * V6.k
    assert {(256, 256, 200), (256, 256, 424), (256, 256, 184), (256, 256, 192)} <= sizes(shapes)
    assert any(s.ldd % 8 and s.m > V6.m for s in shapes)
    assert any(s.k == 0 for s in shapes)


def test_labels_name_what_is_unusual() -> None:
    """Plain problems are M x N x K; padded or moved ones say so."""
    assert shape(V6, 256, 256, 64, "x").label == "256x256x64"
    odd = Shape(4, 5, 6, 8, 8, 5, "x", offset_d=8)
    assert odd.label == "4x5x6 (lda 8, ldb 8, offsets 0,0,8)"


def test_reasons_of_equal_shapes_are_kept() -> None:
    """One stage: the ring is one K tile, and the shape says both."""
    both = [s for s in derived_shapes(Tile(64, 64, 64, 1), 4) if (s.m, s.n, s.k) == (64, 64, 64)]
    assert len(both) == 1
    assert "one K tile: the ring is never full" in both[0].why
    assert "exactly one ring of K tiles" in both[0].why


@pytest.mark.parametrize("tile", [Tile(0, 8, 64, 3), Tile(64, 8, 64, 0), Tile(64, 64, 12, 3)])
def test_impossible_tiles_are_refused(tile: Tile) -> None:
    """A tile without extent, or with a K that TMA cannot load."""
    for derive in (lambda: derived_shapes(tile, 132), lambda: emulator_shapes(tile)):
        with pytest.raises(VerifyError, match="no shapes for"):
            derive()


def test_resident_grids_get_second_turns_short_turns_and_cut_tiles():
    """Turns long enough for a store spread over the next tile's K tiles, and shorter ones."""
    plain = Tile(128, 256, 64, 3, cluster_m=2)
    assert not any("cluster tiles" in s.why for s in emulator_shapes(plain))
    resident = replace(plain, resident=True)
    turns = [s for s in emulator_shapes(resident) if "cluster tiles" in s.why]
    sizes = [(513, 248, 320), (513, 248, 64), (513, 248, 0), (255, 761, 320)]
    assert [(s.m, s.n, s.k) for s in turns] == sizes
    spread = replace(resident, store_steps=8, cuts=True)
    turns = [s for s in emulator_shapes(spread) if "cluster tiles" in s.why]
    assert [(s.m, s.n, s.k, s.ldd) for s in turns] == [
        (513, 248, 960, 248),
        (513, 248, 64, 248),
        (513, 248, 0, 248),
        (255, 761, 960, 761),
        (255, 761, 64, 761),
        (1281, 8, 192, 8),
    ]
