"""Rules of the tcgen05 schedules: which MMA, which tile of it, which cluster, which collector."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.arch import ARCHS
from kgen.dtypes import dtype
from kgen.nearest import nearest_multiples
from kgen.scales import TILE_SCALES
from kgen.spec.blackwell import Tcgen05Schedule, Tcgen05WsSplit
from kgen.spec.locate import Violation, listed
from kgen.spec.model import KernelSpec
from kgen.tcgen05 import BlockScale, Finding, IllegalMma, MmaForm, MmaRequest, kind_of, mma_form
from kgen.tcgen05.forms import LARGEST_N
from kgen.tcgen05.kinds import KINDS

LANES = 128  # of tensor memory; an epilogue warpgroup has a thread for each
STORED_TYPES = ("f16", "bf16", "f32")
ROW_BYTES = 128  # a stage holds rows of the widest swizzle; longer rows are cut into such panels
SLICE_ROWS = 8  # rows of one swizzle atom, the least that one CTA of a cluster loads for others
SCALE_ROWS = 128  # rows that share a block of scales

_FIELDS = {
    "kind": ("gemm", "a", "dtype"),
    "target": ("target",),
    "a": ("gemm", "a", "dtype"),
    "b": ("gemm", "b", "dtype"),
    "accumulator": ("gemm", "accumulator"),
    "scale": ("gemm", "block_scale"),
    "a_major": ("gemm", "a", "major"),
    "b_major": ("gemm", "b", "major"),
    "m": ("schedule", "mma", "m"),
    "n": ("schedule", "mma", "n"),
    "k_bytes": ("schedule", "mma", "k_bytes"),
    "cta_group": ("schedule", "mma", "cta_group"),
}


def form_of(spec: KernelSpec) -> MmaForm:
    """The MMA of a spec. Raises IllegalMma if its target has no such one."""
    s, gemm = schedule_of(spec), spec.gemm
    scale = block_scale(spec)
    kind = kind_of(gemm.a.dtype, scale)
    if kind is None:
        taken = sorted({name for k in KINDS.values() for name in k.codes})
        if gemm.a.dtype not in taken:
            what = f"{gemm.a.dtype}; the tcgen05 schedules take {', '.join(taken)}"
            raise IllegalMma((Finding("a", what),))
        raise IllegalMma((Finding("scale", _scales_of(gemm.a.dtype)),))
    request = MmaRequest(
        kind=kind.name,
        m=s.mma.m,
        n=s.mma.n,
        k_bytes=s.mma.k_bytes,
        cta_group=s.mma.cta_group,
        a=gemm.a.dtype,
        b=gemm.b.dtype,
        accumulator=gemm.accumulator,
        scale=scale,
        a_major=gemm.a.major,
        b_major=gemm.b.major,
    )
    return mma_form(ARCHS[spec.target], request)


def _scales_of(operand: str) -> str:
    """What scales an operand type takes, for a spec that gives others or none."""
    kinds = [k for k in KINDS.values() if operand in k.codes]
    if not any(k.is_scaled for k in kinds):
        return f"{operand} takes no block scales"
    # ue5m3 is known to the table and to no compiler but one; specs cannot ask for it.
    taken = [f"{x.dtype} per {x.block}" for k in kinds for x in k.scales if x.dtype != "ue5m3"]
    if any(not k.is_scaled for k in kinds):
        taken.append("none")
    return f"{operand} takes block scales of {listed(taken)}"


def block_scale(spec: KernelSpec) -> BlockScale | None:
    """The block scales of a spec."""
    given = spec.gemm.block_scale
    return BlockScale(given.dtype, given.block) if given else None


def schedule_of(spec: KernelSpec) -> Tcgen05Schedule:
    """The schedule, which the caller knows to multiply with tcgen05."""
    s = spec.schedule
    assert isinstance(s, Tcgen05Schedule)
    return s


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of the schedule that `spec` breaks."""
    s = schedule_of(spec)
    if spec.gemm.accumulator != "f32":
        yield Violation(("gemm", "accumulator"), "the tcgen05 schedules accumulate in f32")
        return
    if spec.gemm.d.dtype not in STORED_TYPES:
        yield Violation(
            ("gemm", "d", "dtype"),
            f"{spec.gemm.d.dtype}; f32 sums are stored as {', '.join(STORED_TYPES)}",
        )
        return
    try:
        form = form_of(spec)
    except IllegalMma as error:
        for finding in error.findings:
            if finding.field == "n" and spec.gemm.block_scale:
                yield _scaled_columns(s)  # what the MMA itself would take is refused below
            else:
                yield Violation(_FIELDS[finding.field], finding.what)
        return
    if form.rows_per_cta != LANES:
        yield Violation(
            ("schedule", "mma", "m"),
            f"{s.mma.m} rows with cta_group {s.mma.cta_group} leave {form.rows_per_cta} a CTA; the "
            f"epilogue wants one for each of the {LANES} lanes of tensor memory: "
            f"{LANES * s.mma.cta_group} rows",
        )
    yield from _tile(spec, s, form)
    yield from _cluster(spec, s)
    yield from _collector(spec, s)
    yield from _tensor_memory(spec, s)
    yield from _shared_memory(spec, s)
    yield from _split(spec, s)


def _tile(spec: KernelSpec, s: Tcgen05Schedule, form: MmaForm) -> Iterator[Violation]:
    for axis, one, whole in (("m", s.mma.m, s.tile.m), ("n", s.mma.n, s.tile.n)):
        if whole not in (one, 2 * one):
            yield Violation(
                ("schedule", "tile", axis), f"{whole}; must be mma.{axis}, {one}, or twice that"
            )
    box = ROW_BYTES // dtype(spec.gemm.d.dtype).bytes
    if s.tile.n % box:
        yield Violation(
            ("schedule", "tile", "n"),
            f"{s.tile.n} columns; must be a multiple of {box}, {ROW_BYTES} bytes of D; "
            f"{nearest_multiples(s.tile.n, box)}",
        )
    if spec.gemm.block_scale and s.mma.n % SCALE_ROWS:
        yield _scaled_columns(s)
    row = dtype(spec.gemm.a.dtype).elements_in(ROW_BYTES)
    if s.tile.k % row:
        yield Violation(
            ("schedule", "tile", "k"),
            f"{s.tile.k} elements; must be a multiple of {row}, {ROW_BYTES} bytes of "
            f"{spec.gemm.a.dtype}; {nearest_multiples(s.tile.k, row)}",
        )
    scale = spec.gemm.block_scale
    if scale is None:
        return
    whole = TILE_SCALES * scale.block  # divides the row of every type that has scales
    for i, (_, _, k) in enumerate(spec.verify.shapes):
        if k % whole:
            yield Violation(
                ("verify", "shapes", i, 2),
                f"K = {k}; with a scale for {scale.block} elements a multiple of {whole}, so that "
                f"no padding of the scales takes part; {nearest_multiples(k, whole)}",
            )


def _scaled_columns(s: Tcgen05Schedule) -> Violation:
    """An MMA whose columns do not fill blocks of scales.

    The hardware takes 64 and 192 as well, with tiles that start in the middle of a block.
    """
    return Violation(
        ("schedule", "mma", "n"),
        f"{s.mma.n} columns; with block scales a multiple of {SCALE_ROWS}, the rows of B that "
        f"share a block of scales, so that no tile starts inside one; "
        f"{nearest_multiples(s.mma.n, SCALE_ROWS, LARGEST_N)}",
    )


def _cluster(spec: KernelSpec, s: Tcgen05Schedule) -> Iterator[Violation]:
    arch = ARCHS[spec.target]
    size = s.cluster.m * s.cluster.n
    if s.cluster.m % s.mma.cta_group:
        yield Violation(
            ("schedule", "cluster", "m"),
            f"{s.cluster.m}; the pair of cta_group 2 lies along M and needs an even number of CTAs",
        )
        return
    if size > arch.cluster_ctas:
        yield Violation(
            ("schedule", "cluster"), f"{size} CTAs; a portable cluster has {arch.cluster_ctas}"
        )
    slices = (
        ("m", "n", s.tile.m // s.mma.cta_group, s.cluster.n, spec.gemm.a.major),
        (
            "n",
            "m",
            s.mma.n // s.mma.cta_group,
            s.cluster.m // s.mma.cta_group,
            spec.gemm.b.major,
        ),
    )
    for axis, along, rows, shares, major in slices:
        if shares > 1 and (rows % (shares * SLICE_ROWS) or major != "k"):
            why = (
                f"{rows} rows do not divide into {shares} slices of whole swizzle atoms"
                if major == "k"
                else "slices are cut from K-major operands only"
            )
            yield Violation(
                ("schedule", "cluster", along),
                f"{'A' if axis == 'm' else 'B'} would be loaded in {shares} slices by multicast: "
                f"{why}",
            )


def _collector(spec: KernelSpec, s: Tcgen05Schedule) -> Iterator[Violation]:
    if s.collector == "none":
        return
    at = ("schedule", "collector")
    if spec.target != "sm_107a":
        yield Violation(at, f"{spec.target} cannot keep B in its collector; sm_107a can")
        return
    m_tiles, n_tiles = s.tile.m // s.mma.m, s.tile.n // s.mma.n
    wanted = {"b_reuse": (2, 1), "ab_five_reads": (2, 2)}[s.collector]
    if (m_tiles, n_tiles) != wanted:
        yield Violation(
            at,
            f"{s.collector} needs a tile of {wanted[0]} x {wanted[1]} MMAs (M x N), "
            f"this one has {m_tiles} x {n_tiles}",
        )
    if s.collector == "ab_five_reads" and isinstance(s, Tcgen05WsSplit):
        yield Violation(
            at,
            "ab_five_reads keeps A in the collector, and whether A's early release waits for such "
            "deferred reads is not documented; use tcgen05_ws",
        )


def _tensor_memory(spec: KernelSpec, s: Tcgen05Schedule) -> Iterator[Violation]:
    if s.tmem.exclusive is True and not ARCHS[spec.target].tmem_exclusive_columns:
        yield Violation(
            ("schedule", "tmem", "exclusive"),
            f"{spec.target} gains no column by it; sm_107a gains 64",
        )


def _shared_memory(spec: KernelSpec, s: Tcgen05Schedule) -> Iterator[Violation]:
    if s.smem.oversized is True and not ARCHS[spec.target].smem_oversized_per_cta:
        yield Violation(
            ("schedule", "smem", "oversized"),
            f"{spec.target} has no oversized shared memory; sm_107a has",
        )


def _split(spec: KernelSpec, s: Tcgen05Schedule) -> Iterator[Violation]:
    if isinstance(s, Tcgen05WsSplit) and spec.target != "sm_107a":
        yield Violation(
            ("schedule", "kind"),
            f"{spec.target} cannot tell when A alone has been read, so a ring of its own would "
            "gain nothing; use tcgen05_ws",
        )
