"""Kernels with swapped operands on small shapes: clean, and every element of D as it should be.

`make gpu` runs the same kernels, and all others of tests/variants.py, on larger ones.
"""

from __future__ import annotations

import pytest
from variants import variant

from kgen.api import build, lower
from kgen.verify.emulator import shapes_of, verify_in_emulator

LARGEST = 1_000_000  # multiplications: the emulator needs a second for as many

KERNELS = (
    "swapped_8_rows",
    "swapped_n_major",
    "swapped_none_2x2_wrap",
    "swapped_f16_accumulation_wrap",
    "swapped_bf16_f32_output",
    "swapped_s8",
)


@pytest.mark.parametrize("name", KERNELS)
def test_right_and_clean_on_small_shapes(name):
    plan = lower(variant(name))
    kernel = next(r for r in build(plan).resources if r.kernel == plan.name)
    ptx = build(plan, emit="ptx", line_info=True).data.decode()
    shapes = [s for s in shapes_of(plan) if s.m * s.n * s.k <= LARGEST]
    assert {bool(s.n % 8) for s in shapes} == {True, False}, "stored by TMA, and element by element"
    assert any(s.k == 0 and s.m and s.n for s in shapes)
    cases, _ = verify_in_emulator(plan, ptx, shapes, ("early", "random:1"), kernel.registers)
    assert [str(c.report) for c in cases if not c.passed] == []
