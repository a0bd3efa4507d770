"""Plan of the wgmma_persistent schedule: loads, offsets, steps, constants, what a launch needs.

Offsets of loads and parts are in elements of a stage, those of K steps in units of 16 bytes.
"""

from __future__ import annotations

import pytest
from persistent import A_M, B_N, F16, NO_PRODUCER, cluster, plan_of

from kgen.plan.launch import ResidentGrid

ONE_SLAB = {"consumers: 2": "consumers: 1", "m: 128": "m: 64"}
TWO_SLABS = {**F16, "m: 128": "m: 256", "stages: 3": "stages: 2"}


def loads(rows) -> list[tuple[object, ...]]:
    """(first row or column, offset, row or column, k) of each load."""
    return [(x.tile_first, x.offset, x.mn_offset, x.k_offset) for x in rows]


def constants(plan) -> dict[str, int]:
    return {c.name: c.value for c in plan.constants}


# --- loads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "first_a", "first_b"),
    [
        (1, 1, "row", "col"),
        (2, 1, "row", "col_b"),
        (1, 2, "row_a", "col"),
        (2, 2, "row_a", "col_b"),
    ],
)
def test_a_shared_operand_is_loaded_from_the_place_of_the_part(m, n, first_a, first_b):
    plan = plan_of(cluster(m, n))
    assert loads(plan.a_loads) == [(first_a, 0, 0, 0)]
    assert loads(plan.b_loads) == [(first_b, 0, 0, 0)]
    assert (plan.shares_a, plan.shares_b, plan.shares_both) == (n > 1, m > 1, n > 1 and m > 1)


def test_a_k_tile_of_two_swizzle_rows_is_loaded_in_two_panels():
    """Panels of 64 columns lie behind each other, whole: 128 or 256 rows x 64 elements apart."""
    plan = plan_of({"k: 64": "k: 128", "stages: 3": "stages: 1"})
    assert loads(plan.a_loads) == [("row", 0, 0, 0), ("row", 8192, 0, 64)]
    assert loads(plan.b_loads) == [("col_b", 0, 0, 0), ("col_b", 16384, 0, 64)]


def test_a_narrow_swizzle_splits_the_k_tile_into_panels():
    plan = plan_of({"swizzle_bytes: auto": "swizzle_bytes: 32"})
    assert loads(plan.a_loads) == [("row", i * 2048, 0, i * 16) for i in range(4)]
    assert loads(plan.b_loads) == [("col_b", i * 4096, 0, i * 16) for i in range(4)]


def test_operands_that_are_not_k_major_are_loaded_in_swizzle_rows_of_all_k():
    plan = plan_of({**A_M, **B_N, **cluster(2, 2)})
    assert loads(plan.a_loads) == [("row_a", 0, 0, 0)]  # 64 of the 128 rows
    assert loads(plan.b_loads) == [("col_b", 0, 0, 0), ("col_b", 4096, 64, 0)]  # 128 of 256 columns
    assert not any(x.k_is_inner for x in (*plan.a_loads, *plan.b_loads))
    narrow = plan_of({**A_M, "swizzle_bytes: auto": "swizzle_bytes: 64"})
    assert loads(narrow.a_loads) == [("row", i * 2048, i * 32, 0) for i in range(4)]


def test_more_rows_than_a_box_has_are_loaded_one_below_the_other():
    changes = {**F16, **cluster(1, 1), "m: 128": "m: 704", "consumers: 2": "consumers: 1"}
    changes |= {"n: 256, k": "n: 64, k", "stages: 3": "stages: 2"}
    assert loads(plan_of(changes).a_loads) == [("row", i * 176 * 64, i * 176, 0) for i in range(4)]


EVERY = [
    {},
    cluster(1, 1),
    cluster(2, 2),
    cluster(4, 1),
    cluster(1, 4),
    {**A_M, **B_N, **cluster(2, 2)},
    {"swizzle_bytes: auto": "swizzle_bytes: 32"},
    {**B_N, "swizzle_bytes: auto": "swizzle_bytes: 64", **cluster(1, 2)},
    {"k: 64": "k: 48", **cluster(2, 2)},
    {**TWO_SLABS, **cluster(1, 4)},
    {"k: 64": "k: 128", "stages: 3": "stages: 1", **A_M},
]


@pytest.mark.parametrize("changes", EVERY)
def test_the_loads_of_a_row_of_ctas_fill_a_stage_exactly_once(changes):
    """Every element of the stage, by (place in the stage), and every (row, k) of the tile."""
    plan = plan_of(changes)
    tile_m, tile_n, tile_k = plan.tile
    c = constants(plan)
    for rows, extent, parts, box, step, part_rows in (
        (plan.a_loads, tile_m, plan.cluster[1], "a", "kPartA", "kPartRowsA"),
        (plan.b_loads, tile_n, plan.cluster[0], "b", "kPartB", "kPartRowsB"),
    ):
        b = plan.budget.box(box)
        places, elements = [], []
        for part in range(parts):
            first, row_0 = (part * c[step], part * c[part_rows]) if parts > 1 else (0, 0)
            for load in rows:
                start = first + load.offset
                assert start * b.element_bytes % (8 * b.swizzle_bytes) == 0, "whole patterns"
                places += range(start, start + b.inner * b.outer)
                mn = range(b.outer if load.k_is_inner else b.inner)
                ks = range(b.inner if load.k_is_inner else b.outer)
                at, k_0 = row_0 + load.mn_offset, load.k_offset
                elements += [(at + i, k_0 + k) for i in mn for k in ks]
        assert sorted(places) == list(range(extent * tile_k))
        assert sorted(elements) == [(i, k) for i in range(extent) for k in range(tile_k)]


# --- K steps --------------------------------------------------------------------------------------


def steps(plan) -> list[tuple[int, int, int, bool]]:
    return [(s.slab, s.a, s.b, s.first) for s in plan.steps]


def test_the_steps_of_one_slab():
    """16 elements of a K-major row are 32 bytes: 2 units."""
    assert steps(plan_of()) == [(0, 2 * i, 2 * i, i == 0) for i in range(4)]


def test_all_slabs_of_a_k_step_come_before_the_next():
    """A slab is 64 rows of 128 bytes: 512 units."""
    assert steps(plan_of(TWO_SLABS)) == [
        (slab, 512 * slab + 2 * i, 2 * i, i == 0) for i in range(4) for slab in range(2)
    ]


def test_the_steps_of_operands_that_are_not_k_major():
    """16 of K are 16 rows of 128 bytes, 128 units; the next 64 rows of A start a box further."""
    plan = plan_of({**A_M, **B_N})
    assert steps(plan) == [(0, 128 * i, 128 * i, i == 0) for i in range(4)]
    two = {old.replace("bf16", "f16"): new.replace("bf16", "f16") for old, new in A_M.items()}
    changes = {k: v for k, v in TWO_SLABS.items() if not k.startswith("a:")}
    changes |= {"a: {dtype: bf16, major: k}": next(iter(two.values()))}
    assert [(s.slab, s.a) for s in plan_of(changes).steps][:3] == [(0, 0), (1, 512), (0, 128)]


def test_a_second_panel_lies_behind_all_rows_of_the_first():
    plan = plan_of({"k: 64": "k: 128", "stages: 3": "stages: 1"})
    assert [(s.a, s.b) for s in plan.steps][3:6] == [(6, 6), (1024, 2048), (1026, 2050)]


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            {
                "kThreads": 384,
                "kSlabs": 1,
                "kConsumerA": 4096,  # 64 rows x 64
                "kAccRegisters": 128,
                "kSlabPanels": 4,
                "kPanels": 4,
                "kPanelRegisters": 16,  # 16 x 64 values of 2 bytes, of 32 threads
                "kClusterSize": 2,
                "kPeers": 2,
                "kPartRowsB": 128,
                "kPartB": 8192,
                "kColumnMask": 0b11,
            },
        ),
        (cluster(1, 2), {"kPartRowsA": 64, "kPartA": 4096, "kRowMask": 0b11, "kPeers": 2}),
        (
            cluster(2, 2),
            {"kPartRowsA": 64, "kPartRowsB": 128, "kRowMask": 0b0101, "kColumnMask": 0b11}
            | {"kPeers": 3, "kClusterSize": 4},
        ),
        (cluster(4, 1), {"kPartRowsB": 64, "kPartB": 4096, "kColumnMask": 0b1111, "kPeers": 4}),
        (TWO_SLABS, {"kSlabs": 2, "kConsumerA": 8192, "kPanels": 8, "kSlabPanels": 4}),
        ({**A_M, **B_N}, {"kConsumerA": 4096, "kPartB": 8192}),
        ({"swizzle_bytes: auto": "swizzle_bytes: 64"}, {"kConsumerA": 2048, "kPartB": 4096}),
        ({**NO_PRODUCER, "n: 256, k": "n: 128, k"}, {"kThreads": 256, "kPanels": 2}),
    ],
)
def test_constants_by_hand(changes, expected):
    found = constants(plan_of(changes))
    assert {name: found[name] for name in expected} == expected


def test_a_cluster_of_one_has_no_constants_of_a_cluster():
    names = set(constants(plan_of(cluster(1, 1))))
    assert not any(name.startswith(("kCluster", "kPart", "kPeers", "kRow")) for name in names)


# --- the launch -----------------------------------------------------------------------------------


def resident_of(changes: dict[str, str] | None = None) -> ResidentGrid:
    found = plan_of(changes or {}).resident
    assert found
    return found


def test_what_cut_tiles_need_beside_the_operands():
    """A part is every accumulator of every consumer thread: 2 x 128 x 128 x 4 bytes."""
    resident = resident_of()
    assert (resident.part_bytes, resident.flags, resident.least_saving) == (131072, 2, 32)
    assert resident_of(F16).part_bytes == 65536
    small = resident_of({"n: 256, k": "n: 64, k"})
    assert small.least_saving == 128  # a quarter of the work in a K tile


def test_whole_tiles_need_nothing_beside_the_operands():
    plan = plan_of({"scheduler: wrap": "scheduler: round_robin"})
    assert plan.resident and plan.resident.least_saving is None
    assert "workspace_unusable" not in [s.name for s in plan.statuses]
    assert not {"share", "flags", "parts"} & {f.name for f in plan.problem_fields}
    wraps = plan_of()
    assert "workspace_unusable" in [s.name for s in wraps.statuses]
    assert [f.name for f in wraps.problem_fields][-3:] == ["share", "flags", "parts"]


def test_the_cluster_tile_and_the_most_clusters():
    assert plan_of(cluster(2, 2)).cluster_tile == (256, 512)
    assert resident_of().most is None
    assert resident_of({"clusters: auto": "clusters: 20"}).most == 20


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, {"deferred": True, "wraps": True, "refills": False, "releases_previous": False}),
        (NO_PRODUCER | {"n: 256, k": "n: 128, k"}, {"refills": True, "deferred": False}),
        ({"release: same": "release: previous"}, {"releases_previous": True}),
        ({"pdl: false": "pdl: true"}, {"pdl": True}),
        ({}, {"adds_part": "add_f32", "converts": "pack_bf16x2"}),
        (F16, {"adds_part": "add_f16x2", "converts": None}),
    ],
)
def test_what_the_template_branches_on(changes, facts):
    plan = plan_of(changes)
    assert {name: getattr(plan, name) for name in facts} == facts
