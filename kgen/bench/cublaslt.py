"""cuBLASLt's own choice of kernels: every candidate that its heuristic names, ready to be launched.

Called through ctypes in the library that torch has loaded, so it is the very cuBLAS that torch.mm
runs. Source  cuBLAS documentation 13.0, "Using the cuBLASLt API"; the numbers are those of
cublasLt.h, cublas_api.h and library_types.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kgen.errors import DeviceError
from kgen.verify.numbers import Numerics

WORKSPACE_BYTES = 256 << 20  # more than any candidate seen asks for
_SUCCESS = 0
_DATA_TYPES = {
    "f32": 0,
    "tf32": 0,
    "f16": 2,
    "s8": 3,
    "s32": 10,
    "bf16": 14,
    "e4m3": 28,
    "e5m2": 29,
}
_COMPUTE_F16, _COMPUTE_F32, _COMPUTE_S32, _COMPUTE_TF32 = 64, 68, 72, 77
_TRANSPOSE_A, _TRANSPOSE_B, _FAST_ACCUMULATION = 3, 4, 25  # attributes of a product
_MAX_WORKSPACE = 1  # attribute of a preference
_PLAIN, _TRANSPOSED = 0, 1


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    )


@dataclass(frozen=True)
class Stored:
    """A matrix as cuBLAS sees memory, column by column. turned: these are the rows of the caller's
    matrix.
    """

    rows: int
    cols: int
    ld: int
    turned: bool


def stored(view: Any) -> Stored:
    """How a (rows, cols) view lies in memory: one of its two axes is contiguous.

    Raises  DeviceError if neither is
    """
    (rows, cols), item = view.shape, view.dtype.itemsize
    down, right = (stride // item for stride in view.strides)
    if right == 1 or cols == 1:
        return Stored(cols, rows, max(down, cols), True)
    if down == 1 or rows == 1:
        return Stored(rows, cols, max(right, rows), False)
    raise DeviceError(f"a view with strides {view.strides} is no matrix that cuBLASLt takes")


@cache
def _library() -> Any:
    """libcublasLt as torch loaded it. Raises DeviceError if it has not."""
    import torch

    if not torch.cuda.is_available():
        raise DeviceError("this torch runs on no GPU, so it brings no cuBLASLt")
    torch.cuda.current_blas_handle()  # loads it, and makes the context
    with open("/proc/self/maps") as maps:
        found = {line.split()[-1] for line in maps if "libcublasLt.so" in line}
    if not found:
        raise DeviceError("torch has loaded no libcublasLt")
    return ctypes.CDLL(min(found))


def _call(name: str, *arguments: Any) -> None:
    if status := getattr(_library(), name)(*arguments):
        raise DeviceError(f"{name}: status {status}")


def _created(name: str, *arguments: Any) -> c_void_p:
    """An object that lives as long as the process; there are few."""
    made = c_void_p()
    _call(name, byref(made), *arguments)
    return made


@cache
def _handle() -> c_void_p:
    return _created("cublasLtCreate")


@cache
def _workspace() -> Any:
    import cupy

    return cupy.empty(WORKSPACE_BYTES, dtype="uint8")


def version() -> str:
    """Of the library: 13.1.0. Raises DeviceError if torch has loaded none."""
    number = _library().cublasLtGetVersion
    number.restype = c_size_t
    major, rest = divmod(number(), 10000)
    return f"{major}.{rest // 100}.{rest % 100}"


class Product:
    """D[M,N] = A[M,K] @ B[N,K].T of one layout; cuBLAS computes its transpose, column by column.

    Raises  DeviceError with the call and the status that cuBLASLt answers
    """

    def __init__(self, numerics: Numerics, a: Any, b: Any, d: Any) -> None:
        """Shapes  a (M, K), b (N, K), d (M, N) cupy views with one contiguous axis"""
        compute, scale, self._one, self._zero = _arithmetic(numerics)
        self._product = _created("cublasLtMatmulDescCreate", c_int(compute), c_int(scale))
        first, second = stored(b), stored(a)
        self._set(_TRANSPOSE_A, ctypes.c_int32(_TRANSPOSED if first.turned else _PLAIN))
        self._set(_TRANSPOSE_B, ctypes.c_int32(_PLAIN if second.turned else _TRANSPOSED))
        if numerics.sums_fp8:
            self._set(_FAST_ACCUMULATION, ctypes.c_int8(1))
        formats = (numerics.b, numerics.a, numerics.output)
        layouts = zip((first, second, stored(d)), formats, strict=True)
        self._layouts = [_layout(matrix, name) for matrix, name in layouts]

    def _set(self, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        _call("cublasLtMatmulDescSetAttribute", self._product, attribute, byref(value), size)

    def candidates(self, count: int) -> list[Any]:
        """The first algorithms that the heuristic names, the likeliest first."""
        preference = _created("cublasLtMatmulPreferenceCreate")
        most = ctypes.c_uint64(WORKSPACE_BYTES)
        size = c_size_t(ctypes.sizeof(most))
        name = "cublasLtMatmulPreferenceSetAttribute"
        _call(name, preference, _MAX_WORKSPACE, byref(most), size)
        found, returned = (_Heuristic * count)(), c_int()
        first, second, out = self._layouts
        _call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(_handle(), self._product, first, second, out, out, preference),
            *(c_int(count), found, byref(returned)),
        )
        return [x for x in found[: returned.value] if x.state == _SUCCESS]

    def launcher(self, candidate: Any, a: Any, b: Any, d: Any) -> Callable[[], None]:
        """One launch on cupy's current stream, on matrices that lie as those of the constructor."""
        import cupy

        first, second, out = self._layouts
        where = [c_void_p(x.data.ptr) for x in (b, a, d)]
        arguments = (
            *(_handle(), self._product, byref(self._one), where[0], first, where[1], second),
            *(byref(self._zero), where[2], out, where[2], out, byref(candidate)),
            *(c_void_p(_workspace().data.ptr), c_size_t(WORKSPACE_BYTES)),
            c_void_p(cupy.cuda.get_current_stream().ptr),
        )
        matmul = _library().cublasLtMatmul

        def launch() -> None:
            if status := matmul(*arguments):
                raise DeviceError(f"cublasLtMatmul: status {status}")

        return launch


def _layout(matrix: Stored, name: str) -> c_void_p:
    sizes = (ctypes.c_uint64(matrix.rows), ctypes.c_uint64(matrix.cols), ctypes.c_int64(matrix.ld))
    return _created("cublasLtMatrixLayoutCreate", c_int(_DATA_TYPES[name]), *sizes)


def _arithmetic(numerics: Numerics) -> tuple[int, int, Any, Any]:
    """Compute type, type of alpha and beta, 1 and 0 in it."""
    if numerics.accumulator == "f16":
        one = ctypes.c_uint16(int(np.float16(1).view("uint16")))
        return _COMPUTE_F16, _DATA_TYPES["f16"], one, ctypes.c_uint16(0)
    if numerics.accumulator == "s32":
        return _COMPUTE_S32, _DATA_TYPES["s32"], ctypes.c_int32(1), ctypes.c_int32(0)
    compute = _COMPUTE_TF32 if numerics.a == "tf32" else _COMPUTE_F32
    return compute, _DATA_TYPES["f32"], ctypes.c_float(1), ctypes.c_float(0)
