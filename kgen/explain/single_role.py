"""Pictures of the schedules of one role: one loop that waits, multiplies, meets and refills."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.mma_sync import warp_tile
from kgen.budget.ring import a_stage, b_stage, stages_of
from kgen.spec.rules.single_role import MMA_SYNC_K
from kgen.spec.rules.wgmma import mma_k, slabs_of
from kgen.spec.single_role import MmaSync, WgmmaSingle


def picture(b: Budget) -> list[str]:
    """The loop of every thread, and the part that is thread 0's, drawn from the budget."""
    depth = stages_of(b.spec)
    stages = [f"stage {i}" for i in range(depth)]
    shown = stages if depth <= 3 else [stages[0], "...", stages[-1]]
    ring = "".join(f"[{x:^9}]" for x in shown)
    sizes = f"each A {a_stage(b.spec)} + B {b_stage(b.spec)} = {b.stage_bytes} bytes"
    refill = "the same stage" if depth > 1 else "the stage"
    return [
        "pipeline",
        f"  global A, B --TMA--> {ring}  {sizes}",
        f"       ^ thread 0        | full: {b.stage_bytes} bytes; all {b.threads} threads wait",
        "       |                 v",
        f"       |               {_multiplication(b)}",
        "       |                 |",
        f"       +-- refills ------+ CTA barrier: every warp has read {refill}",
        "  at the end: registers, masked stores --> global D",
    ]


def _multiplication(b: Budget) -> str:
    s = b.spec.schedule
    if isinstance(s, MmaSync):
        rows, columns = warp_tile(s)
        return (
            f"ldmatrix --> registers --mma.sync m16n8k16--> {rows} x {columns} a warp, "
            f"x{s.tile.k // MMA_SYNC_K} along K"
        )
    assert isinstance(s, WgmmaSingle)
    mmas = s.tile.k // mma_k(b.spec) * slabs_of(s)
    return f"wgmma m64n{s.tile.n}k16 x{mmas} a warpgroup, all of them waited for"
