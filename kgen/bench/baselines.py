"""What a user of torch would call instead, on the candidate's own buffers: cuBLAS through torch.mm,
torch._scaled_mm (fp8) and torch._int_mm (s8). Imports torch only when called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kgen.errors import DeviceError, KgenError
from kgen.verify.numbers import FP8, Numerics

TUNED = "cuBLASLt, best candidate"  # what kgen.bench.tuned finds
Launcher = Callable[[], None]
Formats = tuple[str, str, str]

# Raw storage has no bf16 and no fp8; torch sees those bits as its own type. tf32 is f32 to it, and
# a switch says that it may be rounded.
_VIEWS = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "s32": "int32",
}


@dataclass(frozen=True)
class Baseline:
    """One way to compute the product with torch.

    output  format of D that it writes
    note  what it computes, for the like-for-like column
    launcher  of a (M, K), b (N, K), d (M, N), raw storage, their formats and, where there are block
              scales, those of a and of b
    """

    name: str
    output: str
    note: str
    launcher: Callable[..., Launcher]


def computes(numerics: Numerics) -> str:
    """The like-for-like note of a kernel."""
    if numerics.block_k:
        return f"f32 sums of scaled blocks of {numerics.block_k}, {numerics.output} output"
    fast = "fast " if numerics.sums_fp8 else ""
    return f"{fast}{numerics.accumulator} accumulation, {numerics.output} output"


def baselines_of(numerics: Numerics) -> tuple[Baseline, ...]:
    """Every baseline that computes a kernel's product from its operands.

    torch.mm writes the operands' type, whatever the kernel's D; the others write the kernel's.
    Raises KgenError for scales of tcgen05, for which there is none
    """
    if numerics.block_k:
        name = "torch._scaled_mm, block scales"
        return (Baseline(name, numerics.output, computes(numerics), torch_block_scaled_mm),)
    if numerics.scaling:
        raise KgenError(
            "scales of tcgen05 have no baseline to be timed against; "
            "kgen verify --on gpu judges them"
        )
    if numerics.a in FP8:
        return (
            Baseline(
                "torch._scaled_mm, fast accumulation",
                numerics.output,
                f"fast f32 accumulation, {numerics.output} output",
                torch_scaled_mm,
            ),
        )
    if numerics.a == "s8":
        return (Baseline("torch._int_mm", "s32", "s32 accumulation, s32 output", torch_int_mm),)
    if numerics.a == "tf32":
        note = "f32 accumulation, f32 output"
        return (Baseline("torch.mm, TF32 allowed", "f32", note, torch_mm_tf32),)
    note = f"f32 accumulation, {numerics.a} output"
    rows = [Baseline("torch.mm", numerics.a, note, torch_mm)]
    if numerics.a == "f16":
        note = "f16 accumulation, f16 output"
        rows.append(Baseline("torch.mm, f16 accumulation", "f16", note, torch_mm_f16))
    return tuple(rows)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            "the baseline needs torch; fix: pip install cupy-cuda13x cuda-bindings torch"
        ) from error
    return torch


def as_tensor(array: Any, name: str) -> Any:
    """Raw storage as a torch tensor of format `name`, sharing its memory.

    Raises  KgenError for a format without a torch type here
    """
    torch = _torch()
    if name not in _VIEWS:
        raise KgenError(f"no torch type for {name!r}; known: {', '.join(_VIEWS)}")
    return torch.from_dlpack(array).view(getattr(torch, _VIEWS[name]))


def _tensors(a: Any, b: Any, d: Any, formats: Formats) -> tuple[Any, Any, Any]:
    """a, b.T and d."""
    left, right, out = (as_tensor(x, name) for x, name in zip((a, b, d), formats, strict=True))
    return left, right.T, out


def torch_mm(a: Any, b: Any, d: Any, formats: Formats) -> Launcher:
    """A launcher of d = a @ b.T through torch.mm.

    Shapes  a (M, K), b (N, K), d (M, N) raw storage, cupy or numpy; formats: names of a, b and d
    """
    torch = _torch()
    left, turned, out = _tensors(a, b, d, formats)
    return lambda: torch.mm(left, turned, out=out)


def _switched(launch: Launcher, switch: str) -> Launcher:
    """`launch` with a global switch of torch's products on; each launch sets and restores it."""
    switches = _torch().backends.cuda.matmul

    def switched() -> None:
        before = getattr(switches, switch)
        setattr(switches, switch, True)
        try:
            launch()
        finally:
            setattr(switches, switch, before)

    return switched


def torch_mm_f16(a: Any, b: Any, d: Any, formats: Formats) -> Launcher:
    """torch.mm, where cuBLAS may accumulate in f16."""
    return _switched(torch_mm(a, b, d, formats), "allow_fp16_accumulation")


def torch_mm_tf32(a: Any, b: Any, d: Any, formats: Formats) -> Launcher:
    """torch.mm of f32, where cuBLAS may round the operands to tf32."""
    return _switched(torch_mm(a, b, d, formats), "allow_tf32")


def torch_int_mm(a: Any, b: Any, d: Any, formats: Formats) -> Launcher:
    """torch._int_mm: s8 operands, s32 sums. It asks for M > 16 and K, N in multiples of 8."""
    torch = _torch()
    left, turned, out = _tensors(a, b, d, formats)
    return lambda: torch._int_mm(left, turned, out=out)


def torch_scaled_mm(a: Any, b: Any, d: Any, formats: Formats) -> Launcher:
    """torch._scaled_mm with fast accumulation and scales of 1. On a GPU it asks for K and N in
    multiples of 16, and not for e5m2 twice.
    """
    torch = _torch()
    left, turned, out = _tensors(a, b, d, formats)
    one = torch.ones((), device=left.device)
    options = {"out_dtype": out.dtype, "use_fast_accum": True, "out": out}
    return lambda: torch._scaled_mm(left, turned, scale_a=one, scale_b=one, **options)


def torch_block_scaled_mm(a: Any, b: Any, d: Any, formats: Formats, sfa: Any, sfb: Any) -> Launcher:
    """torch._scaled_mm with f32 scales of 1 x 128 elements of A and 128 x 128 of B, for which
    cuBLASLt promotes its sums, too. It asks for K in multiples of four blocks.

    Shapes  sfa (ceil(K / 128), M), sfb (ceil(N / 128), ceil(K / 128)), both f32
    """
    torch = _torch()
    left, turned, out = _tensors(a, b, d, formats)
    scale_a, scale_b = (as_tensor(x, "f32").T for x in (sfa, sfb))
    options = {"out_dtype": out.dtype, "use_fast_accum": False, "out": out}
    return lambda: torch._scaled_mm(left, turned, scale_a=scale_a, scale_b=scale_b, **options)
