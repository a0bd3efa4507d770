"""The picture of a resident cluster: its ring, who shares what, and how D leaves."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.ring import a_stage, b_stage, stages_of
from kgen.budget.wgmma_persistent import panel
from kgen.dtypes import dtype
from kgen.plan import KernelPlan
from kgen.plan.maps import scale_arrays
from kgen.spec import KernelSpec
from kgen.spec.hopper import WgmmaPersistent
from kgen.spec.rules.wgmma import mma_k, mma_n, slabs_of


def picture(b: Budget) -> list[str]:
    """Roles, ring and cluster of one CTA, drawn from the budget."""
    s = b.spec.schedule_as(WgmmaPersistent)
    depth = stages_of(b.spec)
    stages = [f"stage {i}" for i in range(depth)]
    shown = stages if depth <= 3 else [stages[0], "...", stages[-1]]
    ring = "".join(f"[{x:^9}]" for x in shown)
    sizes = f"each A {a_stage(b.spec)} + B {b_stage(b.spec)} = {b.stage_bytes} bytes"
    loader = {
        "none": "thread 0 of consumer 0",
        "warp": "producer warp",
        "warpgroup": "producer warpgroup",
    }[s.producer]
    empty = next(x for x in b.barriers if x.name == "empty")
    mmas = s.tile.k // mma_k(b.spec) * slabs_of(s)
    names = f"consumers 0..{s.consumers - 1}" if s.consumers > 1 else "consumer 0"
    return [
        "pipeline",
        f"  global A, B --TMA--> {ring}  {sizes}",
        *_sharing(s),
        f"       ^ {loader:<24}| full: {b.stage_bytes} bytes landed",
        f"       |{'':<25}v{'':<22}^ empty: {empty.arrivals} arrivals",
        f"  {names} --wgmma m64n{mma_n(s)}k{mma_k(b.spec)} x{mmas}--> registers, "
        f"release: {s.release} stage",
        *_promotion(b.spec),
        *_epilogue(b.spec),
    ]


def _sharing(s: WgmmaPersistent) -> list[str]:
    rows = []
    if s.cluster.n > 1:
        rows.append(
            f"       A: each of {s.cluster.n} CTAs along N loads 1/{s.cluster.n}, multicast"
        )
    if s.cluster.m > 1:
        rows.append(
            f"       B: each of {s.cluster.m} CTAs along M loads 1/{s.cluster.m}, multicast"
        )
    return rows


def _promotion(spec: KernelSpec) -> list[str]:
    if spec.gemm.block_scale is None:
        return []
    scales = " x ".join(x.pointer for x in scale_arrays(spec))
    return [f"       | promoted after each K tile: its sums x {scales}, added up in f32 registers"]


def _epilogue(spec: KernelSpec) -> list[str]:
    s = spec.schedule_as(WgmmaPersistent)
    buffers = s.epilogue.store_buffers
    plural = "s" if buffers > 1 else ""
    how = "stmatrix" if dtype(spec.gemm.d.dtype).bits == 16 else "st.shared"
    rows, columns = panel(spec)
    panels = f"{rows} x {columns} panels" + (", transposed" if s.swap_operands else "")
    when = "during the next tile's first K tiles" if s.epilogue.deferred else "at the end of a tile"
    return [
        f"       | each warp, {when}: {how} of {panels}",
        "       v",
        f"  {buffers} buffer{plural} per warp --TMA store by the warp--> global D",
    ]


def grid_rows(plan: KernelPlan) -> list[str]:
    """Clusters, and how the shapes that the spec names are dealt out on the largest device."""
    s = plan.budget.spec.schedule_as(WgmmaPersistent)
    m, n = plan.cluster_tile
    most = "as many as the device holds" if s.clusters == "auto" else f"at most {s.clusters}"
    rows = [
        f"resident clusters of {s.cluster.m} x {s.cluster.n} CTAs, {most}; cluster tile {m} x {n}",
        f"raster groups of {s.raster.group} cluster tiles along {s.raster.along}"
        f"{', every second one backwards' if s.raster.snake else ''}; "
        + (
            f"tiles are cut where that saves {plan.resident.least_saving} K tiles"
            if plan.resident and plan.resident.cuts
            else "round robin"
        ),
    ]
    held = plan.budget.arch.sm_count // (s.cluster.m * s.cluster.n)
    for rows_m, columns, _ in plan.budget.spec.verify.shapes:
        tiles = -(-rows_m // m) * -(-columns // n)
        rows.append(
            f"{rows_m} x {columns}: {tiles} cluster tiles on at most {held} clusters = "
            f"{tiles / held:.2f} turns"
        )
    return rows
