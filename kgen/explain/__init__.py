"""The budget of a spec as tables and a picture, and the same as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kgen.budget import Budget
from kgen.budget.ring import a_stage, b_stage, stages_of
from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.explain import persistent, single_role, tcgen05
from kgen.plan import KernelPlan
from kgen.spec.base import Raster
from kgen.spec.hopper import TmaTurns, WgmmaPersistent, WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M, consumer_m, mma_k
from kgen.spec.single_role import SingleRole


def data(plan: KernelPlan, digest: str) -> dict[str, Any]:
    """Everything that `text` shows, ready for JSON."""
    b = plan.budget
    more = tcgen05.data(b) if isinstance(b, Tcgen05Budget) else {}
    return {
        "name": plan.name,
        "target": plan.target,
        "spec_digest": plan.spec_digest,
        "source_digest": digest,
        "problem": plan.problem,
        "resolved": b.spec.model_dump(mode="json", exclude_none=True),
        "threads": b.threads,
        "shared_memory": {
            "items": [asdict(item) for item in b.smem.items],
            "total_bytes": b.smem.total,
            "limit_bytes": b.smem.limit,
        },
        "registers": {
            "launch_cap": b.launch_cap,
            "roles": [{**asdict(r), "registers": r.registers} for r in b.roles],
            "file": b.arch.registers,
        },
        "barriers": [asdict(x) for x in b.barriers],
        "tma": [{**asdict(x), "bytes": x.bytes} for x in b.boxes],
        "scale_arrays": [{**asdict(x), "shape": x.shape_text} for x in plan.scale_arrays],
        "stage_bytes": b.stage_bytes,
        "ring_bytes": b.smem["A ring"] + b.smem["B ring"],
        "operand_bytes_per_flop": b.operand_bytes_per_flop,
        "waves": [asdict_wave(plan, m, n) for m, n, _ in b.spec.verify.shapes],
        **more,
    }


def asdict_wave(plan: KernelPlan, m: int, n: int) -> dict[str, Any]:
    """Tiles of an M x N output and how evenly they fill the SMs of the largest device."""
    tile_m, tile_n = plan.cluster_tile
    tiles = -(-m // tile_m) * -(-n // tile_n)
    clusters = plan.budget.arch.sm_count // (plan.cluster[0] * plan.cluster[1])
    waves = tiles / clusters
    full = -(-tiles // clusters)
    return {"m": m, "n": n, "tiles": tiles, "waves": waves, "fill": waves / full if full else 0.0}


def text(plan: KernelPlan, digest: str) -> str:
    """The tables and the picture, at most 100 columns."""
    b = plan.budget
    lines = [
        f"{plan.name}   {plan.target} ({plan.devices})   spec {plan.spec_digest}   source {digest}",
        plan.problem,
        *plan.structure,
        "",
        f"shared memory ({b.smem.limit_name})",
        *_indent(b.smem.rows()),
        "",
        f"registers ({b.launch_cap} per thread at launch of {b.threads} threads: "
        f"{b.launch_cap} x {-(-b.threads // 128) * 128} of {b.arch.registers})",
        *_indent(_register_rows(b)),
        "",
        "mbarriers",
        *_indent(_barrier_rows(b)),
        "",
        "TMA boxes (elements, innermost first)",
        *_indent(_box_rows(b, plan)),
        "",
        *_family_rows(b),
        *_scale_rows(plan),
        "grid",
        *_indent(_grid_rows(plan)),
        "",
        *picture(b),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _family_rows(b: Budget) -> list[str]:
    return [*tcgen05.rows(b), ""] if isinstance(b, Tcgen05Budget) else []


def _scale_rows(plan: KernelPlan) -> list[str]:
    """The arrays of f32 scales that a launch takes, for any shape and for those of the spec."""
    arrays = plan.scale_arrays
    if not arrays:
        return []
    wide = max(len(x.shape_text) for x in arrays)
    rows = [f"{x.pointer}  {x.shape_text:<{wide}}  of {x.operand.upper()}" for x in arrays]
    for m, n, k in plan.budget.spec.verify.shapes:
        sizes = ", ".join(
            f"{x.pointer} {' x '.join(map(str, x.shape(m=m, n=n, k=k)))}" for x in arrays
        )
        rows.append(f"{m} x {n} x {k}: {sizes}")
    return ["block scales (arguments of the launch; f32, row-major)", *_indent(rows), ""]


def _indent(rows: Any) -> list[str]:
    return [f"  {row}" for row in rows]


def _register_rows(b: Budget) -> list[str]:
    extra = [n for n in ("block_sums", "waiting") if any(getattr(r, n) for r in b.roles)]
    titles = "".join(f"  {name.replace('_', ' ')}" for name in extra)
    rows = [
        f"{'role':<10}{'warps':>7}{'accumulators':>14}{titles}"
        f"{'other':>7}{'needs about':>13}{'of':>5}"
    ]
    for r in b.roles:
        cells = "".join(f"{getattr(r, name):>{2 + len(name)}}" for name in extra)
        rows.append(
            f"{r.name:<10}{r.warps:>7}{r.accumulators:>14}{cells}"
            f"{r.overhead:>7}{r.registers:>13}{r.register_cap:>5}"
        )
    return rows


def _barrier_rows(b: Budget) -> list[str]:
    wide = max(9, *(len(x.name) for x in b.barriers))
    rows = [f"{'name':<{wide}}{'count':>6}{'arrivals':>10}{'tx bytes':>10}   arrives -> waits"]
    for x in b.barriers:
        counts = f"{x.count:>6}{x.arrivals:>10}{x.tx_bytes:>10}"
        rows.append(f"{x.name:<{wide}}{counts}   {x.arriver} -> {x.waiter}")
    return rows


def _box_rows(b: Budget, plan: KernelPlan) -> list[str]:
    wide = max(3, *(len(x.operand) + 1 for x in b.boxes))
    rows = [f"{'':<{wide}}{'box':<16}{'bytes':>7}{'swizzle':>9}   {'count':<14}stride rule"]
    maps = {m.operand: m for m in plan.maps}
    for x in b.boxes:
        box = f"{x.inner_axis} {x.inner} x {x.outer_axis} {x.outer}"
        rule = "blocks of 512 bytes, no stride"
        if x.operand in maps:
            map_ = maps[x.operand]
            rule = f"{map_.ld} a multiple of {map_.multiple}"
        if x.operand == "d":
            storer = b.roles[0].name
            rule += f", else the {storer}{'s store' if storer == 'consumer' else ' stores'}"
        rows.append(
            f"{x.operand.upper():<{wide}}{box:<16}{x.bytes:>7}{x.swizzle_bytes:>9}   "
            f"{x.per_tile:<14}{rule}"
        )
    return rows


def _grid_rows(plan: KernelPlan) -> list[str]:
    s = plan.budget.spec.schedule
    if isinstance(s, WgmmaPersistent):
        return persistent.grid_rows(plan)
    m, n = plan.cluster_tile
    grid = f"ceil(M / {m}) x ceil(N / {n})"
    size = " x ".join(map(str, plan.cluster))
    rows = [f"one CTA per tile, grid.x = {grid}; cluster 1; {_raster(s.raster)}"]
    if plan.clustered:
        rows = [
            f"one cluster of {size} CTAs for each of {grid} cluster tiles,",
            f"grid.x = {plan.cluster[0] * plan.cluster[1]} times that; {_raster(s.raster)}",
        ]
    if plan.resident:
        rows = [
            f"as many clusters of {size} CTAs as the device holds, each takes every n-th of",
            f"{grid} cluster tiles; {_raster(s.raster)}",
        ]
    for m, n, _ in plan.budget.spec.verify.shapes:
        w = asdict_wave(plan, m, n)
        rows.append(
            f"{m} x {n}: {w['tiles']} tiles on {plan.budget.arch.sm_count} SMs = "
            f"{w['waves']:.2f} waves, {w['fill']:.1%} filled"
        )
    return rows


def _raster(raster: Raster) -> str:
    if raster.group == 1:
        return f"no raster groups, {'M' if raster.along == 'n' else 'N'} first"
    return f"raster groups of {raster.group} along {raster.along}"


def picture(b: Budget) -> list[str]:
    """Roles and ring, drawn from the budget."""
    if isinstance(b, Tcgen05Budget):
        return tcgen05.picture(b)
    if isinstance(b.spec.schedule, SingleRole):
        return single_role.picture(b)
    if isinstance(b.spec.schedule, WgmmaPersistent):
        return persistent.picture(b)
    return _specialised(b)


def _specialised(b: Budget) -> list[str]:
    s = b.spec.schedule_as(WgmmaWs)
    depth = stages_of(b.spec)
    stages = [f"stage {i}" for i in range(depth)]
    shown = stages if len(stages) <= 3 else [stages[0], "...", stages[-1]]
    ring = "".join(f"[{x:^9}]" for x in shown)
    sizes = f"each A {a_stage(b.spec)} + B {b_stage(b.spec)} = {b.stage_bytes} bytes"
    names = f"consumers 0..{s.consumers - 1}" if s.consumers > 1 else "consumer 0"
    producer = b.role("producer").warps
    return [
        "pipeline",
        f"  global A, B --TMA--> {ring}  {sizes}",
        f"       ^ producer      | full: {b.stage_bytes} bytes landed       "
        f"^ empty: {s.consumers} arrivals",
        f"       | ({producer} warp{'s' if producer > 1 else ''}){'':<11}v{'':<35}|",
        f"  {names} --wgmma m64n{s.tile.n}k16 x{len(_mmas(b))}--> registers, "
        f"release: {s.release} stage",
        *_epilogue(b, s),
    ]


def _mmas(b: Budget) -> range:
    """The wgmmas of one K tile and consumer."""
    s = b.spec.schedule_as(WgmmaWs)
    return range(s.tile.k // mma_k(b.spec) * (consumer_m(s) // SLAB_M))


def _epilogue(b: Budget, s: WgmmaWs) -> list[str]:
    if not isinstance(s.epilogue, TmaTurns):
        return ["       | masked stores", "       v", "  global D"]
    free = next((x for x in b.barriers if x.name == "d_free"), None)
    buffers = s.epilogue.store_buffers
    turns = f"d_free x{free.count}" if free else "a buffer each"
    return [
        f"       | stmatrix, d_ready ({b.arch.warpgroup_threads} arrivals each)",
        f"       v                                      ^ {turns}",
        f"  {buffers} D buffer{'s' if buffers > 1 else ''} --TMA store by the producer--> global D",
    ]
