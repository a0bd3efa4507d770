"""Launch arguments: every status, in the order of the checks, and the layout of the parameter."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kgen.errors import LaunchError
from kgen.plan import KernelPlan
from kgen.run.arguments import (
    Arguments,
    problem_record,
    require_ok,
    status_of,
    stores_by_tma,
)
from kgen.run.grid import grid_of


def record_of(plan: KernelPlan, x: Arguments) -> Any:
    return problem_record(plan, x, grid_of(plan, x.m, x.n, x.k))


# 64 x 64 x 64 of f16, all K-major; any 16-byte aligned addresses will do.
GOOD = Arguments(0x10000, 0x20000, 0x30000, 64, 64, 64, 64, 64, 64)
LIMIT = 2**31 - 1 - 512  # extents of the 256 x 256 tile
A_M = {"a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}"}
B_N = {"b: {dtype: f16, major: k}": "b: {dtype: f16, major: n}"}

TABLE = [
    ({}, "ok"),
    ({"m": -1}, "m_out_of_range"),
    ({"m": LIMIT + 1, "n": 1}, "m_out_of_range"),
    ({"n": -1}, "n_out_of_range"),
    ({"n": 2**40}, "n_out_of_range"),
    ({"k": -1}, "k_out_of_range"),
    ({"k": LIMIT + 1}, "k_out_of_range"),
    ({"m": LIMIT, "n": LIMIT}, "too_many_tiles"),
    ({"a": 0}, "a_null"),
    ({"a": 0x10002}, "a_unaligned"),
    ({"a": 0x10008}, "a_unaligned"),
    ({"lda": 63}, "lda_too_small"),
    ({"lda": 0}, "lda_too_small"),
    ({"lda": -64}, "lda_too_small"),
    ({"lda": 65}, "lda_unaligned"),
    ({"lda": 68}, "lda_unaligned"),
    ({"lda": 2**39}, "lda_too_large"),
    ({"lda": 2**39 - 8}, "ok"),
    ({"b": 0}, "b_null"),
    ({"b": 0x20004}, "b_unaligned"),
    ({"ldb": 56}, "ldb_too_small"),
    ({"ldb": 66}, "ldb_unaligned"),
    ({"ldb": 2**62}, "ldb_too_large"),
    ({"d": 0}, "d_null"),
    ({"d": 0x30001}, "d_unaligned"),
    ({"d": 0x30002}, "ok"),
    ({"ldd": 63}, "ldd_too_small"),
    ({"ldd": 65}, "ok"),
    ({"ldd": 2**62}, "ok"),
    # One row has no stride.
    ({"m": 1, "lda": 3, "ldd": 0}, "ok"),
    ({"n": 1, "ldb": -7}, "ok"),
    # Nothing to write, so nothing is looked at but the extents.
    ({"m": 0, "a": 0, "b": 0, "d": 0, "lda": 0}, "ok"),
    ({"n": 0, "d": 1}, "ok"),
    ({"m": 0, "k": -1}, "k_out_of_range"),
    # Nothing to read: D becomes zero.
    ({"k": 0, "a": 0, "b": 3, "lda": 1, "ldb": 1}, "ok"),
    ({"k": 0, "d": 0}, "d_null"),
]


@pytest.mark.parametrize(("change", "status"), TABLE)
def test_the_first_broken_rule_is_the_status(plan_of, change, status):
    assert status_of(plan_of(), replace(GOOD, **change)) == status


def test_every_status_that_needs_no_device_is_in_the_table(plan_of):
    names = [s.name for s in plan_of().statuses]
    assert set(names[: names.index("d_not_on_device")]) == {status for _, status in TABLE}


def test_the_order_of_the_checks_is_that_of_the_values(plan_of):
    plan = plan_of()
    value = {s.name: s.value for s in plan.statuses}
    breaks = [
        {"m": -1},
        {"n": -1},
        {"k": -1},
        {"a": 0x10002},
        {"lda": 1},
        {"b": 0x20002},
        {"ldb": 1},
        {"d": 0x30001},
        {"ldd": 1},
    ]
    for i, first in enumerate(breaks):
        alone = status_of(plan, replace(GOOD, **first))
        for second in breaks[i + 1 :]:
            both = status_of(plan, replace(GOOD, **{**second, **first}))
            assert both == alone, (first, second)
            assert value[both] < value[status_of(plan, replace(GOOD, **second))]


# Real-world: a view with row stride 65, a storage offset of one element, a transposed operand whose
# M is no multiple of 8, a one-row operand with any stride.
@pytest.mark.parametrize(
    ("spec", "change", "status"),
    [
        ({}, {"lda": 65}, "lda_unaligned"),
        ({}, {"a": 0x10002}, "a_unaligned"),
        (A_M, {"m": 12, "lda": 12}, "lda_unaligned"),
        (A_M, {"m": 12, "lda": 16}, "ok"),
        ({}, {"m": 1, "lda": 65}, "ok"),
        (A_M, {"k": 1, "lda": 5}, "ok"),
        (A_M, {"m": 1, "lda": 5}, "lda_unaligned"),
        (B_N, {"n": 12, "ldb": 12, "ldd": 12}, "ldb_unaligned"),
        (B_N, {"n": 72, "ldb": 64, "ldd": 72}, "ldb_too_small"),
    ],
)
def test_each_way_to_break_the_16_byte_rule_has_its_status(plan_of, spec, change, status):
    assert status_of(plan_of(spec), replace(GOOD, **change)) == status


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"lda": 65},
            "sample: lda_unaligned: lda must be a multiple of 8 elements, 16 bytes (TMA stride) "
            "(lda = 65)",
        ),
        (
            {"a": 0x10002},
            "sample: a_unaligned: a must be 16-byte aligned (TMA base address) (a = 0x10002)",
        ),
        ({"m": -3}, "sample: m_out_of_range: m must be 0 to 2147483135 (m = -3)"),
        ({"d": 0}, "sample: d_null: d is null (d = 0x0)"),
        (
            {"m": LIMIT, "n": LIMIT},
            "sample: too_many_tiles: D has more tiles than one grid can hold",
        ),
    ],
)
def test_a_refusal_names_operand_value_and_rule(plan_of, change, text):
    with pytest.raises(LaunchError) as caught:
        require_ok(plan_of(), replace(GOOD, **change))
    assert str(caught.value) == text
    assert caught.value.status == text.split(": ")[1]


def test_good_arguments_are_not_refused(plan_of):
    require_ok(plan_of(), GOOD)


@pytest.mark.parametrize(
    ("change", "by_tma"),
    [
        ({}, True),
        ({"d": 0x30002}, False),
        ({"ldd": 65}, False),
        ({"ldd": 72}, True),
        ({"n": 63}, False),  # TMA clips a store in units of 16 bytes
        ({"n": 56}, True),
        ({"m": 1, "ldd": 3}, True),
        ({"m": 1, "ldd": 3, "n": 3}, False),
        ({"ldd": 2**39}, False),
    ],
)
def test_d_is_stored_by_tma_only_where_its_rows_start_and_end_on_16_bytes(plan_of, change, by_tma):
    assert stores_by_tma(plan_of(), replace(GOOD, **change)) is by_tma


@pytest.mark.parametrize(
    ("m", "n", "tiles"),
    [(1, 1, 1), (256, 256, 1), (257, 256, 2), (8192, 8192, 1024), (4194305, 512, 32770)],
)
def test_tiles_of_a_launch(plan_of, m, n, tiles):
    assert grid_of(plan_of(), m, n, 64).ctas == tiles


def test_more_than_65535_tile_rows_fit_one_grid(plan_of):
    wide = replace(GOOD, m=65536 * 256, n=64)
    assert status_of(plan_of(), wide) == "ok"
    assert grid_of(plan_of(), wide.m, wide.n, wide.k).ctas == 65536


def test_more_than_2_to_31_elements_are_fine(plan_of):
    assert status_of(plan_of(), replace(GOOD, m=4194305, n=512, ldd=512)) == "ok"


class CProblem(ctypes.Structure):
    """The struct as a C compiler lays it out."""

    _fields_ = (
        ("d", ctypes.c_void_p),
        ("ldd", ctypes.c_int64),
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
        ("k_tiles", ctypes.c_int),
        ("tiles_m", ctypes.c_int),
        ("tiles_n", ctypes.c_int),
        ("tma_store", ctypes.c_int),
    )


def test_the_parameter_is_laid_out_as_in_c(plan_of):
    record = record_of(plan_of(), replace(GOOD, m=300, n=520, k=65, ldd=4096, d=0x7F0012340))
    assert record.dtype.itemsize == ctypes.sizeof(CProblem) == 40
    fields = record.dtype.fields
    assert fields is not None
    offsets = {name: fields[name][1] for name in record.dtype.names or ()}
    assert offsets == {
        "d": 0,
        "ldd": 8,
        "m": 16,
        "n": 20,
        "k_tiles": 24,
        "tiles_m": 28,
        "tiles_n": 32,
        "tma_store": 36,
    }
    assert offsets == {f[0]: getattr(CProblem, f[0]).offset for f in CProblem._fields_}
    twin = CProblem.from_buffer_copy(record.tobytes())
    assert [getattr(twin, field[0]) for field in CProblem._fields_] == [
        0x7F0012340, 4096, 300, 520, 2, 2, 3, 1,
    ]  # fmt: skip


def test_the_parameter_matches_the_struct_of_the_generated_file(plan_of, source_of):
    struct = source_of().partition("struct Problem {\n")[2].partition("};")[0]
    declared = [line.split("//")[0].strip() for line in struct.splitlines()]
    assert declared == [
        "uint16_t* d;", "int64_t ldd;", "int m;", "int n;", "int k_tiles;", "int tiles_m;",
        "int tiles_n;", "int tma_store;",
    ]  # fmt: skip
    record = record_of(plan_of(), GOOD)
    assert isinstance(record, np.void)
    assert [d.split()[-1].rstrip(";") for d in declared] == list(record.dtype.names or ())


def test_no_k_is_no_k_tile(plan_of):
    assert record_of(plan_of(), replace(GOOD, k=0))["k_tiles"] == 0
