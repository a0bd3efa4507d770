"""Element types of the persistent wgmma schedule: what goes together, what follows from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from variants import BASE, SCHEDULES, VARIANTS, operands, variant

from kgen.api import lower
from kgen.errors import KgenError
from kgen.plan.hopper import WgmmaPersistentPlan
from kgen.spec import parse_spec


def refusal(gemm: dict[str, Any], **schedule: Any) -> str:
    """What kgen says of these types under the persistent schedule."""
    kind = schedule.pop("kind", "wgmma_persistent")
    text = json.dumps(
        {
            **BASE,
            "name": "x",
            "gemm": gemm,
            "schedule": {"kind": kind, **SCHEDULES[kind], **schedule},
        }
    )
    with pytest.raises(KgenError) as caught:
        lower(parse_spec(text, "x.yaml"))
    return str(caught.value)


FP8 = operands("e4m3", "e4m3", "bf16")


@pytest.mark.parametrize(
    ("gemm", "words"),
    [
        (operands("e4m3", "s8", "bf16"), "wgmma takes equal types, or e4m3 with e5m2"),
        (operands("tf32", "bf16", "f32"), "wgmma takes equal types, or e4m3 with e5m2"),
        (operands("s8", "s8", "s32"), "f32 for s8 operands: integers add up in s32"),
        (operands("bf16", "bf16", "s32", "s32"), "s32 adds up s8 operands only"),
        (operands("s8", "s8", "f32", "s32"), "f32 from s32 sums: s32 sums are stored as they are"),
        (operands("bf16", "bf16", "s32"), "s32 from f32 sums"),
        (operands("e4m3", "e4m3", "f16", "f16"), "f16 accumulation is for f16 operands only"),
        (
            {**FP8, "a": {"dtype": "e4m3", "major": "m"}},
            "gemm.a.major: m; wgmma reads e4m3 along K only",
        ),
        (
            {**FP8, "b": {"dtype": "e4m3", "major": "n"}},
            "gemm.b.major: n; wgmma reads e4m3 along K only",
        ),
    ],
)
def test_combinations_that_wgmma_has_not(gemm: dict[str, Any], words: str) -> None:
    """The text says what is wrong and why."""
    assert words in refusal(gemm)


@pytest.mark.parametrize("kind", ["wgmma_ws", "wgmma_single", "mma_sync"])
def test_other_schedules_take_16_bits(kind: str) -> None:
    """They name the schedule that takes more."""
    text = refusal(FP8, kind=kind)
    assert f"gemm.a.dtype: e4m3; {kind} takes f16 and bf16; wgmma_persistent takes" in text
    assert "gemm.d.dtype: f32" in refusal(operands("bf16", "bf16", "f32"), kind=kind)


def test_a_tile_as_wide_as_its_accumulators_cannot_wait() -> None:
    """Setting it aside would take the registers twice."""
    text = refusal(operands("tf32", "tf32", "f32"), epilogue={"deferred": True})
    assert "f32 accumulators are stored as they are" in text


@pytest.mark.parametrize(
    ("gemm", "k"),
    [(FP8, 16), (operands("tf32", "tf32", "f32"), 4), (operands("s8", "s8", "s32", "s32"), 48)],
)
def test_k_is_whole_mmas(gemm: dict[str, Any], k: int) -> None:
    """32 bytes of K each."""
    step = {"e4m3": 32, "tf32": 8, "s8": 32}[gemm["a"]["dtype"]]
    text = refusal(gemm, tile={"m": 128, "n": 128, "k": k})
    assert f"{k} elements; must be a multiple of {step} (one wgmma)" in text


MMAS = {
    "persistent_e4m3_e5m2": ("m64n128k32.f32.e4m3.e5m2", (1, 1), 64),
    "persistent_e4m3_k_32_f32_output": ("m64n32k32.f32.e4m3.e4m3", (1, 1), 32),
    "persistent_tf32_wrap": ("m64n64k8.f32.tf32.tf32", (1, 1), 32),
    "persistent_tf32_two_slabs_no_producer": ("m64n64k8.f32.tf32.tf32", (1, 1), 64),
    "persistent_s8": ("m64n96k32.s32.s8.s8", (), 32),
    "persistent_bf16_f32_output": ("m64n160k16.f32.bf16.bf16", (1, 1, 0, 0), 32),
}


@pytest.mark.parametrize("name", MMAS)
def test_instruction_and_panels_follow_from_the_types(name: str) -> None:
    """32 bytes of K an MMA, 128 bytes a row of a panel, and factors only where PTX takes them."""
    assert name in VARIANTS
    plan = lower(variant(name))
    assert isinstance(plan, WgmmaPersistentPlan)
    form, immediates, columns = MMAS[name]
    assert plan.mma.instruction == f"wgmma.mma_async.sync.aligned.{form}"
    assert plan.mma.immediates == immediates
    assert plan.constant("kPanelN") == columns
    assert plan.map_d is not None
    assert plan.map_d.box == (columns, 16)
    assert columns * plan.d_type.bytes == plan.map_d.swizzle_bytes == 128
    per_row = plan.tile[2] * plan.map_a.dtype.bytes // 32
    slabs = plan.constant("kSlabs")
    assert len(plan.steps) == per_row * slabs
    assert plan.stores_words == (plan.d_type.bits == 32)


def test_a_cut_saves_the_same_time_whatever_the_type() -> None:
    """K tiles of as many bytes take equally long, so as many of them must be saved."""
    plans = [lower(variant(n)) for n in ("persistent_tf32_wrap", "persistent_e5m2_cluster_wrap")]
    assert [p.resident.least_saving for p in plans if p.resident] == [128, 128]
