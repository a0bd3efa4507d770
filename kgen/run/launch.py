"""Launches a kernel's device code from Python: cupy loads it, the driver API encodes its maps.

The tensor maps come from the plan's own table, the one that the C launcher is rendered from.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kgen.errors import DeviceError, LaunchError
from kgen.plan import KernelPlan, TensorMap
from kgen.plan.launch import ScaleMap
from kgen.run.arguments import (
    Arguments,
    problem_record,
    require_ok,
    require_workspace,
    stores_by_tma,
)
from kgen.run.attributes import allow_oversized, launch_attributes, memory_attributes
from kgen.run.driver import checked, import_driver
from kgen.run.grid import Grid, grid_of
from kgen.scales import TILE_BYTES, ScaleLayout

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


def encode_map(row: TensorMap, x: Arguments) -> np.void:
    """The 128 bytes of one CUtensorMap. Raises LaunchError with the driver's code if it refuses."""
    driver = import_driver()
    inner, outer = getattr(x, row.inner), getattr(x, row.outer)
    stride = row.dtype.bytes_of(getattr(x, row.ld)) if outer > 1 else 16
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


def encode_scale_map(row: ScaleMap, x: Arguments) -> np.void:
    """The 128 bytes of the map of one operand's block scales. Raises as `encode_map`."""
    driver = import_driver()
    layout = ScaleLayout(getattr(x, row.rows), x.k, row.block)
    extents = (TILE_BYTES // 2, layout.k_tiles, layout.row_tiles)
    strides = (TILE_BYTES, layout.k_tiles * TILE_BYTES)
    error, encoded = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        len(extents),
        getattr(x, row.pointer),
        [driver.cuuint64_t(extent) for extent in extents],
        [driver.cuuint64_t(stride) for stride in strides],
        [driver.cuuint32_t(extent) for extent in row.box],
        [driver.cuuint32_t(1)] * len(extents),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
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
    workspace: Any  # the memory behind the address in `arguments`, if not the caller's own

    def __call__(self) -> None:
        """Enqueue once; an empty problem enqueues nothing."""
        if self.grid:
            self.function((self.grid,), (self.threads,), self.arguments, shared_mem=self.smem_bytes)


@dataclass(frozen=True)
class AttributedLaunch(Launch):
    """A launch with attributes, which cupy's own launch cannot ask for."""

    attributes: tuple[Any, ...]  # CUlaunchAttribute

    def __call__(self) -> None:
        """Enqueue once. Raises DeviceError with the driver's code when it refuses."""
        if not self.grid:
            return
        import cupy

        config, function, pointers, _ = self._call
        driver = import_driver()
        config.hStream = driver.CUstream(cupy.cuda.get_current_stream().ptr)
        checked(driver.cuLaunchKernelEx(config, function, pointers, 0), "cuLaunchKernelEx")

    @cached_property
    def _call(self) -> tuple[Any, Any, int, Any]:
        """Configuration, function, address of the argument pointers, and what they point into."""
        config = launch_config(self.grid, self.threads, self.smem_bytes, self.attributes)
        buffers = [np.array(x) for x in self.arguments]
        pointers = np.array([x.ctypes.data for x in buffers], dtype=np.uint64)
        function = import_driver().CUfunction(self.function.kernel.ptr)
        return config, function, pointers.ctypes.data, (buffers, pointers)


def launch_config(grid: int, threads: int, smem_bytes: int, attributes: Sequence[Any]) -> Any:
    """The driver's launch configuration of a one-dimensional grid."""
    config = import_driver().CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = smem_bytes
    if attributes:
        config.attrs, config.numAttrs = list(attributes), len(attributes)
    return config


class Kernel:
    """A cubin loaded on the current device."""

    def __init__(self, plan: KernelPlan, cubin: Path) -> None:
        """Raises DeviceError when the current device cannot run the plan's target."""
        cupy = require_device(plan)
        self.plan = plan
        self._function = cupy.RawModule(path=str(cubin)).get_function(plan.name)
        if plan.is_oversized:
            allow_oversized(plan, import_driver().CUfunction(self._function.kernel.ptr))
        else:
            self._function.max_dynamic_shared_size_bytes = plan.smem_bytes
        self.resident = resident_clusters(plan, self._function) if plan.resident else None
        self._workspace: Any = None  # launches that were prepared with a smaller one keep that

    @property
    def registers(self) -> int:
        """Registers per thread of the loaded code."""
        return self._function.num_regs

    def grid(self, x: Arguments) -> Grid:
        """How this device runs a problem."""
        return grid_of(self.plan, x.m, x.n, x.k, self.resident)

    def prepare(self, x: Arguments) -> Launch:
        """Check the arguments, encode the maps. Raises LaunchError where the C launcher refuses.

        A workspace of the kernel's own is used where the arguments name none; it lives as long as
        kernel or launch. Launches that share it must follow each other on one stream.
        """
        plan = self.plan
        require_ok(plan, x)
        if x.is_empty:
            return Launch(self._function, 0, plan.threads, plan.smem_bytes, (), None)
        grid, workspace = self.grid(x), None
        if grid.workspace_bytes and not x.workspace:
            workspace = self._own_workspace(grid.workspace_bytes)
            x = replace(x, workspace=workspace.data.ptr)
        require_workspace(plan, x, grid)
        maps = [encode_map(row, x) if x.k else ZERO_MAP for row in plan.input_maps]
        maps += [encode_scale_map(row, x) if x.k else ZERO_MAP for row in plan.scale_maps]
        if plan.map_d:
            maps.append(encode_map(plan.map_d, x) if stores_by_tma(plan, x) else ZERO_MAP)
        arguments = (*maps, problem_record(plan, x, grid))
        fields = (self._function, grid.ctas, plan.threads, plan.smem_bytes, arguments, workspace)
        attributes = launch_attributes(plan)
        return AttributedLaunch(*fields, tuple(attributes)) if attributes else Launch(*fields)

    def _own_workspace(self, size: int) -> Any:
        """At least `size` bytes on the device, zero before their first use."""
        import cupy

        if self._workspace is None or self._workspace.nbytes < size:
            self._workspace = cupy.zeros(size, dtype=cupy.uint8)
        return self._workspace


def resident_clusters(plan: KernelPlan, function: Any) -> int:
    """Clusters of a kernel that the current device holds at a time."""
    import cupy

    if not plan.clustered:
        device = cupy.cuda.Device().id
        return cupy.cuda.runtime.getDeviceProperties(device)["multiProcessorCount"]
    driver = import_driver()
    size = plan.cluster[0] * plan.cluster[1]
    config = launch_config(size, plan.threads, plan.smem_bytes, memory_attributes(plan))
    answer = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(function.kernel.ptr), config)
    clusters = checked(answer, "cuOccupancyMaxActiveClusters")
    if clusters == 0:
        raise DeviceError(
            f"{plan.name}: the device holds no cluster of {size} CTAs; fix: run it on a whole GPU"
        )
    return clusters


class SharedLibrary:
    """The C launcher of a kernel, built as a shared library and called through ctypes."""

    def __init__(
        self, name: str, path: Path, *, scaled: bool = False, takes_alpha: bool = False
    ) -> None:
        """scaled and takes_alpha: the launch takes block scales, and a global one."""
        self._name = name
        self._scaled, self._takes_alpha = scaled, takes_alpha
        self._library = ctypes.CDLL(str(path))
        self._launch: Callable[..., int] = self._symbol("launch", ctypes.c_int)
        wide = ctypes.c_int64
        pointers = [ctypes.c_void_p] * (5 if scaled else 3)
        alpha = [ctypes.c_float] * takes_alpha
        types = [*pointers, *[wide] * 6, *alpha, ctypes.c_void_p, ctypes.c_void_p]
        self._launch.argtypes = types  # type: ignore[attr-defined]

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
        scales = (x.sfa, x.sfb) if self._scaled else ()
        alpha = (x.alpha,) if self._takes_alpha else ()
        sizes = (x.m, x.n, x.k, x.lda, x.ldb, x.ldd)
        workspace = x.workspace or None
        return self._launch(x.a, x.b, *scales, x.d, *sizes, *alpha, workspace, stream or None)

    def status_string(self, status: int) -> str:
        """What a status means."""
        return self._symbol("status_string", ctypes.c_char_p)(status).decode()

    def last_error(self) -> int:
        """The CUDA error behind the last failed call of this thread."""
        return self._symbol("last_error", ctypes.c_int)()
