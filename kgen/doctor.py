"""What works on this machine and why not; every row is tried, none is assumed."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from kgen.errors import KgenError
from kgen.paths import data_folder


@dataclass(frozen=True)
class Row:
    """One ability of kgen on this machine."""

    what: str
    works: bool
    detail: str


def examine() -> list[Row]:
    """Try every ability once; none of them changes anything."""
    return [
        _try("render, check, explain", _render),
        _try("build (private compilers)", _toolchain),
        _try("verify --on emulator, emulate", _emulator),
        _try("build --emit so", _host_compiler),
        _try("verify and bench on a GPU", _gpu),
        _try("reference and cuBLAS by torch", _torch),
        _try("clocks and power (NVML)", _nvml),
        _try("system CUDA toolkit (--toolchain system only)", _system_toolkit),
    ]


def _try(what: str, probe: Callable[[], str]) -> Row:
    try:
        return Row(what, True, probe())
    except (KgenError, ImportError, OSError) as error:
        return Row(what, False, str(error).split("\n", 1)[0])


def _render() -> str:
    from kgen.api import load_spec, lower, render

    spec = data_folder("specs") / "hopper" / "v6.yaml"
    return f"{spec.name} renders, source {render(lower(load_spec(spec))).digest}"


def _toolchain() -> str:
    from kgen.build import toolchain

    status = toolchain.status()
    if status.state != "installed":
        raise KgenError(f"{status.problem}; run: {toolchain.INSTALL_COMMAND}")
    return f"{status.release} in {status.home}"


def _emulator() -> str:
    from kgen.emu import Launch, emulate

    ptx = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry probe()\n{\n    ret;\n}\n"
    )
    report = emulate(ptx, Launch("probe", (1, 1, 1), (32, 1, 1)), ("early",))
    if report.verdict != "clean":
        raise KgenError(f"a kernel that only returns is {report.verdict}")
    return "runs PTX; a .cu or a spec also needs the private compilers"


def _host_compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise KgenError("no g++ or clang++ on PATH")
    return found


def _gpu() -> str:
    from kgen.run.driver import import_driver
    from kgen.run.launch import import_cupy

    cupy = import_cupy()
    import_driver()
    device = cupy.cuda.Device()
    name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    return f"{name}, compute capability {device.compute_capability}, cupy {cupy.__version__}"


def _torch() -> str:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise KgenError(f"torch {torch.__version__} has no GPU; it serves as CPU reference")
    return f"torch {torch.__version__}"


def _nvml() -> str:
    pynvml = importlib.import_module("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise KgenError(f"NVML: {error}") from error
    try:
        return f"driver {pynvml.nvmlSystemGetDriverVersion()}"
    finally:
        pynvml.nvmlShutdown()


def _system_toolkit() -> str:
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    found = next((p for p in places if p), None) or shutil.which("nvcc")
    if found is None:
        raise KgenError("none named by CUDA_HOME, CUDA_PATH or PATH; nothing needs one")
    return f"{found}; not used unless asked for"
