"""The parts of a plan that do not depend on the schedule: identity, interface, arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgen.arch import ARCHS
from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.maps import scale_arrays, tensor_maps
from kgen.plan.model import BarrierInit, ProblemField, ScaleArray, TensorMap
from kgen.plan.status import statuses
from kgen.spec import KernelSpec, LoadedSpec


def common(
    loaded: LoadedSpec,
    b: Budget,
    template: str,
    *,
    cluster: tuple[int, int] = (1, 1),
    workspace: bool = False,
) -> dict[str, Any]:
    """Fields of KernelPlan that follow from the spec and the budget alone.

    cluster  CTAs along M and N; workspace  whether a launch may need one
    """
    spec, gemm, s = b.spec, b.spec.gemm, b.spec.schedule
    maps, scales = tensor_maps(b), scale_arrays(spec)
    d_type = dtype(gemm.d.dtype)
    # Row and column indices up to one cluster tile past the end must fit in 32 bits.
    extent_limit = 2**31 - 1 - 2 * max(s.tile.m * cluster[0], s.tile.n * cluster[1])
    return {
        "name": spec.name,
        "template": template,
        "spec_label": loaded.label,
        "spec_digest": loaded.digest,
        "target": spec.target,
        "arch_macro": b.arch.feature_macro,
        "devices": b.arch.devices,
        "compute_capability": b.arch.compute_capability,
        "minimum_cuda": b.arch.minimum_cuda,
        "problem": (
            f"D[M,N] {gemm.d.dtype} = A[M,K] {gemm.a.dtype} @ B[N,K].T {gemm.b.dtype}, "
            f"{gemm.accumulator} accumulation. CTA tile {s.tile.m} x {s.tile.n} x {s.tile.k}."
        ),
        "interface": _interface(spec, maps, scales, extent_limit),
        "budget": b,
        "maps": maps,
        "scale_arrays": scales,
        "statuses": statuses(
            maps[:2], d_type, extent_limit, scale_arrays=scales, workspace=workspace
        ),
        "extent_limit": extent_limit,
        "max_tiles": b.arch.grid_x,
        "max_stride": b.arch.tma_stride_limit,
        "threads": b.threads,
        "smem_bytes": b.smem.total,
        "tile": (s.tile.m, s.tile.n, s.tile.k),
        "stages": s.stages,
        "d_type": d_type,
        "raster_grouped": s.raster.group > 1,
        "raster_along_n": s.raster.along == "n",
    }


def _interface(
    spec: KernelSpec,
    maps: tuple[TensorMap, ...],
    scales: tuple[ScaleArray, ...],
    extent_limit: int,
) -> tuple[str, ...]:
    """What a caller must know; the header comment and the .h carry it."""
    a = "A[M,K]" if spec.gemm.a.major == "k" else "A as [K,M]"
    b = "B[N,K]" if spec.gemm.b.major == "k" else "B as [K,N]"
    rows = [
        f"{a}, {b}, D[M,N] row-major; D overlaps neither. Leading dimensions in elements.",
        f"M, N, K from 0 to {extent_limit}, at most 2^31 - 1 tiles.",
        f"a, b: 16-byte aligned; lda, ldb: multiples of {maps[0].multiple}, below 2^40 bytes.",
    ]
    if len(maps) > 2:
        rows += [
            "d: aligned to its element. Where d is 16-byte aligned and N and ldd are multiples of "
            f"{maps[2].multiple},",
            "TMA stores D; elsewhere the consumers store it element by element, which is slower.",
        ]
    else:
        rows += [
            "d: aligned to its element. D is stored from registers: two elements at a time where d",
            "is 4-byte aligned and ldd even, one at a time elsewhere, which is slower.",
        ]
    bits = ARCHS[spec.target].fp8_sum_bits
    if scales:
        return (*rows, *_scale_notes(scales, bits))
    keys = (f"{spec.gemm.accumulator} sums", spec.gemm.a.dtype)
    return (*rows, *(_NOTES[key].format(bits=bits) for key in keys if key in _NOTES))


def _scale_notes(scales: tuple[ScaleArray, ...], bits: int) -> Iterator[str]:
    """Where f32 scales lie, and what they do to the sums."""
    for x in scales:
        what = f"{x.pointer}: f32 {x.shape_text}, row-major, without padding, 4-byte aligned: "
        yield what + f"scales of {x.operand.upper()}."
    block = scales[0].rows[1]
    yield f"The tensor cores sum {block} elements of K at a time and keep {bits} bits of every sum;"
    yield "it is multiplied by both scales and added up in f32."


# What a caller must know of an accumulator or of an element type of A and B; bits: of fp8 sums.
_FP8_NOTE = (
    "Fast accumulation: a running sum keeps {bits} significant bits, and bits below are cut off."
)
TF32_NOTE = "A and B are f32 in memory; TMA rounds them to tf32 (10 fraction bits) to nearest."
_NOTES = {
    "f16 sums": (
        "f16 accumulation: partial sums overflow at 65504 and lose increments below 1 from 2048 on."
    ),
    "s32 sums": "s32 accumulation is exact; sums beyond 32 bits wrap.",
    "tf32": TF32_NOTE,
    "e4m3": _FP8_NOTE,
    "e5m2": _FP8_NOTE,
}


def grid_sentence(spec: KernelSpec) -> str:
    """How tiles become CTAs."""
    raster = spec.schedule.raster
    along = "tile columns" if raster.along == "n" else "tile rows"
    if raster.group > 1:
        return f"One CTA per tile on grid.x, in groups of {raster.group} {along}"
    return f"One CTA per tile on grid.x, along {'M' if raster.along == 'n' else 'N'} first"


def barrier_inits(b: Budget, counts: dict[str, tuple[str, str]]) -> tuple[BarrierInit, ...]:
    """The rows of mbarriers; `counts` holds count and arrivals of each, as names of constants."""
    return tuple(BarrierInit(x.name, *counts[x.name], arriver=x.arriver) for x in b.barriers)


def problem_fields(
    spec: KernelSpec,
    stores_by_tma: bool,
    tiles: tuple[str, str] = ("tiles(m, kTileM)", "tiles(n, kTileN)"),
    what: tuple[str, str] = ("tiles of kTileM", "tiles of kTileN"),
) -> tuple[ProblemField, ...]:
    """The members of `Problem`.

    tiles, what  along M and N: how the C launcher counts them, and for the reader
    """
    pointer = f"{dtype(spec.gemm.d.dtype).storage}*"

    def count(name: str, value: str, note: str) -> ProblemField:
        return ProblemField("int", name, "i4", f"static_cast<int>({value})", note)

    if stores_by_tma:
        note = "rows of D start and end on 16 bytes: TMA stores it"
        stores = ProblemField("int", "tma_store", "i4", "tma_store", note)
    else:
        note = "rows of D start on 4 bytes: elements are stored in pairs"
        stores = ProblemField("int", "pair_store", "i4", "pair_store", note)
    return (
        ProblemField(pointer, "d", "u8", f"static_cast<{pointer}>(d)", "D, row-major"),
        ProblemField("int64_t", "ldd", "i8", "ldd", "elements from one row of D to the next"),
        count("m", "m", "rows of D"),
        count("n", "n", "columns of D"),
        count("k_tiles", "tiles(k, kTileK)", "K in tiles of kTileK, rounded up"),
        count("tiles_m", tiles[0], f"M in {what[0]}, rounded up"),
        count("tiles_n", tiles[1], f"N in {what[1]}, rounded up"),
        stores,
    )
