"""Text of persistent kernels: what an overlapped launch, a capture and a missing target rely on."""

from __future__ import annotations

import re

import pytest
from persistent import AT_ONCE, NO_PRODUCER, WHOLE, cluster, plan_of

from kgen.render import render

PDL = {"pdl: false": "pdl: true"}
KERNELS = {
    "cuts": {},
    "whole": WHOLE,
    "one cta": cluster(1, 1),
    "no producer": {**NO_PRODUCER, "n: 256, k": "n: 128, k"},
    "warp": {**AT_ONCE, "producer: warpgroup": "producer: warp"},
}


@pytest.mark.parametrize("name", KERNELS)
def test_i3_the_host_asks_for_overlap_exactly_where_the_device_waits(name, code_only):
    for changes, overlaps in ((KERNELS[name], False), (KERNELS[name] | PDL, True)):
        code = code_only(render(plan_of(changes)).source)
        roles = 1 if name == "no producer" else 2
        assert ("programmaticStreamSerializationAllowed = 1" in code) == overlaps
        assert code.count("ptx::wait_for_previous_grid();") == (roles if overlaps else 0)
        assert (code.count("ptx::launch_dependents();") == 1) == overlaps


@pytest.mark.parametrize("name", KERNELS)
def test_i3_every_role_waits_before_it_touches_global_memory(name, code_only):
    """Of a consumer at the start; of a producer in its first turn, once the tile is found."""
    code = code_only(render(plan_of(KERNELS[name] | PDL)).source)
    entry = code[code.index("__global__ void") :]
    assert not re.search(r"problem\.(?:d|flags|parts)\b|tma_", entry[: entry.index("\n}")])
    for role in set(re.findall(r"\b(produce|consume)\(", entry)):
        body = code[code.index(f"void {role}(") :]
        body = body[: body.index("\n}")]
        first = r"if \((?:turn == 0|index == cluster_index\(\))\) "
        indent = {"produce": f"\n        {first}", "consume": r"\{\n    "}[role]
        wait = re.search(indent + r"ptx::wait_for_previous_grid\(\);", body)
        assert wait
        uses = ("fill_stage(", "refill(", "multiply(", "store_panel(", "add_part(", "mbarrier_wait")
        assert all(wait.start() < body.index(use) for use in uses if use in body)


@pytest.mark.parametrize("name", KERNELS)
def test_i1_a_launch_neither_allocates_nor_waits(name, code_only):
    code = code_only(render(plan_of(KERNELS[name])).source)
    host = code[code.rindex("_launch(") :]
    for call in ("Malloc", "Free", "Synchronize", "Memset", "Memcpy", "cudaStreamCreate"):
        assert call not in host
    assert "cudaThreadExchangeStreamCaptureMode" in code, "loading the kernel may be captured"


def test_c1_a_build_for_another_target_traps():
    source = render(plan_of()).source
    guard = "#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)\n    __trap();"
    assert source.count(guard) == 1


def test_a_first_panel_finds_its_buffer_read():
    """Three buffers, four panels: a tile begins with the buffer that the one before ended with."""
    source = render(plan_of({"store_buffers: 4": "store_buffers: 3"})).source
    at = source.index("if (panel == 0) ptx::tma_store_wait_read();")
    assert at < source.index("ptx::tma_store_wait_read_but<kStoreBuffers - 1>();")
