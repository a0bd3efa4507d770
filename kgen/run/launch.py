"""Launches a kernel's device code from Python: cupy loads it, the driver API encodes its maps.

The tensor maps come from the plan's own table, the one that the C launcher is rendered from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgen.errors import DeviceError, LaunchError
from kgen.plan import KernelPlan, TensorMap
from kgen.run.arguments import Arguments, grid_tiles, problem_record, require_ok, stores_by_tma

MAP_BYTES = 128
ZERO_MAP = np.void(bytes(MAP_BYTES))


def import_cupy() -> Any:
    """cupy with a device. Raises DeviceError, saying which half is missing."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"cupy is not installed ({error}); pip install cupy-cuda13x cuda-bindings torch"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no usable GPU: {error}") from error
    if count == 0:
        raise DeviceError("no GPU is visible")
    return cupy


def require_device(plan: KernelPlan) -> Any:
    """cupy, with a current device of the plan's target. Raises DeviceError saying what is there."""
    cupy = import_cupy()
    device = cupy.cuda.Device()
    needed = "".join(map(str, plan.compute_capability))
    if device.compute_capability != needed:
        name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        raise DeviceError(
            f"{plan.target} runs on compute capability {needed} ({plan.devices}) only; "
            f"device {device.id} is {name}, {device.compute_capability}"
        )
    return cupy


def import_driver() -> Any:
    """The driver API of cuda-bindings. Raises DeviceError when it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(f"cuda-bindings is not installed ({error})") from error
    return driver


def encode_map(row: TensorMap, x: Arguments) -> np.void:
    """The 128 bytes of one CUtensorMap. Raises LaunchError with the driver's code if it refuses."""
    driver = import_driver()
    inner, outer = getattr(x, row.inner), getattr(x, row.outer)
    stride = getattr(x, row.ld) * row.dtype.bytes if outer > 1 else 16
    kinds = driver.CUtensorMapDataType
    error, encoded = driver.cuTensorMapEncodeTiled(
        getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{row.dtype.tensor_map}"),
        2,
        getattr(x, row.pointer),
        [driver.cuuint64_t(inner), driver.cuuint64_t(outer)],
        [driver.cuuint64_t(stride)],
        [driver.cuuint32_t(extent) for extent in row.box],
        [driver.cuuint32_t(1)] * 2,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{row.swizzle_bytes}B"),
        getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{row.promotion_name}"),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(error):
        what = f"cuTensorMapEncodeTiled refused the map of {row.operand}: {error.name}"
        raise LaunchError(what, "tensor_map_refused")
    return np.void(ctypes.string_at(int(encoded.getPtr()), MAP_BYTES))


@dataclass(frozen=True)
class Launch:
    """One prepared launch; calling it enqueues the kernel on cupy's current stream."""

    function: Any
    grid: int
    threads: int
    smem_bytes: int
    arguments: tuple[Any, ...]

    def __call__(self) -> None:
        """Enqueue once; an empty problem enqueues nothing."""
        if self.grid:
            self.function((self.grid,), (self.threads,), self.arguments, shared_mem=self.smem_bytes)


class Kernel:
    """A cubin loaded on the current device."""

    def __init__(self, plan: KernelPlan, cubin: Path) -> None:
        """Raises DeviceError when the current device cannot run the plan's target."""
        cupy = require_device(plan)
        self.plan = plan
        self._function = cupy.RawModule(path=str(cubin)).get_function(plan.name)
        self._function.max_dynamic_shared_size_bytes = plan.smem_bytes

    @property
    def registers(self) -> int:
        """Registers per thread of the loaded code."""
        return self._function.num_regs

    def prepare(self, x: Arguments) -> Launch:
        """Check the arguments, encode the maps. Raises LaunchError where the C launcher refuses."""
        plan = self.plan
        require_ok(plan, x)
        if x.is_empty:
            return Launch(self._function, 0, plan.threads, plan.smem_bytes, ())
        maps = [encode_map(row, x) if x.k else ZERO_MAP for row in plan.input_maps]
        if plan.map_d:
            maps.append(encode_map(plan.map_d, x) if stores_by_tma(plan, x) else ZERO_MAP)
        arguments = (*maps, problem_record(plan, x))
        return Launch(self._function, grid_tiles(plan, x), plan.threads, plan.smem_bytes, arguments)


class SharedLibrary:
    """The C launcher of a kernel, built as a shared library and called through ctypes."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._library = ctypes.CDLL(str(path))
        self._launch: Callable[..., int] = self._symbol("launch", ctypes.c_int)
        wide = ctypes.c_int64
        pointers = [ctypes.c_void_p] * 3
        self._launch.argtypes = [*pointers, *[wide] * 6, ctypes.c_void_p, ctypes.c_void_p]  # type: ignore[attr-defined]

    def _symbol(self, suffix: str, result: Any) -> Any:
        function = getattr(self._library, f"{self._name}_{suffix}")
        function.restype = result
        return function

    def init(self) -> int:
        """Status of `<name>_init` for the current device."""
        return self._symbol("init", ctypes.c_int)()

    def workspace_bytes(self, m: int, n: int, k: int) -> int:
        """Device memory a launch needs beside its operands."""
        wide = ctypes.c_int64
        return self._symbol("workspace_bytes", ctypes.c_size_t)(wide(m), wide(n), wide(k))

    def launch(self, x: Arguments, stream: int = 0) -> int:
        """Status of `<name>_launch`."""
        return self._launch(x.a, x.b, x.d, x.m, x.n, x.k, x.lda, x.ldb, x.ldd, None, stream or None)

    def status_string(self, status: int) -> str:
        """What a status means."""
        return self._symbol("status_string", ctypes.c_char_p)(status).decode()

    def last_error(self) -> int:
        """The CUDA error behind the last failed call of this thread."""
        return self._symbol("last_error", ctypes.c_int)()
