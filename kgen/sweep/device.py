"""What runs inside the process that owns a GPU: check, time, and say what the GPU is."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kgen.bench.device import candidate_on, device_bench, gpu_facts
from kgen.bench.protocol import Bench, Contestant, Measurement, Settings, measure
from kgen.bench.results import Verified, timed, verified
from kgen.bench.sampler import Sampler
from kgen.bench.session import library_versions
from kgen.errors import DeviceError, KgenError, LaunchError
from kgen.run import Kernel
from kgen.run.launch import import_cupy
from kgen.sweep.benches import Size, bench_for, is_exact, make_room, with_tuned
from kgen.sweep.candidate import Job, Outcome
from kgen.verify.device import judge, verify_on_gpu
from kgen.verify.outcome import Report
from kgen.verify.problem import tile_of
from kgen.verify.shapes import derived_shapes


def facts() -> Outcome:
    """What the GPU of this process is, and what speed is measured against."""
    try:
        cupy = import_cupy()
        found = gpu_facts()
        import torch  # now, so that no kernel's time limit pays for it
    except ImportError as error:
        return Outcome("none", f"speed is measured against torch.mm: {error}")
    except DeviceError as error:
        return Outcome("none", str(error))
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    libraries = library_versions()
    found |= {
        "compute_capability": cupy.cuda.Device().compute_capability,
        "sm_mhz_max": properties["clockRate"] / 1e3,
        "memory_bytes": properties["totalGlobalMem"],
        # Two transfers a clock; both properties are the driver's.
        "memory_gb_s": 2 * properties["memoryClockRate"] * properties["memoryBusWidth"] / 8e6,
        "power_limit_w": _power_limit(found["pci_bus_id"]),
        "libraries": libraries,
        "reference": f"torch.mm, torch {libraries.get('torch', torch.__version__)}",
        "devices": cupy.cuda.runtime.getDeviceCount(),
    }
    return Outcome("gpu", value=found)


@cache
def _machine() -> Bench:
    """Clock and sensors of this process's GPU."""
    return device_bench()


def _power_limit(bus: str) -> float | None:
    """The board's enforced limit in W, where NVML tells it."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
        return pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    except pynvml.NVMLError:
        return None


def _caught(error: Exception) -> Outcome:
    """What an exception means. A kernel may be unfit for one problem, a problem for this GPU; after
    any other error of CUDA the context may be lost.
    """
    if isinstance(error, LaunchError):
        return Outcome("infeasible", f"the launch is refused: {error}")
    if isinstance(error, KgenError):
        return Outcome("crashed", str(error))
    if "OutOfMemory" in type(error).__name__:
        return Outcome("no_memory", f"not enough GPU memory: {error}", poisoned=True)
    return Outcome("crashed", f"{type(error).__name__}: {error}", poisoned=True)


def reference(job: Job, size: Size, settings: Settings) -> Outcome:
    """One timing of torch's product, for the drift of a screen. value: when (s), how long (us)."""
    try:
        found = bench_for(job.plan, size).baselines[0]
        return Outcome("reference", value=_short(found, size, settings))
    except Exception as error:
        return _caught(error)


def screen(job: Job, size: Size, settings: Settings) -> Outcome:
    """Exact values on the timed problem, then a short timing without rest.

    value  as `reference`, and the name of that reference
    """
    try:
        bench = bench_for(job.plan, size)
        kernel = Kernel(job.plan, Path(job.cubin))
        if not is_exact(bench, kernel):
            case = judge(job.plan, kernel, bench.layout, bench.operands, ref=bench.product)
            if not case.passed:
                return Outcome("wrong", _failed_gates(case.report))
        contestant = candidate_on(job.plan, kernel, bench.buffers)
        value = _short(contestant, size, settings)
        return Outcome("screened", value=value | {"reference": bench.baselines[0].name})
    except Exception as error:
        return _caught(error)


def _failed_gates(report: Report) -> str:
    """One line per gate that failed, the first the one to read; then the operands."""
    lines = [str(result) for result in report.results if not result.passed]
    return "\n".join([*lines, f"operands: {report.data}"])


def _short(contestant: Contestant, size: Size, settings: Settings) -> dict[str, Any]:
    """A timing without rest. The sensors are slower than a window, so they are read once, after."""
    measurement = measure(contestant, [], settings, replace(_machine(), sampler=Sampler()))
    sample = _machine().sampler.read()
    record = timed(*size, measurement, {contestant.name: contestant.note})
    timing = record.windows[0].timings[0]
    return {
        "at": time.monotonic(),
        "us": timing.median_us,
        "rounds_us": list(timing.rounds_us),
        "sm_mhz": sample.sm_mhz if sample else None,
        "power_w": sample.power_w if sample else None,
        "note": contestant.note,
        "notes": list(record.notes),
    }


def verify(job: Job) -> Outcome:
    """Every shape that follows from the tile, as `kgen verify` does; not those that the base spec
    names, for a sweep has problems of its own, and each screen checked one.

    value  the records of all gates
    """
    try:
        make_room()
        kernel = Kernel(job.plan, Path(job.cubin))
        shapes = derived_shapes(tile_of(job.plan), gpu_facts()["sm_count"])
        records: list[Verified] = []
        for case in verify_on_gpu(job.plan, kernel, shapes):
            if not case.passed:
                where = f"{case.shape.label} ({case.shape.why})"
                return Outcome("wrong", f"{where}: {_failed_gates(case.report)}")
            records += verified(case.shape.label, case.report)
        value = {"verification": [x.model_dump(mode="json") for x in records]}
        return Outcome("verified", value=value)
    except Exception as error:
        return _caught(error)


def finals(jobs: list[Job], size: Size, settings: Settings) -> Outcome:
    """The full protocol: the finalists, torch and cuBLASLt's best, interleaved in every round.

    value  one record per finalist: see `final_records`
    """
    try:
        bench = bench_for(jobs[0].plan, size)
        baselines = with_tuned(bench, jobs[0].plan, _machine())
        loaded = [candidate_on(j.plan, Kernel(j.plan, Path(j.cubin)), bench.buffers) for j in jobs]
        others = [*loaded[1:], *baselines]
        measurement = measure(loaded[0], others, settings, _machine())
        if isinstance(bench.tuned, str):
            measurement = replace(measurement, notes=(*measurement.notes, bench.tuned))
        notes = {c.name: c.note for c in [loaded[0], *others]}
        return Outcome("timed", value=final_records(measurement, len(jobs), size, notes))
    except Exception as error:
        return _caught(error)


def final_records(
    measurement: Measurement, finalists: int, size: Size, notes: dict[str, str]
) -> list[dict[str, Any]]:
    """What every finalist reached, against torch's product of the same rounds.

    The first `finalists` contestants are kernels, the next is torch's product, whose name each
    record holds as its reference, the rest other baselines.
    """
    names = (measurement.candidate, *measurement.baselines)
    found = []
    for name in names[:finalists]:
        own = replace(measurement, candidate=name, baselines=names[finalists:])
        record = timed(*size, own, notes)
        (window,) = record.windows
        timing, torch, ratio = window.timings[0], window.timings[1], window.ratios[0]
        found.append(
            {
                "us": timing.median_us,
                "reference": torch.name,
                "reference_us": torch.median_us,
                "ratio": ratio.median,
                "low": ratio.low,
                "high": ratio.high,
                "sm_mhz": timing.sm_mhz,
                "power_w": timing.power_w,
                "timed": record.model_dump(mode="json"),
                "notes": list(record.notes),
                "trace": _trace(measurement, name),
                "reference_trace": _trace(measurement, torch.name),
            }
        )
    return found


def _trace(measurement: Measurement, name: str) -> list[list[Any]]:
    """Clock (MHz), power (W) and throttle reasons before and after every window of a contestant."""
    rows = []
    for reading in measurement.readings:
        if reading.contestant == name:
            for sample in (reading.before, reading.after):
                if sample is not None:
                    rows.append([sample.sm_mhz, sample.power_w, list(sample.throttle)])
    return rows
