"""Launching from Python in the oversized shared-memory mode, with a driver that only records.

No such device is here; the C launcher takes the same steps, and the names are those of 13.5.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_driver import FakeDriver, LoadedFunction, install_cupy, install_driver

from kgen.errors import DeviceError
from kgen.paths import data_folder
from kgen.plan import KernelPlan, lower
from kgen.run import Arguments, Kernel
from kgen.spec import load_spec

RUBIN = data_folder("specs") / "rubin"
X = Arguments(
    0x10000, 0x20000, 0x30000, 1024, 512, 256, 256, 256, 512, sfa=0x40000, sfb=0x50000, alpha=0.5
)


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> LoadedFunction:
    """The function that the stand-in for cupy loads, on a device of Rubin's kind."""
    return install_cupy(monkeypatch, "107")[1]


def plan_of(name: str, **changes) -> KernelPlan:
    loaded = load_spec(RUBIN / f"{name}.yaml")
    schedule = loaded.spec.schedule.model_copy(update=changes)
    spec = loaded.spec.model_copy(update={"schedule": schedule})
    return lower(replace(loaded, spec=spec))


@pytest.mark.parametrize(("pdl", "ids"), [(False, [18]), (True, [6, 18])])
def test_function_and_launch_ask_for_the_mode(monkeypatch, function, pdl, ids):
    driver, plan = install_driver(monkeypatch), plan_of("nvfp4_5_collector", pdl=pdl)
    assert plan.is_oversized and plan.smem_bytes == 320512
    kernel = Kernel(plan, Path("none.cubin"))
    assert driver.named("cuDeviceGetAttribute") == [(150, 0)]
    assert driver.named("cuFuncSetAttribute") == [(0x77, 17, 3)]
    assert function.max_dynamic_shared_size_bytes == 0, (
        "it ends at 227 KiB, and the mode ignores it"
    )
    ((_, config),) = driver.named("cuOccupancyMaxActiveClusters")
    assert [(x.id, x.value.sharedMemoryMode) for x in config.attrs] == [(18, 3)]
    assert (kernel.resident, config.sharedMemBytes) == (7, 320512)
    kernel.prepare(X)()
    ((config, launched, _, _),) = driver.named("cuLaunchKernelEx")
    assert [x.id for x in config.attrs] == ids and config.numAttrs == len(ids)
    assert config.attrs[-1].value.sharedMemoryMode == 3
    # Two tiles of 512 x 256 down, two across: four clusters of two CTAs, of seven that fit.
    assert (config.gridDimX, config.blockDimX) == (8, plan.threads)
    assert (config.sharedMemBytes, launched, config.hStream) == (320512, 0x77, 0x99)
    assert not function.launches


def test_a_kernel_that_fits_asks_for_nothing(monkeypatch, function):
    driver, plan = install_driver(monkeypatch), plan_of("nvfp4_3_2x1")
    Kernel(plan, Path("none.cubin")).prepare(X)()
    assert function.max_dynamic_shared_size_bytes == plan.smem_bytes < 232448
    assert not driver.named("cuFuncSetAttribute") and not driver.named("cuLaunchKernelEx")
    ((grid, _, shared),) = function.launches
    assert (grid, shared) == ((8,), plan.smem_bytes)


def test_a_device_that_holds_no_cluster_is_refused(monkeypatch, function):
    """A part of a GPU. Without it the first launch would divide by the number of clusters."""
    install_driver(monkeypatch, clusters=0)
    with pytest.raises(DeviceError, match="holds no cluster of 2 CTAs; fix: run it on a whole GPU"):
        Kernel(plan_of("nvfp4_3_2x1"), Path("none.cubin"))


def test_an_empty_problem_launches_nothing(monkeypatch, function):
    driver = install_driver(monkeypatch)
    Kernel(plan_of("nvfp4_5_collector"), Path("none.cubin")).prepare(replace(X, m=0))()
    assert not driver.named("cuLaunchKernelEx") and not function.launches


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"version": 13030}, "needs the oversized shared memory of CUDA 13.4; the driver offers "
         "CUDA 13.3"),
        ({"old": True}, "which the installed cuda-bindings do not know; fix: pip install "
         "'cuda-bindings>=13.4'"),
        ({"oversized_bytes": 320511}, "needs 320512 bytes of shared memory; the device gives a CTA "
         "320511 at most"),
    ],
)  # fmt: skip
def test_what_is_too_old_or_too_small_is_said(monkeypatch, function, facts, what):
    install_driver(monkeypatch, **facts)
    with pytest.raises(DeviceError) as caught:
        Kernel(plan_of("nvfp4_5_collector"), Path("none.cubin"))
    assert what in str(caught.value)


@pytest.mark.parametrize("call", ["cuFuncSetAttribute", "cuLaunchKernelEx"])
def test_a_refusal_of_the_driver_is_named(monkeypatch, function, call):
    install_driver(monkeypatch).refuses.add(call)
    with pytest.raises(DeviceError, match=f"{call}: CUDA_ERROR_INVALID_VALUE"):
        Kernel(plan_of("nvfp4_5_collector"), Path("none.cubin")).prepare(X)()


def test_the_names_are_those_of_cuda_bindings():
    """Where the real ones are installed, and new enough."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    if not hasattr(driver, "CUsharedMemoryMode"):
        pytest.skip("these cuda-bindings are older than 13.4: no oversized mode")
    fake = FakeDriver()
    for names in ("CUlaunchAttributeID", "CUfunction_attribute", "CUdevice_attribute"):
        for name, value in vars(getattr(fake, names)).items():
            assert int(getattr(getattr(driver, names), name)) == value
    mode = driver.CUsharedMemoryMode.CU_SHARED_MEMORY_MODE_ALLOW_OVERSIZED_SHARED_MEMORY
    assert int(mode) == 3
