"""A stand-in for the driver API of cuda-bindings: records calls, knows the names of one version.
Beside it, what cupy gives of a loaded kernel.

Names and values are those of cuda-bindings 13.5; `old` leaves out what 13.3 does not have.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from strict_cupy import strict_cupy


class _Struct:
    """A driver structure: any field may be set."""

    def __init__(self) -> None:
        self.value = SimpleNamespace()


class _Status(int):
    name = "CUDA_ERROR_INVALID_VALUE"


class FakeDriver:
    """The functions that kgen.run calls. `calls` holds their names and arguments."""

    def __init__(
        self,
        version: int = 13040,
        oversized_bytes: int = 334848,
        old: bool = False,
        clusters: int = 7,
    ):
        self.calls: list[tuple[Any, ...]] = []
        self.refuses: set[str] = set()
        self._version, self._oversized_bytes = version, oversized_bytes
        self._clusters = clusters
        self._maps: list[Any] = []
        self.CUlaunchConfig = self.CUlaunchAttribute = _Struct
        self.CUfunction = self.CUstream = self.cuuint32_t = self.cuuint64_t = int
        self.CUlaunchAttributeID = SimpleNamespace(
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6,
        )
        self.CUfunction_attribute = SimpleNamespace()
        self.CUdevice_attribute = SimpleNamespace()
        if not old:
            self.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE = 18
            self.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE = 17
            name = "CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK"
            setattr(self.CUdevice_attribute, name, 150)
            self.CUsharedMemoryMode = SimpleNamespace(
                CU_SHARED_MEMORY_MODE_ALLOW_OVERSIZED_SHARED_MEMORY=3
            )
        kinds = ("FLOAT16", "BFLOAT16", "FLOAT32", "TFLOAT32", "UINT8", "UINT16", "16U4_ALIGN8B")
        self.CUtensorMapDataType = _names("CU_TENSOR_MAP_DATA_TYPE_", *kinds)
        self.CUtensorMapInterleave = _names("CU_TENSOR_MAP_INTERLEAVE_", "NONE")
        self.CUtensorMapSwizzle = _names("CU_TENSOR_MAP_SWIZZLE_", "NONE", "128B")
        levels = ("NONE", "L2_64B", "L2_128B", "L2_256B")
        self.CUtensorMapL2promotion = _names("CU_TENSOR_MAP_L2_PROMOTION_", *levels)
        self.CUtensorMapFloatOOBfill = _names("CU_TENSOR_MAP_FLOAT_OOB_FILL_", "NONE")

    def __getattr__(self, name: str) -> Any:
        """A function of the driver: records the call and gives its status, then its value."""
        values = {
            "cuDriverGetVersion": lambda: self._version,
            "cuCtxGetDevice": lambda: 0,
            "cuDeviceGetAttribute": lambda: self._oversized_bytes,
            "cuOccupancyMaxActiveClusters": lambda: self._clusters,
            "cuTensorMapEncodeTiled": self._tensor_map,
            "cuFuncSetAttribute": None,
            "cuLaunchKernelEx": None,
        }
        if name not in values:
            raise AttributeError(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            status, value = _Status(name in self.refuses), values[name]
            return (status, value()) if value else (status,)

        return call

    def _tensor_map(self) -> SimpleNamespace:
        self._maps.append(ctypes.create_string_buffer(128))
        address = ctypes.addressof(self._maps[-1])
        return SimpleNamespace(getPtr=lambda: address)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of one function."""
        return [call[1:] for call in self.calls if call[0] == name]


def _names(prefix: str, *names: str) -> SimpleNamespace:
    return SimpleNamespace(**{prefix + name: name for name in names})


class LoadedFunction:
    """What cupy gives of a loaded kernel."""

    kernel = SimpleNamespace(ptr=0x77)
    num_regs = 128

    def __init__(self) -> None:
        self.max_dynamic_shared_size_bytes = 0
        self.launches: list[tuple[Any, ...]] = []

    def __call__(self, grid: Any, block: Any, arguments: Any, shared_mem: int) -> None:
        """A launch, which is only recorded."""
        self.launches.append((grid, block, shared_mem))


def install_driver(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> FakeDriver:
    """A driver in place of cuda-bindings'."""
    driver = FakeDriver(**facts)
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(bindings=None))
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))
    return driver


def install_cupy(monkeypatch: pytest.MonkeyPatch, capability: str) -> tuple[Any, LoadedFunction]:
    """The strict stand-in for cupy on a device of this kind, and the function that it loads."""
    found, cupy = LoadedFunction(), strict_cupy()
    device = SimpleNamespace(id=0, compute_capability=capability)
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        Device=lambda: device,
        runtime=runtime,
        get_current_stream=lambda: SimpleNamespace(ptr=0x99),
    )
    module = SimpleNamespace(get_function=lambda name: found)
    cupy.RawModule = lambda path: module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy, found
