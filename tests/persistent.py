"""A small spec of the wgmma_persistent schedule to change, and short ways to what it lowers to."""

from __future__ import annotations

import pytest
from conftest import changed

from kgen.errors import KgenError, SpecError
from kgen.plan import KernelPlan, lower
from kgen.plan.hopper import WgmmaPersistentPlan
from kgen.spec import parse_spec

FAST = """\
name: sample
target: sm_90a
gemm:
  a: {dtype: bf16, major: k}
  b: {dtype: bf16, major: k}
  d: {dtype: bf16, major: n}
  accumulator: f32
schedule:
  kind: wgmma_persistent
  tile: {m: 128, n: 256, k: 64}
  cluster: {m: 2, n: 1}
  scheduler: wrap
  clusters: auto
  consumers: 2
  producer: warpgroup
  stages: 3
  release: same
  swizzle_bytes: auto
  raster: {along: n, group: 8}
  pdl: false
  epilogue: {kind: tma_per_warp, store_buffers: 4, deferred: true}
verify:
  shapes: [[512, 512, 256], [8192, 8192, 8192]]
"""

F16 = {
    "a: {dtype: bf16": "a: {dtype: f16",
    "b: {dtype: bf16": "b: {dtype: f16",
    "d: {dtype: bf16": "d: {dtype: f16",
    "accumulator: f32": "accumulator: f16",
    "deferred: true": "deferred: false",
}
"""Changes to f16 accumulation, which has nothing to defer."""

NO_PRODUCER = {"producer: warpgroup": "producer: none", "deferred: true": "deferred: false"}
A_M = {"a: {dtype: bf16, major: k}": "a: {dtype: bf16, major: m}"}
B_N = {"b: {dtype: bf16, major: k}": "b: {dtype: bf16, major: n}"}


def cluster(m: int, n: int) -> dict[str, str]:
    """The change to clusters of m x n CTAs."""
    return {"cluster: {m: 2, n: 1}": f"cluster: {{m: {m}, n: {n}}}"}


SWAP = {
    "tile: {m: 128, n: 256, k: 64}": "tile: {m: 16, n: 128, k: 64}",
    "clusters: auto": "clusters: auto\n  swap_operands: true",
    **cluster(1, 1),
}
"""Changes to columns of D along the rows of a wgmma: one slab of 64 x 16 for each consumer."""


AT_ONCE = {"deferred: true": "deferred: false"}
WHOLE = {"scheduler: wrap": "scheduler: round_robin"}

ON_DEVICE: dict[str, dict[str, str]] = {
    "a1_four_stages": {"stages: 3": "stages: 4", "store_buffers: 4": "store_buffers: 1", **WHOLE},
    "a3_deferred": WHOLE,
    "a3_at_once": {**WHOLE, **AT_ONCE, "store_buffers: 4": "store_buffers: 3"},
    "a6_four_ctas": {**cluster(4, 1), "clusters: auto": "clusters: 20"},
    "a6_no_producer": {
        **NO_PRODUCER,
        "n: 256, k": "n: 192, k",
        "release: same": "release: previous",
    },
    "i3_overlaps": {**WHOLE, "pdl: false": "pdl: true"},
}
"""Kernels of the GPU tests in tests/gpu/test_persistent.py, beside the shipped ones."""

WHOLE_CTA = """\
name: a3_not_resident
target: sm_90a
gemm:
  a: {dtype: bf16, major: k}
  b: {dtype: bf16, major: k}
  d: {dtype: bf16, major: n}
  accumulator: f32
schedule:
  kind: wgmma_ws
  tile: {m: 128, n: 256, k: 64}
  consumers: 2
  stages: 3
"""
"""The tile of FAST with a CTA for each."""


def on_device() -> dict[str, KernelPlan]:
    """Plans of ON_DEVICE and of WHOLE_CTA, by name."""
    plans: dict[str, KernelPlan] = {
        name: plan_of({"name: sample": f"name: {name}", **changes})
        for name, changes in ON_DEVICE.items()
    }
    return plans | {"a3_not_resident": lower(parse_spec(WHOLE_CTA, "whole.yaml"))}


def plan_of(changes: dict[str, str] | None = None) -> WgmmaPersistentPlan:
    """Plan of the spec with parts replaced."""
    plan = lower(parse_spec(changed(changes, FAST), "fast.yaml"))
    assert isinstance(plan, WgmmaPersistentPlan)
    return plan


def refusal(changes: dict[str, str], error: type[KgenError] = SpecError) -> str:
    """Text of the error that the spec with parts replaced is refused with."""
    with pytest.raises(error) as caught:
        lower(parse_spec(changed(changes, FAST), "fast.yaml"))
    assert type(caught.value) is error
    return str(caught.value)


def findings(text: str) -> list[str]:
    """The lines of an error that name a place in the spec."""
    return [line for line in text.split("\n") if line.startswith("fast.yaml")]
