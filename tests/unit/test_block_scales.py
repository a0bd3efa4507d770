"""f32 block scales of fp8 on Hopper: what a spec may ask for, the plan, how results are judged."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from variants import SCALED, operands, variant

from kgen.emu import tensor_core
from kgen.errors import BudgetError, KgenError
from kgen.paths import data_folder
from kgen.plan import KernelPlan, lower
from kgen.run.arguments import Arguments, problem_record, status_of
from kgen.run.grid import grid_of
from kgen.spec import load_spec, parse_spec
from kgen.verify import inputs
from kgen.verify.check import check, make_reference
from kgen.verify.inputs import Operands
from kgen.verify.numbers import Numerics, from_float32, to_float32
from kgen.verify.problem import numerics_of
from kgen.verify.scaling import Scales, make_scales

FP8 = {**operands("e4m3", "e4m3", "bf16"), **SCALED}
SCHEDULE: dict[str, Any] = {
    "kind": "wgmma_persistent",
    "tile": {"m": 256, "n": 128, "k": 128},
    "consumers": 2,
}


def plan_of(gemm: dict[str, Any] = FP8, **schedule: Any) -> KernelPlan:
    """The plan of a kernel with block scales. JSON is YAML."""
    spec = {"name": "scaled", "target": "sm_90a", "gemm": gemm, "schedule": SCHEDULE | schedule}
    return lower(parse_spec(json.dumps(spec), "scaled.yaml"))


def tile(m: int, n: int, k: int) -> dict[str, int]:
    """An extent of every axis."""
    return {"m": m, "n": n, "k": k}


# --- what a spec may ask for


@pytest.mark.parametrize(
    ("gemm", "schedule", "words"),
    [
        (FP8, {"tile": tile(256, 128, 64)}, "tile.k: 64 elements; with block scales a K tile is"),
        (FP8, {"tile": tile(128, 256, 128)}, "tile.n: 256 columns; must divide 128, so"),
        (FP8, {"tile": tile(128, 192, 128)}, "has one scale of B per block: 64 or 128"),
        (
            {**operands("e4m3", "e4m3", "f32"), **SCALED},
            {"tile": tile(128, 96, 128)},
            "has one scale of B per block: 32 or 64 or 128",
        ),
        (
            FP8,
            {"swap_operands": True, "tile": tile(64, 128, 128)},
            "schedule.swap_operands: true gives a thread columns of A; block scales are read for",
        ),
        (FP8, {"release": "previous"}, "schedule.release: previous keeps a wgmma group in flight"),
        (
            {**FP8, "block_scale": {"dtype": "ue8m0", "block": 32}},
            {},
            "gemm.block_scale: ue8m0 per 32; wgmma has no scales, and its sums are multiplied by",
        ),
        (
            {**FP8, "block_scale": {"dtype": "f32", "block": 32}},
            {},
            "multiplied by f32 per 128; write {dtype: f32, block: 128}",
        ),
        (
            {**operands("bf16", "bf16", "bf16"), **SCALED},
            {"tile": tile(128, 128, 128)},
            "gemm.a.dtype: bf16; block scales are for e4m3 and e5m2",
        ),
        ({**FP8, "global_scale": True}, {}, "a factor of D belongs to tcgen05; leave it out"),
        (
            FP8,
            {"kind": "wgmma_ws"},
            "gemm.block_scale: wgmma has no scales, and wgmma_ws does not apply them to sums; "
            "wgmma_persistent does",
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused(
    gemm: dict[str, Any], schedule: dict[str, Any], words: str
) -> None:
    """The text names the field and the reason."""
    with pytest.raises(KgenError) as caught:
        plan_of(gemm, **schedule)
    assert words in str(caught.value)


def test_f32_scales_do_not_fit_the_other_family() -> None:
    """tcgen05 reads scales of its own types."""
    text = (
        "{name: x, target: sm_100a, gemm: {a: {dtype: e4m3}, b: {dtype: e4m3}, d: {dtype: bf16}, "
        "accumulator: f32, block_scale: {dtype: f32, block: 128}}, schedule: {kind: tcgen05_ws, "
        "tile: {m: 128, n: 128, k: 128}, mma: {m: 128, n: 128}}}"
    )
    with pytest.raises(KgenError, match="e4m3 takes block scales of ue8m0 per 32"):
        lower(parse_spec(text, "x.yaml"))


def test_two_sets_of_sums_must_fit() -> None:
    """Two slabs share the sums of a block; a tile that waits has no room beside them."""
    consumer = plan_of().budget.role("consumer")
    assert (consumer.accumulators, consumer.block_sums) == (128, 64)
    with pytest.raises(BudgetError) as caught:
        plan_of(epilogue={"deferred": True})
    text = str(caught.value)
    assert "block sums         64   of one slab, before promotion" in text
    assert "fix: schedule.epilogue.deferred: false" in text
    assert plan_of(tile=tile(128, 128, 128), epilogue={"deferred": True})
    with pytest.raises(BudgetError):
        plan_of(tile=tile(384, 128, 128), consumers=3)


# --- the plan and the launch


def test_a_tile_is_multiplied_slab_by_slab() -> None:
    """One wgmma group of four steps a slab; a lane loads a scale for every 32 rows of its warp."""
    plan = plan_of()
    assert [(s.slab, s.a, s.b, s.first) for s in plan.steps] == [  # type: ignore[attr-defined]
        (0, 0, 0, True), (0, 2, 2, False), (0, 4, 4, False), (0, 6, 6, False),
    ]  # fmt: skip
    assert plan.constant("kSlabUnits") == 64 * 128 // 16
    assert plan.constant("kScaleLoads") == 1
    assert plan_of(consumers=1, tile=tile(192, 64, 128)).constant("kScaleLoads") == 2
    assert plan_of(tile=tile(128, 64, 128)).constant("kScaleLoads") == 1


def test_the_launch_takes_both_scales() -> None:
    """By address; they are looked at where K is not 0."""
    plan = plan_of()
    good = Arguments(0x10000, 0x20000, 0x30000, 64, 64, 64, 64, 64, 64, sfa=0x40004, sfb=0x50004)
    statuses = {
        "ok": [{}, {"k": 0, "sfa": 0, "sfb": 1}],
        "sfa_null": [{"sfa": 0}],
        "sfa_unaligned": [{"sfa": 0x40002, "sfb": 0}],
        "sfb_null": [{"sfb": 0}],
        "sfb_unaligned": [{"sfb": 0x50001}],
        "b_null": [{"b": 0, "sfa": 0}],
    }
    for status, changes in statuses.items():
        assert {status_of(plan, replace(good, **x)) for x in changes} == {status}
    record = problem_record(plan, good, grid_of(plan, 64, 64, 64, 132))
    assert (record["sfa"], record["sfb"]) == (0x40004, 0x50004)


def test_the_shape_of_the_scales_follows_the_problem() -> None:
    """Blocks are rounded up on both sides."""
    a, b = plan_of().scale_arrays
    assert a.shape(m=300, n=129, k=257) == (3, 300)
    assert b.shape(m=300, n=129, k=257) == (2, 3)
    assert a.shape(m=1, n=1, k=0) == (0, 1)


def test_the_interface_names_the_arrays() -> None:
    """The header of the .cu and the .h carry these lines."""
    text = "\n".join(plan_of().interface)
    assert "sfa: f32 [ceil(K / 128), M], row-major" in text
    assert "sfb: f32 [ceil(N / 128), ceil(K / 128)], row-major" in text
    assert "Fast accumulation" not in text


def test_the_shipped_spec_has_two_slabs() -> None:
    """What its opening comment says."""
    plan = lower(load_spec(data_folder("specs") / "hopper" / "fast" / "e4m3_scaled.yaml"))
    assert plan.tile == (256, 128, 128)
    assert plan.cluster == (2, 1)
    assert plan.constant("kSlabs") == 2


# --- operands, reference and gates

NUMERICS = Numerics("e4m3", "e4m3", "f32", "bf16", 64, 32, 128, 32, mma_k=32, block_k=128)


def test_numerics_know_the_block() -> None:
    """Also where the spec mixes types."""
    numerics = numerics_of(lower(variant("persistent_e4m3_e5m2_scaled_two_slabs")))
    assert (numerics.block_k, numerics.a, numerics.b) == (128, "e4m3", "e5m2")


def test_scales_apply_element_by_element() -> None:
    """The arrays against the definition, tails included; a slice of K, too."""
    m, n, k = 5, 131, 300
    scales = make_scales(m, n, k, 128, (0.5, 1.0, 2.0, 3.0), seed=1)
    assert scales is not None
    assert scales.a.shape == (3, m)
    assert scales.b.shape == (2, 3)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((n, k))
    left, right = scales.applied(a, b)
    for i, j in product(range(m), range(k)):
        assert left[i, j] == a[i, j] * scales.a[j // 128, i]
    for i, j in product(range(n), range(k)):
        assert right[i, j] == b[i, j] * scales.b[i // 128, j // 128]
    part = scales.applied(a[:, 100:260], b[:, 100:260], 100)
    assert (part[0] == left[:, 100:260]).all()
    assert (part[1] == right[:, 100:260]).all()
    assert make_scales(m, n, k, 0, (1.0,), seed=1) is None


def promoted(x: Operands, numerics: Numerics, scales: Scales, lost: int = -1) -> np.ndarray:
    """What a kernel makes of fp8 by the emulator's adder: blocks of K, scaled, added up in f32.

    lost  a block that is not added
    """
    types, size = (numerics.a, numerics.b), numerics.block_k
    left, right = to_float32(x.a, types[0]), to_float32(x.b, types[1])
    total = np.zeros((len(left), len(right)), "float32")
    columns = np.arange(len(right)) // scales.block
    for block, start in enumerate(range(0, left.shape[1], size)):
        acc = None
        for k in range(start, min(start + size, left.shape[1]), numerics.mma_k):
            part = slice(k, k + numerics.mma_k)
            acc = tensor_core.accumulate(
                acc, left[:, part], right[:, part], "f32", types, tensor_core.FP8_ADDER
            )
        assert acc is not None
        factor = scales.a[block][:, None] * scales.b[columns, block]
        if block != lost:
            total = (total + acc.astype("float64") * factor).astype("float32")
    return from_float32(total, numerics.output)


@pytest.mark.parametrize("output", ["bf16", "f32"])
@pytest.mark.parametrize("kind", ["exact", "normal"])
@pytest.mark.parametrize(("m", "n", "k"), [(70, 40, 1536), (8, 8, 128), (70, 130, 400)])
def test_promoted_sums_pass_and_wrong_ones_do_not(
    output: str, kind: str, m: int, n: int, k: int
) -> None:
    """Lost: a block of K. Wrong: scales of another row, of another block, or none at all."""
    numerics = replace(NUMERICS, output=output)
    x = inputs.GENERATORS[kind](m, n, k, numerics, seed=k)
    scales = x.scales
    assert scales is not None
    assert check(promoted(x, numerics, scales), x, numerics).passed
    assert not check(promoted(x, numerics, scales, lost=0), x, numerics).passed
    wrong = [
        replace(scales, a=np.roll(scales.a, 1, axis=1)),
        replace(scales, a=np.ones_like(scales.a), b=np.ones_like(scales.b)),
    ]
    if k > 1024:  # with few blocks, two may happen to be scaled alike
        wrong.append(replace(scales, b=np.roll(scales.b, 1, axis=1)))
    for other in wrong:
        assert not check(promoted(x, numerics, other), x, numerics).passed


def test_one_sum_over_all_of_k_is_no_promoted_sum() -> None:
    """The gate is as tight as promotion is exact: fast accumulation does not pass as such."""
    numerics = replace(NUMERICS, output="f32")
    x = inputs.normal(64, 64, 2048, numerics, seed=1)
    assert x.scales is not None
    ones = Scales(np.ones_like(x.scales.a), np.ones_like(x.scales.b), 128)
    x = replace(x, scales=ones)
    assert check(promoted(x, numerics, ones), x, numerics).passed
    in_one = promoted(x, replace(numerics, block_k=2048), ones)
    report = check(in_one, x, numerics)
    assert not report.passed
    assert report.results[-1].gate == "statistical"


def test_exact_scales_are_exact() -> None:
    """The reference of exact operands holds in the output, whatever the scales."""
    for k in (16, 1000, 8192):
        x = inputs.exact(96, 40, k, NUMERICS, seed=k)
        ref = make_reference(x, NUMERICS)
        assert set(np.unique(x.scales.a)) <= set(inputs.EXACT_SCALES)  # type: ignore[union-attr]
        assert (ref.product == np.rint(ref.product)).all()
        assert np.abs(ref.product).max() <= 256  # the last exact integer of bf16
