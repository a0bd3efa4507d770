"""Grids of resident clusters: every K tile is done once, those of cut tiles by two clusters."""

from __future__ import annotations

import collections
from functools import cache

import pytest
from deal import turns
from hypothesis import given, settings
from hypothesis import strategies as st
from persistent import cluster, plan_of

from kgen.run.grid import grid_of

CLUSTERS = {(1, 1): cluster(1, 1), (2, 1): cluster(2, 1), (2, 2): cluster(2, 2)}


@cache
def plan(of=(2, 1), clusters="auto", scheduler="wrap"):
    changes = {
        "clusters: auto": f"clusters: {clusters}",
        "scheduler: wrap": f"scheduler: {scheduler}",
    }
    return plan_of(CLUSTERS[of] | changes)


def grid(tiles_m, tiles_n, k_tiles, resident, least=None, **kind):
    """A grid of this many cluster tiles, the last of each row and column cut."""
    p = plan(**kind)
    m, n = p.cluster_tile
    return grid_of(p, tiles_m * m - 3, tiles_n * n - 8, k_tiles * p.tile[2] - 5, resident, least)


# --- by hand --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tiles", "k_tiles", "resident", "clusters", "share"),
    [
        # The device of the README: 66 clusters of two. 1024 tiles are 15.5 turns: 16 x 128 K tiles
        # against ceil(1024 x 128 / 66) = 1986 saves 62.
        ((32, 32), 128, 66, 66, 1986),
        # 256 tiles, 3.9 turns: 4 x 64 against 249 saves 7, less than the 32 that a cut costs
        ((16, 16), 64, 66, 64, 0),
        # exactly two turns: nothing to save
        ((11, 12), 128, 66, 66, 0),
        # fewer tiles than clusters
        ((5, 5), 128, 66, 25, 0),
        # 67 tiles: two turns that 34 clusters do as well, or one turn and a bit of all
        ((67, 1), 8, 66, 34, 0),
        ((67, 1), 128, 66, 66, 130),
    ],
)
def test_clusters_and_shares_by_hand(tiles, k_tiles, resident, clusters, share):
    found = grid(tiles[0], tiles[1], k_tiles, resident)
    assert (found.clusters, found.share) == (clusters, share)
    assert found.ctas == 2 * clusters
    whole = grid(tiles[0], tiles[1], k_tiles, resident, scheduler="round_robin")
    assert (whole.share, whole.workspace_bytes) == (0, 0)


def test_the_workspace_by_hand():
    """132 CTAs x 2 flags x 4 bytes = 1056, rounded up to 256; parts of 2 x 128 x 128 x 4 bytes."""
    found = grid(32, 32, 128, 66)
    assert (found.flag_bytes, found.part_bytes) == (1280, 132 * 131072)
    assert found.workspace_bytes == 1280 + 132 * 131072
    assert grid(16, 16, 64, 66).workspace_bytes == 0


def test_the_spec_bounds_the_clusters():
    assert grid(32, 32, 128, 66, clusters=20).clusters == 20
    assert grid(32, 32, 128, 66, clusters=200, scheduler="round_robin").clusters == 64


def test_no_k_tiles_is_no_cut():
    p = plan()
    assert grid_of(p, 67 * 256, 256, 0, 66, 0).share == 0


def test_the_last_cluster_is_never_without_work():
    """9 tiles of 2 K tiles on 8 clusters: 3 each would leave the last one nothing."""
    found = grid(9, 1, 2, 8, least=0)
    assert found.share == 0
    assert found.clusters == 5


# --- whatever the problem -------------------------------------------------------------------------

PROBLEMS = st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 70), st.integers(1, 80))
KINDS = st.sampled_from(sorted(CLUSTERS))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(problem=PROBLEMS, kind=KINDS, least=st.sampled_from([None, 0, 1, 5]))
def test_every_k_tile_is_done_once(problem, kind, least):
    tiles_m, tiles_n, k_tiles, resident = problem
    found = grid(tiles_m, tiles_n, k_tiles, resident, least, of=kind)
    tiles = tiles_m * tiles_n
    done = collections.Counter()
    left, added = {}, {}
    for index in range(found.clusters):
        work = list(turns(found, k_tiles, index))
        assert work, "every cluster has work"
        for i, turn in enumerate(work):
            ks = [(turn.k_first + j) % k_tiles for j in range(turn.k_count)]
            done.update((turn.tile, k) for k in ks)
            if turn.leaves_part:
                assert i == 0, "what another waits for comes first"
                left[turn.cut] = (turn.tile, index)
            if turn.adds_part:
                assert i == len(work) - 1, "what waits comes last"
                added[turn.cut] = (turn.tile, index)
        if found.share:
            assert sum(turn.k_count for turn in work) <= found.share
    assert set(done.values()) == {1}
    assert len(done) == tiles * k_tiles
    # Cut tiles: two parts each, told apart by one number, and the waiter has the higher index.
    assert left.keys() == added.keys() == set(range(len(left)))
    assert len({tile for tile, _ in left.values()}) == len(left), "no tile is cut twice"
    for cut, (tile, index) in left.items():
        assert added[cut][0] == tile
        assert added[cut][1] == index + 1


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(problem=PROBLEMS, kind=KINDS)
def test_cut_tiles_end_sooner_and_fit_the_workspace(problem, kind):
    tiles_m, tiles_n, k_tiles, resident = problem
    found = grid(tiles_m, tiles_n, k_tiles, resident, 1, of=kind)
    whole = grid(*problem, of=kind, scheduler="round_robin")
    assert found.clusters <= resident
    turns_of_whole = -(-tiles_m * tiles_n // whole.clusters)
    assert (
        (whole.clusters - 1) * turns_of_whole < tiles_m * tiles_n <= whole.clusters * turns_of_whole
    )
    if not found.share:
        assert found == whole
        return
    assert found.share <= turns_of_whole * k_tiles - 1
    assert found.share >= k_tiles, "a share holds a whole tile, so that none is cut twice"
    cuts = sum(t.leaves_part for i in range(found.clusters) for t in turns(found, k_tiles, i))
    rule = plan(of=kind).resident
    assert rule
    assert cuts * found.cluster_size * rule.flags * 4 <= found.flag_bytes
    assert cuts * found.cluster_size * rule.part_bytes <= found.part_bytes
