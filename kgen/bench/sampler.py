"""Clocks and power of one GPU through NVML, if it is there. Changes no setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Source: NVML API, nvmlClocksEventReasons; idle and applications-clocks reasons do not slow a
# running kernel.
THROTTLE_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Sample:
    """State of the GPU at one moment. Units MHz, W, degrees Celsius."""

    sm_mhz: float
    memory_mhz: float
    power_w: float
    temperature_c: float
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sampler:
    """A function that reads the GPU, or the reason why there is none."""

    read: Callable[[], Sample | None] = field(default=lambda: None)
    missing: str = ""


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the reasons in an NVML bit mask that slow a kernel down."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit)


def _reader(nvml: Any, handle: Any) -> Callable[[], Sample]:
    def read() -> Sample:
        return Sample(
            float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            throttle_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        )

    return read


def nvml_sampler(pci_bus_id: str) -> Sampler:
    """The GPU at a PCI address, e.g. "0000:18:00.0". An index would miss CUDA_VISIBLE_DEVICES.

    Never raises: without NVML the result says why, and the measurement goes on without clocks.
    """
    try:
        import pynvml as nvml  # pyright: ignore[reportMissingImports]
    except ImportError:
        return Sampler(missing="clocks and power were not read: nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
        read = _reader(nvml, nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
        read()
    except nvml.NVMLError as error:
        return Sampler(missing=f"clocks and power were not read: NVML says {error}")
    return Sampler(read)
