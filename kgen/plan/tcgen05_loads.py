"""What fills a stage of a tcgen05 kernel: tensor maps, TMA loads and their forms."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.plan.launch import ScaleMap
from kgen.plan.tcgen05_model import BulkLoad, LoadForm
from kgen.spec.rules.tcgen05 import LANES, ROW_BYTES, schedule_of

# The 64-bit eviction policies that createpolicy makes for all of a tensor, as SASS holds them.
POLICIES = {"evict_first": "0x12F0000000000000", "evict_last": "0x14F0000000000000"}
_SCALE_ELEMENTS = 256  # 16-bit elements of one 512-byte tile of scales


def scale_maps(b: Tcgen05Budget) -> tuple[ScaleMap, ...]:
    """The tensor maps of the scales of A and B; none without block scales."""
    scale, g = b.spec.gemm.block_scale, b.shape
    if scale is None:
        return ()
    sfb_blocks = g.sfb_blocks // (2 if g.sfb_shared else 1)
    return (
        ScaleMap("sfa", "sfa", "m", scale.block, (_SCALE_ELEMENTS, g.words, g.sfa_blocks)),
        ScaleMap("sfb", "sfb", "n", scale.block, (_SCALE_ELEMENTS, g.words, sfb_blocks)),
    )


def load_forms(b: Tcgen05Budget) -> tuple[LoadForm, ...]:
    """How each operand is loaded."""
    names = ("a", "b", "sfa", "sfb") if b.shape.words else ("a", "b")
    return tuple(_form(b, name) for name in names)


def _form(b: Tcgen05Budget, operand: str) -> LoadForm:
    g, l2 = b.shape, schedule_of(b.spec).l2
    shared = {"a": g.a_shares > 1, "b": g.b_shares > 1, "sfa": False, "sfb": g.sfb_shared}
    multicast = shared[operand]
    eviction = {"a": l2.a, "b": l2.b}.get(operand, "normal")
    policy = POLICIES.get(eviction)
    parts = (
        ".multicast::cluster" if multicast else "",
        ".cta_group::2" if g.group == 2 else "",
        ".L2::cache_hint" if policy else "",
    )
    return LoadForm(operand, "".join(parts), multicast, eviction, policy, 6 if multicast else 5)


def a_loads(b: Tcgen05Budget) -> tuple[BulkLoad, ...]:
    """The boxes of A, in shared-memory order."""
    g = b.shape
    return tuple(_operand_loads(b, "a", b.spec.gemm.a.major, g.rows_a, 0, 0))


def b_loads(b: Tcgen05Budget) -> tuple[BulkLoad, ...]:
    """The boxes of B, MMA by MMA, then those of the scales."""
    g = b.shape
    size = g.b_bytes // g.n_tiles
    rows: list[BulkLoad] = []
    for i in range(g.n_tiles):
        first = i * g.form.request.n
        rows += _operand_loads(b, "b", b.spec.gemm.b.major, g.rows_b, first, i * size)
    if g.words:
        words = f"k_tile * {g.words}" if g.words > 1 else "k_tile"
        rows.append(BulkLoad("sfa", 0, words, f"tile.row / {LANES}", _form(b, "sfa")))
        half = " + cta.half" if g.sfb_shared and g.sfb_blocks == 2 else ""
        rows.append(BulkLoad("sfb", 0, words, f"tile.col / {LANES}{half}", _form(b, "sfb")))
    return tuple(rows)


def _operand_loads(
    b: Tcgen05Budget, name: str, major: str, rows: int, first: int, offset: int
) -> Iterator[BulkLoad]:
    """Boxes of `rows` rows of M or N from element `first`, from byte `offset` of the stage on."""
    g = b.shape
    width, form = g.row_elements, _form(b, name)
    mn = _plus(f"{name}_row", first)
    if major == "k":
        for panel in range(g.tile_k // width):
            at = offset + panel * rows * ROW_BYTES
            yield BulkLoad(name, at, _plus("k", panel * width), mn, form)
        return
    for chunk in range(rows // width):
        at = offset + chunk * g.tile_k * ROW_BYTES
        yield BulkLoad(name, at, _plus(f"{name}_row", first + chunk * width), "k", form)


def _plus(name: str, offset: int) -> str:
    return f"{name} + {offset}" if offset else name
