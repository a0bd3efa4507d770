"""What a launch asks of the driver beyond grid, block and memory, as the C launcher does.

That is the attributes of its plan, and the oversized shared-memory mode of the function.
"""

from __future__ import annotations

from typing import Any

from kgen.errors import DeviceError
from kgen.plan import KernelPlan
from kgen.run.driver import checked, import_driver


def launch_attributes(plan: KernelPlan) -> list[Any]:
    """The driver's CUlaunchAttribute rows of a plan, in the order of `plan.launch_attributes`.

    Raises DeviceError where cuda-bindings is older than an attribute
    """
    driver, rows = import_driver(), []
    if plan.pdl:
        row = driver.CUlaunchAttribute()
        row.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        row.value.programmaticStreamSerializationAllowed = 1
        rows.append(row)
    return rows + memory_attributes(plan)


def memory_attributes(plan: KernelPlan) -> list[Any]:
    """Those of them that decide how many CTAs an SM holds."""
    if not plan.is_oversized:
        return []
    driver = import_driver()
    row = driver.CUlaunchAttribute()
    row.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE
    row.value.sharedMemoryMode = _oversized_mode(plan)
    return [row]


def _oversized_mode(plan: KernelPlan) -> Any:
    """The mode's enumerator. Raises DeviceError where cuda-bindings do not know it."""
    driver = import_driver()
    try:
        return driver.CUsharedMemoryMode.CU_SHARED_MEMORY_MODE_ALLOW_OVERSIZED_SHARED_MEMORY
    except AttributeError as error:
        needed = _version(plan)
        raise DeviceError(
            f"{plan.name} needs {plan.smem_bytes} bytes of shared memory, the oversized mode of "
            f"CUDA {needed}, which the installed cuda-bindings do not know; "
            f"fix: pip install 'cuda-bindings>={needed}'"
        ) from error


def _version(plan: KernelPlan) -> str:
    return ".".join(map(str, plan.budget.arch.oversized_minimum_cuda))


def allow_oversized(plan: KernelPlan, function: Any) -> None:
    """Let a loaded function have more than 227 KiB of shared memory, for which L1 shrinks.

    Sets the mode of the function, which profilers honour; a launch gives it once more. The limit on
    dynamic shared memory is ignored in this mode, and cannot reach so far.
    Raises  DeviceError where the driver or cuda-bindings are too old, or the device offers less
    Source  CUDA 13.5 headers; the same steps as templates/host/oversized.j2
    """
    driver = import_driver()
    mode = _oversized_mode(plan)
    major, minor = plan.budget.arch.oversized_minimum_cuda
    version = checked(driver.cuDriverGetVersion(), "cuDriverGetVersion")
    if version < 1000 * major + 10 * minor:
        raise DeviceError(
            f"{plan.name} needs the oversized shared memory of CUDA {_version(plan)}; the driver "
            f"offers CUDA {version // 1000}.{version % 1000 // 10}"
        )
    device = checked(driver.cuCtxGetDevice(), "cuCtxGetDevice")
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_OVERSIZED_SHARED_MEMORY_PER_BLOCK
    largest = checked(driver.cuDeviceGetAttribute(attribute, device), "cuDeviceGetAttribute")
    if largest < plan.smem_bytes:
        raise DeviceError(
            f"{plan.name} needs {plan.smem_bytes} bytes of shared memory; the device gives a CTA "
            f"{largest} at most"
        )
    kind = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE
    checked(driver.cuFuncSetAttribute(function, kind, int(mode)), "cuFuncSetAttribute")
