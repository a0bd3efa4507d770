"""The column map of tensor memory.

Source of the column counts: the sums that NVIDIA's kernels for the same tiles compute.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.arch import SM_100A, SM_103A, SM_107A
from kgen.budget.tmem import TmemBuffer, plan_tmem


def buffers(*columns: int) -> tuple[TmemBuffer, ...]:
    return tuple(TmemBuffer(f"b{i}", c, "", str(i)) for i, c in enumerate(columns))


def test_small_buffers_are_packed_not_rounded_each():
    """tile-ai/tilelang#2831: 384 + three buffers of 4, each rounded to 32, would be 480; with a
    fifth of 128 the rounding decides."""
    found = plan_tmem(buffers(384, 4, 4, 4), SM_100A)
    assert [(r.first, r.end) for r in found.rows] == [(0, 384), (384, 388), (388, 392), (392, 396)]
    assert (found.used, found.allocated, found.exclusive, found.over) == (396, 512, False, 0)
    tight = plan_tmem(buffers(384, 4, 4, 4, 116), SM_100A)
    assert (tight.used, tight.allocated, tight.over) == (512, 512, 0)


def test_what_does_not_fit_has_a_row_for_every_buffer():
    found = plan_tmem(buffers(256, 256, 16, 32), SM_100A)
    assert found.over == 48
    assert found.ledger().rows() == (
        "b0         256",
        "b1         256",
        "b2          16",
        "b3          32",
        "total      560   of 512 columns: over by 48",
    )


@pytest.mark.parametrize(
    ("columns", "used"),
    [
        ((256, 256, 32, 32), 576),  # two M tiles of NVFP4
        ((256, 256, 16, 16), 544),  # of MXFP4
        ((256, 256, 8, 8), 528),  # of MXFP8
        ((256, 256, 16, 32), 560),  # one M tile of NVFP4, two accumulators
    ],
)
def test_rubin_takes_all_columns_when_they_are_needed(columns, used):
    found = plan_tmem(buffers(*columns), SM_107A)
    assert (found.used, found.allocated, found.exclusive, found.over) == (used, 576, True, 0)
    for arch in (SM_100A, SM_103A):
        assert plan_tmem(buffers(*columns), arch).over == used - 512


def test_exclusive_only_where_needed_or_asked():
    assert not plan_tmem(buffers(256, 256), SM_107A).exclusive
    asked = plan_tmem(buffers(256, 256), SM_107A, True)
    assert (asked.exclusive, asked.allocated, asked.limit) == (True, 576, 576)
    refused = plan_tmem(buffers(256, 256, 4), SM_107A, False)
    assert (refused.exclusive, refused.over) == (False, 4)
    assert plan_tmem(buffers(576, 4), SM_107A).over == 4
    with pytest.raises(ValueError, match="sm_103a has no more columns"):
        plan_tmem(buffers(32), SM_103A, True)


@given(st.lists(st.integers(1, 64).map(lambda x: 4 * x), min_size=1, max_size=6))
def test_any_plan_is_packed_disjoint_and_allocatable(columns):
    found = plan_tmem(buffers(*columns), SM_107A)
    assert found.used == sum(columns)
    ends = [r.end for r in found.rows]
    assert [r.first for r in found.rows] == [0, *ends[:-1]]
    if not found.over:
        assert found.allocated >= found.used
    if not found.exclusive:
        assert found.allocated in (32, 64, 128, 256, 512)
        assert found.allocated == 32 or found.allocated < 2 * found.used


def test_the_drawing_has_four_columns_a_letter():
    rows = plan_tmem(
        (
            TmemBuffer("accumulator 0", 256, "", "0"),
            TmemBuffer("accumulator 1", 256, "", "1"),
            TmemBuffer("SFA", 32, "", "a"),
            TmemBuffer("SFB", 24, "", "b"),
        ),
        SM_107A,
    ).drawing()
    assert rows == (
        f"  0 |{'0' * 64}|",
        f"256 |{'1' * 64}|",
        "512 |aaaaaaaabbbbbb..|",
    )
    assert plan_tmem(buffers(4), SM_100A).drawing() == ("  0 |0.......|",)
