"""What only tcgen05 kernels have to explain: the MMA, the map of tensor memory, the pipeline."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kgen.budget.tcgen05 import Tcgen05Budget, ring_depths
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import schedule_of

# Shared memory of the rings that the ThunderKittens account of Vera Rubin publishes for its 2x1
# tiles, in KiB by depth of the ring. Its FP8 table names only the deepest, the others follow from
# the slope. What exceeds the slope is not broken down there.
PUBLISHED_KIB = {
    ("mxf4nvf4", 57344): {3: 202, 4: 258, 5: 314},
    ("f8f6f4", 49152): {4: 209, 5: 257, 6: 305},
}


def data(b: Tcgen05Budget) -> dict[str, Any]:
    """The same as `rows`, ready for JSON."""
    form, request = b.shape.form, b.shape.form.request
    return {
        "mma": {
            "instruction": form.mnemonic,
            "m": request.m,
            "n": request.n,
            "k": form.k,
            "k_bytes": request.k_bytes,
            "descriptor": f"0x{form.idesc:08x}",
        },
        "tensor_memory": {
            "rows": [
                {"name": r.buffer.name, "first": r.first, "columns": r.buffer.columns}
                for r in b.tmem.rows
            ],
            "used": b.tmem.used,
            "allocated": b.tmem.allocated,
            "exclusive": b.tmem.exclusive,
            "limit": b.tmem.limit,
        },
        "oversized_shared_memory": b.oversized,
        "published": published(b),
        "items": [asdict(item) for item in b.tmem.ledger().items],
    }


def rows(b: Tcgen05Budget) -> list[str]:
    """The MMA, the columns as a sum and as a drawing, and published figures where there are any."""
    form, g = b.shape.form, b.shape
    r = form.request
    lines = [
        "MMA",
        f"  {form.mnemonic}, M {r.m} N {r.n} K {form.k} ({r.k_bytes} bytes)",
        f"  instruction descriptor 0x{form.idesc:08x}; {g.k_steps} along K per stage, "
        f"tile of {g.m_tiles} x {g.n_tiles}, collector {schedule_of(b.spec).collector}",
        "",
        f"tensor memory ({b.tmem.limit_name}; {b.tmem.allocated} columns allocated)",
        *(f"  {row}" for row in b.tmem.ledger().rows()),
        *(f"  {row}" for row in b.tmem.drawing()),
        f"  {_legend(b)}",
    ]
    if lines_of := published(b):
        lines += ["", "published ring (ThunderKittens on Vera Rubin)", *lines_of]
    return lines


def _legend(b: Tcgen05Budget) -> str:
    marks = ", ".join(f"{r.buffer.mark} {r.buffer.name}" for r in b.tmem.rows)
    return f"one letter for 4 columns: {marks}, . unused"


def published(b: Tcgen05Budget) -> list[str]:
    """Our sum beside the published one for the same stage size and depth, and their difference."""
    a_stages, b_stages = ring_depths(b.spec)
    known = PUBLISHED_KIB.get((b.shape.form.request.kind, b.stage_bytes), {})
    if a_stages != b_stages or a_stages not in known:
        return []
    theirs, ours = known[a_stages], b.smem.total
    ring = a_stages * b.stage_bytes
    rest = ours - ring - b.smem["D buffers"]
    return [
        f"  {a_stages} stages: {ours} bytes here ({ours / 1024:g} KiB), {theirs} KiB there; "
        f"both grow by {b.stage_bytes // 1024} KiB a stage",
        f"  beyond the ring: here {ours - ring} bytes, {b.smem['D buffers']} of D staging and "
        f"{rest} of barriers and padding;",
        f"  there {theirs * 1024 - ring} bytes, whose split is not published",
    ]


def picture(b: Tcgen05Budget) -> list[str]:
    """Roles and rings, drawn from the budget."""
    s, g = schedule_of(b.spec), b.shape
    split = isinstance(s, Tcgen05WsSplit)
    a_stages, b_stages = ring_depths(b.spec)
    scales = g.sfa_bytes + g.sfb_bytes
    with_b = f"B {g.b_bytes}" + (f" + scales {scales}" if scales else "")
    pair = "each CTA of the pair: " if g.group == 2 else ""
    if split:
        loads = [
            f"  global A --TMA--> A ring x{a_stages} ({pair}{g.a_bytes} bytes a stage)",
            "       ^ A producer, a_empty: the MMAs have read A",
            f"  global B --TMA--> B ring x{b_stages} ({pair}{with_b})",
            "       ^ B producer, b_empty: the MMAs are done",
        ]
    else:
        loads = [
            f"  global A, B --TMA--> ring x{a_stages} ({pair}A {g.a_bytes} + {with_b})",
            "       ^ producer, empty: the MMAs are done with the stage",
        ]
    copies = [f"       | scales --tcgen05.cp--> {_scale_columns(b)} columns"] if scales else []
    buffers = s.tmem.buffers
    slots = [x for x in b.barriers if x.name.startswith("tile_")]
    scheduler = [
        f"  scheduler --try_cancel--> {x.count} answers of {x.tx_bytes} bytes, for all roles"
        for x in slots[:1]
    ]
    return [
        "pipeline",
        *scheduler,
        *loads,
        *copies,
        f"       v full: the bytes of {'both CTAs' if g.group == 2 else 'the stage'} have landed",
        f"  MMA warp --tcgen05.mma x{g.k_steps * g.m_tiles * g.n_tiles}--> "
        f"{buffers} x {g.accumulator_columns} accumulator columns",
        "       v acc_full                    ^ acc_empty: the epilogue has read them",
        f"  epilogue warps --tcgen05.ld, {s.epilogue.store_buffers} buffers, TMA store--> global D",
    ]


def _scale_columns(b: Tcgen05Budget) -> int:
    return sum(r.buffer.columns for r in b.tmem.rows if r.buffer.name.endswith("scales"))
