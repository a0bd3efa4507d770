"""What the plans of all wgmma schedules say in the same words."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import ProblemField, TensorMap
from kgen.spec import KernelSpec


def problem_text(spec: KernelSpec, tile: tuple[int, int, int]) -> str:
    """The problem in one line."""
    gemm = spec.gemm
    return (
        f"D[M,N] {gemm.d.dtype} = A[M,K] {gemm.a.dtype} @ B[N,K].T {gemm.b.dtype}, "
        f"{gemm.accumulator} accumulation. CTA tile {' x '.join(map(str, tile))}."
    )


def interface(spec: KernelSpec, maps: tuple[TensorMap, ...], extent_limit: int) -> tuple[str, ...]:
    """What a caller must know; the header comment and the .h carry it."""
    a = "A[M,K]" if spec.gemm.a.major == "k" else "A as [K,M]"
    b = "B[N,K]" if spec.gemm.b.major == "k" else "B as [K,N]"
    rows = [
        f"{a}, {b}, D[M,N] row-major; D overlaps neither. Leading dimensions in elements.",
        f"M, N, K from 0 to {extent_limit}, at most 2^31 - 1 tiles.",
        f"a, b: 16-byte aligned; lda, ldb: multiples of {maps[0].multiple}, below 2^40 bytes.",
        "d: aligned to its element. Where d is 16-byte aligned and N and ldd are multiples of "
        f"{maps[2].multiple},",
        "TMA stores D; elsewhere the consumers store it element by element, which is slower.",
    ]
    if spec.gemm.accumulator == "f16":
        rows.append(
            "f16 accumulation: partial sums overflow at 65504 and lose increments below 1 "
            "from 2048 on."
        )
    return tuple(rows)


def count(name: str, value: str, note: str) -> ProblemField:
    """A member of Problem that counts something."""
    return ProblemField("int", name, "i4", f"static_cast<int>({value})", note)


def output_fields(spec: KernelSpec) -> tuple[ProblemField, ...]:
    """Where D lies and how large it is."""
    pointer = f"{dtype(spec.gemm.d.dtype).storage}*"
    return (
        ProblemField(pointer, "d", "u8", f"static_cast<{pointer}>(d)", "D, row-major"),
        ProblemField("int64_t", "ldd", "i8", "ldd", "elements from one row of D to the next"),
        count("m", "m", "rows of D"),
        count("n", "n", "columns of D"),
    )


TMA_STORE = ProblemField(
    "int", "tma_store", "i4", "tma_store", "rows of D start and end on 16 bytes: TMA stores it"
)


def pack_wrapper(b: Budget) -> str | None:
    """The wrapper that rounds two f32 accumulators to D's type; None when D is the accumulator."""
    packs = {"f16": "pack_f16x2", "bf16": "pack_bf16x2"}
    gemm = b.spec.gemm
    return packs[gemm.d.dtype] if gemm.accumulator == "f32" else None
