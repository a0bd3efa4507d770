"""The MMA warp of a tcgen05 kernel: the MMAs of one stage, and where they find their scales."""

from __future__ import annotations

from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.plan.model import Descriptor, Layout
from kgen.plan.tcgen05_model import Issue, ScaleCopy
from kgen.scales import TILE_BYTES, TILE_ROWS, TILE_SCALES
from kgen.spec.rules.tcgen05 import LANES, ROW_BYTES, schedule_of
from kgen.tcgen05 import MatrixDescriptor, k_major, mn_major, scale_block
from kgen.tcgen05.descriptor import UNIT
from kgen.tcgen05.forms import scale_id_bits

# MMA by MMA: M tile, N tile, and the wrapper, named for what it does with the collectors. Each of
# the two collectors holds one operand at a time.
_PATTERNS = {
    "b_reuse": ((0, 0, "tcgen05_mma_fill_b"), (1, 0, "tcgen05_mma_reuse_b")),
    "ab_five_reads": (
        (0, 0, "tcgen05_mma_fill_a"),
        (0, 1, "tcgen05_mma_reuse_a_fill_b"),
        (1, 1, "tcgen05_mma_fill_a_reuse_b"),
        (1, 0, "tcgen05_mma_reuse_a"),
    ),
}


def _order(b: Tcgen05Budget) -> tuple[tuple[int, int, str], ...]:
    """The MMAs of one K step."""
    g = b.shape
    plain = tuple((m, n, "tcgen05_mma") for m in range(g.m_tiles) for n in range(g.n_tiles))
    return _PATTERNS.get(schedule_of(b.spec).collector, plain)


def issues(b: Tcgen05Budget) -> tuple[Issue, ...]:
    """The MMAs of one stage, in issue order: K step by K step."""
    g = b.shape
    rows = []
    for step in range(g.k_steps):
        for m, n, function in _order(b):
            accumulator = m * g.n_tiles + n
            rows.append(
                Issue(
                    function=function,
                    column=m * g.tile_n + n * g.form.request.n,
                    a=_a_offset(b, m, step) // UNIT,
                    b=_b_offset(b, n, step) // UNIT,
                    idesc_bits=_scale_bits(b, step),
                    sfa=_scale_column(b, m, 1, step),
                    sfb=_scale_column(b, n, g.form.request.n // TILE_ROWS, step),
                    starts=step == 0,
                    waits_for=accumulator if step == 0 and accumulator else None,
                )
            )
    return tuple(rows)


def _a_offset(b: Tcgen05Budget, m_tile: int, step: int) -> int:
    """Bytes from the start of a stage's A to the first row and K step of an MMA."""
    g = b.shape
    if b.spec.gemm.a.major == "k":
        return m_tile * LANES * ROW_BYTES + _k_offset(b, g.rows_a, step)
    chunks = m_tile * LANES // g.row_elements
    return chunks * g.tile_k * ROW_BYTES + step * g.form.k * ROW_BYTES


def _b_offset(b: Tcgen05Budget, n_tile: int, step: int) -> int:
    """The same for B, whose MMAs lie behind each other."""
    g = b.shape
    start = n_tile * g.b_bytes // g.n_tiles
    if b.spec.gemm.b.major == "k":
        return start + _k_offset(b, g.rows_b, step)
    return start + step * g.form.k * ROW_BYTES


def _k_offset(b: Tcgen05Budget, rows: int, step: int) -> int:
    """K-major: panels of 128 bytes of K, each with all rows."""
    panel, within = divmod(step * b.shape.form.request.k_bytes, ROW_BYTES)
    return panel * rows * ROW_BYTES + within


def _scale_bits(b: Tcgen05Budget, step: int) -> str:
    """Descriptor bits for scales that begin inside a word; empty where they do not."""
    first = step * b.shape.form.scales % TILE_SCALES
    return f"0x{scale_id_bits(first, first):08x}" if first else ""


def _scale_column(b: Tcgen05Budget, tile: int, blocks: int, step: int) -> int:
    """Where the scales of one MMA begin, in columns from its operand's first.

    blocks  of 128 rows that one MMA needs
    A word of all row blocks comes before the next word; MMAs lie behind each other.
    """
    g = b.shape
    if not g.words:
        return 0
    word = step * g.form.scales // TILE_SCALES
    return TILE_SCALES * blocks * (tile * g.words + word)


def copies(b: Tcgen05Budget) -> tuple[ScaleCopy, ...]:
    """The blocks of scales that a stage moves to tensor memory, in shared-memory order.

    Shared memory holds the words of a block of rows next to each other, tensor memory the blocks
    of a word.
    """
    g = b.shape
    if not g.words:
        return ()
    rows = []
    for operand, count, blocks in (
        ("sfa", g.sfa_blocks, 1),
        ("sfb", g.sfb_blocks, g.form.request.n // TILE_ROWS),
    ):
        for block in range(count):
            tile, within = divmod(block, blocks)
            for word in range(g.words):
                column = TILE_SCALES * (blocks * (tile * g.words + word) + within)
                offset = (block * g.words + word) * TILE_BYTES // UNIT
                rows.append(ScaleCopy(operand, column, offset))
    return tuple(rows)


def layouts(b: Tcgen05Budget) -> tuple[Layout, ...]:
    """The layout bits of the shared-memory descriptors."""
    gemm = b.spec.gemm
    rows = [
        _layout(b, "kLayoutA", gemm.a.major, "M"),
        _layout(b, "kLayoutB", gemm.b.major, "N"),
    ]
    if b.shape.words:
        note = "a block of scales: 32 rows of 16 bytes, no swizzle"
        rows.append(Layout("kLayoutScales", _descriptor(scale_block(), note)))
    return tuple(rows)


def _layout(b: Tcgen05Budget, name: str, major: str, axis: str) -> Layout:
    if major == "k":
        form = k_major(ROW_BYTES)
        note = f"K-major, {ROW_BYTES}-byte swizzle, stride {form.stride} bytes (8 rows)"
        return Layout(name, _descriptor(form, note))
    form = mn_major(ROW_BYTES, b.shape.tile_k * ROW_BYTES)
    note = (
        f"{axis}-major, {ROW_BYTES}-byte swizzle, stride {form.stride} bytes (8 of K), "
        f"leading {form.leading} bytes (next {ROW_BYTES} bytes of {axis})"
    )
    return Layout(name, _descriptor(form, note))


def _descriptor(form: MatrixDescriptor, note: str) -> Descriptor:
    return Descriptor(f"0x{form.bits:016x}", note)
