"""The mbarriers of the tcgen05 schedules: every count derived from who arrives.

Of a pair, the even CTA leads: it issues the MMAs and owns the barriers that fill a stage. The
others exist in every CTA.
"""

from __future__ import annotations

from kgen.budget.model import Barrier
from kgen.budget.tcgen05_geometry import Geometry
from kgen.spec import KernelSpec
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import LANES, schedule_of

EPILOGUE_WARPS = LANES // 32
# Answers that a cluster holds or has asked for: of the tile that is loaded, and of the next. A slot
# is free when the epilogue, the last of its readers, has begun its tile; by then the producer is at
# the end of the tile behind it. More slots would claim tiles that a faster cluster could take.
TILE_SLOTS = 2
ANSWER_BYTES = 16  # of a request to cluster launch control; source: PTX ISA, try_cancel


def producers(spec: KernelSpec) -> tuple[str, ...]:
    """The roles that load, a warp each."""
    split = isinstance(spec.schedule, Tcgen05WsSplit)
    return ("A producer", "B producer") if split else ("producer",)


def barriers(spec: KernelSpec, g: Geometry) -> tuple[Barrier, ...]:
    """Every row of mbarriers. Depths of rings and of accumulators must be numbers.

    full   counts the bytes of both CTAs of a pair, and nothing of the rest of the cluster: data
           that is multicast is counted where it lands
    empty  one commit of every CTA group that a load of this CTA reaches, since the load may write
           there only once that group has read the stage
    tile_full, tile_empty  with cluster launch control: every CTA waits for its own copy of an
           answer, and that of CTA 0, which asks, for all readers of the cluster
    """
    s = schedule_of(spec)
    both = "the leading {}, then TMA of both" if g.group == 2 else "the {}, then TMA"
    a_groups, b_groups = g.a_shares, g.b_shares
    assert isinstance(s.stages, int)
    if isinstance(s, Tcgen05WsSplit):
        assert isinstance(s.a_stages, int)
        b_bytes = g.b_bytes + g.sfa_bytes + g.sfb_bytes
        rings = [
            *_ring("a_", s.a_stages, g.group * g.a_bytes, a_groups, "A producer", both, _EARLY),
            *_ring("b_", s.stages, g.group * b_bytes, b_groups, "B producer", both, _LATE),
        ]
    else:
        size = g.a_bytes + g.b_bytes + g.sfa_bytes + g.sfb_bytes
        # The group of this CTA shares both A and B with it, and commits once.
        groups = a_groups + b_groups - 1
        rings = _ring("", s.stages, g.group * size, groups, "producer", both, _LATE)
    buffers = s.tmem.buffers
    assert isinstance(buffers, int)
    tiles = _tiles(spec, g) if s.scheduler == "clc" else ()
    accumulators = buffers * g.m_tiles * g.n_tiles
    arriver = "a thread of each epilogue warp" + (", both CTAs" if g.group == 2 else "")
    return (
        *rings,
        Barrier("acc_full", buffers, 1, 0, "the commit behind a tile", "epilogue"),
        Barrier("acc_empty", accumulators, EPILOGUE_WARPS * g.group, 0, arriver, "mma"),
        *tiles,
    )


def _tiles(spec: KernelSpec, g: Geometry) -> tuple[Barrier, Barrier]:
    """The two rows around the answers of cluster launch control."""
    readers = {
        "epilogue": EPILOGUE_WARPS * g.ctas,
        "producer": len(producers(spec)) * g.ctas,
        "scheduler": g.ctas,
        "mma": g.ctas // g.group,
    }
    arriver = " + ".join(f"{n} {name}" for name, n in readers.items())
    asked = "the scheduler, then the answer"
    return (
        Barrier("tile_full", TILE_SLOTS, 1, ANSWER_BYTES, asked, "all roles"),
        Barrier("tile_empty", TILE_SLOTS, sum(readers.values()), 0, arriver, "scheduler"),
    )


_EARLY = "the commit behind the reads of A"
_LATE = "the commit behind a stage"


def _ring(
    prefix: str, stages: int, size: int, groups: int, producer: str, both: str, commit: str
) -> list[Barrier]:
    """The two rows of one ring. groups: CTA groups that the loads of one CTA reach."""
    arriver = commit if groups == 1 else f"{commit}, {groups} groups"
    return [
        Barrier(f"{prefix}full", stages, 1, size, both.format(producer), "mma"),
        Barrier(f"{prefix}empty", stages, groups, 0, arriver, producer),
    ]
