"""The launcher's answers. One list serves the C enum, its strings, and the Python launcher.

Source of the 16-byte rules: CUDA driver API, cuTensorMapEncodeTiled (base address and strides).
"""

from __future__ import annotations

from collections.abc import Iterator

from kgen.dtypes import DType
from kgen.plan.launch import ScaleArray, ScaleMap
from kgen.plan.model import Status, TensorMap

WORKSPACE = "workspace is null, or not aligned to 16 bytes, where workspace_bytes is not 0"


def statuses(
    inputs: tuple[TensorMap, ...],
    output: DType,
    extent_limit: int,
    scales: tuple[ScaleMap, ...] = (),
    *,
    scale_arrays: tuple[ScaleArray, ...] = (),
    workspace: bool = False,
) -> tuple[Status, ...]:
    """Every status in the order of the checks, which is the order of their values."""
    rows = [("ok", "success"), *_extents(extent_limit)]
    for row in inputs:
        rows += _input(row)
    if scales:
        what = f"k must be a multiple of {scales[0].whole}, four scales"
        rows.append(("k_not_whole_scales", what))
    for scale in scales:
        name = scale.pointer
        rows.append((f"{name}_null", f"{name} is null"))
        rows.append((f"{name}_unaligned", f"{name} must be 16-byte aligned (TMA base address)"))
    for name in (array.pointer for array in scale_arrays):
        rows.append((f"{name}_null", f"{name} is null"))
        rows.append((f"{name}_unaligned", f"{name} must be 4-byte aligned (f32)"))
    rows += [
        ("d_null", "d is null"),
        ("d_unaligned", f"d must be aligned to its element, {output.bytes} bytes"),
        ("ldd_too_small", "ldd must be at least n"),
        *([("workspace_unusable", WORKSPACE)] * workspace),
        ("d_not_on_device", "d must be device memory: it decides the device of the launch"),
        ("wrong_device", "the device cannot run the target of this kernel"),
        ("driver_too_old", "the driver is older than the CUDA runtime or cuTensorMapEncodeTiled"),
        ("tensor_map_refused", "cuTensorMapEncodeTiled refused a tensor map"),
        ("cuda_error", "a CUDA call failed"),
    ]
    return tuple(Status(value, name, text) for value, (name, text) in enumerate(rows))


def _extents(limit: int) -> Iterator[tuple[str, str]]:
    for extent in ("m", "n", "k"):
        yield f"{extent}_out_of_range", f"{extent} must be 0 to {limit}"
    yield "too_many_tiles", "D has more tiles than one grid can hold"


def _input(row: TensorMap) -> Iterator[tuple[str, str]]:
    yield f"{row.pointer}_null", f"{row.pointer} is null"
    yield f"{row.pointer}_unaligned", f"{row.pointer} must be 16-byte aligned (TMA base address)"
    yield f"{row.ld}_too_small", f"{row.ld} must be at least {row.inner}, the contiguous extent"
    yield (
        f"{row.ld}_unaligned",
        f"{row.ld} must be a multiple of {row.multiple} elements, 16 bytes (TMA stride)",
    )
    yield f"{row.ld}_too_large", f"{row.ld} must stay below 2^40 bytes (TMA stride)"
