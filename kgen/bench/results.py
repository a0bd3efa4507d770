"""Result files: one JSON file per kernel and GPU, written atomically, read strictly. Measures
nothing.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from kgen.bench.protocol import Measurement
from kgen.bench.statistics import Ratio, Verdict
from kgen.errors import KgenError
from kgen.files import make_folder, write_whole
from kgen.records import Record, dump_record, load_record
from kgen.verify.outcome import Report

SCHEMA = 1
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


class Gpu(Record):
    """The board and what ran it."""

    name: str
    driver: str
    toolkit: str = ""
    libraries: dict[str, str] = Field(default_factory=dict)  # torch, cuBLAS, cupy: versions


class Compiler(Record):
    """What made the cubin."""

    name: str
    version: str
    options: tuple[str, ...] = ()


class Timing(Record):
    """One contestant in one window. Units microseconds per launch; TFLOPS from the median."""

    name: str
    note: str = ""
    median_us: Positive
    low_us: Positive
    high_us: Positive
    rounds_us: tuple[Positive, ...]  # in the order of the rounds, so that ratios can be checked
    tflops: float
    sm_mhz: float | None = None  # median right after the windows
    power_w: float | None = None


class RatioRecord(Record):
    """Candidate over baseline; above 1 if the candidate is faster."""

    baseline: str
    median: Positive
    low: Positive
    high: Positive
    verdict: Verdict
    rounds: int


class Window(Record):
    """All contestants of one window length; the first is the candidate."""

    launches: int
    timings: Annotated[tuple[Timing, ...], Field(min_length=1)]
    ratios: tuple[RatioRecord, ...]


class Timed(Record):
    """One timed problem."""

    m: Count
    n: Count
    k: Count
    rounds: int
    cooldown_s: float
    warmup: int
    windows: tuple[Window, ...]
    notes: tuple[str, ...] = ()


class Verified(Record):
    """One gate of one checked problem; `figures` are the gate's numbers."""

    shape: str
    data: str
    gate: str
    passed: bool
    figures: dict[str, float] = Field(default_factory=dict)
    cause: str = ""


class Result(Record):
    """Everything known about one kernel on one GPU."""

    schema_version: Literal[1] = SCHEMA
    kernel: str
    source_digest: str  # of the rendered code, kgen.render.source_digest
    compiler: Compiler
    gpu: Gpu
    measured_on: datetime.date
    timings: tuple[Timed, ...] = ()
    verification: tuple[Verified, ...] = ()
    notes: tuple[str, ...] = ()


def timed(m: int, n: int, k: int, measurement: Measurement, notes: dict[str, str]) -> Timed:
    """The record of a measurement. `notes` holds each contestant's like-for-like note."""
    names = (measurement.candidate, *measurement.baselines)
    windows = []
    for launches in measurement.settings.windows:
        timings = tuple(_timing(measurement, name, launches, m * n * k, notes) for name in names)
        ratios = tuple(_ratio(name, measurement.ratio(name, launches)) for name in names[1:])
        windows.append(Window(launches=launches, timings=timings, ratios=ratios))
    return Timed(
        m=m,
        n=n,
        k=k,
        rounds=measurement.settings.rounds,
        cooldown_s=measurement.settings.cooldown_s,
        warmup=measurement.settings.warmup,
        windows=tuple(windows),
        notes=measurement.notes,
    )


def _ratio(baseline: str, found: Ratio) -> RatioRecord:
    return RatioRecord(baseline=baseline, verdict=found.verdict, **asdict(found))


def _timing(
    measurement: Measurement, name: str, launches: int, products: int, notes: dict[str, str]
) -> Timing:
    micro = 1e6 * np.array(measurement.times(name, launches))
    after = [
        r.after
        for r in measurement.readings
        if r.after and (r.contestant, r.window) == (name, launches)
    ]
    median = float(np.median(micro))
    return Timing(
        name=name,
        note=notes.get(name, ""),
        median_us=median,
        low_us=float(micro.min()),
        high_us=float(micro.max()),
        rounds_us=tuple(micro.tolist()),
        tflops=2 * products / median / 1e6,
        sm_mhz=float(np.median([s.sm_mhz for s in after])) if after else None,
        power_w=float(np.median([s.power_w for s in after])) if after else None,
    )


def verified(shape: str, report: Report) -> tuple[Verified, ...]:
    """The record of a report on one problem. JSON has no infinity, so infinite figures are left
    out.
    """
    return tuple(
        Verified(
            shape=shape,
            data=report.data,
            gate=result.gate,
            passed=result.passed,
            figures={key: x for key, x in result.figures.items() if math.isfinite(x)},
            cause=result.cause,
        )
        for result in report.results
    )


def result_path(folder: Path, kernel: str, gpu: str) -> Path:
    """<kernel>.<gpu in lower case, words joined by ->.json"""
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return folder / f"{kernel}.{slug}.json"


def look_at_results(folder: Path, kernels: Iterable[str]) -> None:
    """Make the folder, and read what it holds of these kernels.

    Before a measurement of minutes, which must not be lost where it is saved.

    Raises  OSError where the folder cannot be made; KgenError as load_result
    """
    make_folder(folder)
    for kernel in kernels:
        for path in sorted(folder.glob(f"{kernel}.*.json")):
            load_result(path)


def save_result(result: Result, folder: Path) -> Path:
    """Write a result under its own name and return the path. Same result, same bytes.

    What the file there holds of the same code, compiler and GPU stays: of other shapes, what was
    found right, whenever that was, and what was timed on the same day.
    Raises  KgenError, naming the file, where it is no result file
    """
    path = result_path(folder, result.kernel, result.gpu.name)
    make_folder(folder)
    if path.exists():
        result = _with_other_shapes(result, load_result(path))
    write_whole(path, dump_result(result).encode())
    return path


def _with_other_shapes(result: Result, before: Result) -> Result:
    """`result`, and what `before` says about shapes that it does not."""
    same = ("source_digest", "compiler", "gpu")
    if any(getattr(result, field) != getattr(before, field) for field in same):
        return result
    verified_now = {(x.shape, x.data) for x in result.verification}
    verification = [x for x in before.verification if (x.shape, x.data) not in verified_now]
    changes: dict[str, Any] = {"verification": (*verification, *result.verification)}
    if result.measured_on == before.measured_on:
        timed_now = {(x.m, x.n, x.k) for x in result.timings}
        timings = [x for x in before.timings if (x.m, x.n, x.k) not in timed_now]
        changes["timings"] = (*timings, *result.timings)
        changes["notes"] = tuple(dict.fromkeys((*before.notes, *result.notes)))
    return result.model_copy(update=changes)


def dump_result(result: Result) -> str:
    """The file's text: sorted keys, floats to seven digits."""
    return dump_record(result)


def load_result(path: Path) -> Result:
    """Read one result file.

    Raises  KgenError naming the file and the field, for a newer schema, broken JSON or a wrong
        field
    """
    return load_record(path, Result, "a result file", SCHEMA)


def load_results(folder: Path) -> tuple[Result, ...]:
    """Every result file of a folder, by kernel and GPU; a file under another name than its own is
    refused.

    Raises  KgenError as load_result, and if the name does not match the content
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        result = load_result(path)
        expected = result_path(folder, result.kernel, result.gpu.name).name
        if path.name != expected:
            holds = f"{result.kernel} on {result.gpu.name}"
            raise KgenError(f"{path}: holds {holds}; fix: rename it to {expected}")
        found.append(result)
    return tuple(sorted(found, key=lambda r: (r.kernel, r.gpu.name)))


def stale_results(results: Iterable[Result], digests: dict[str, str]) -> tuple[Result, ...]:
    """Results that measured another source than the current one. `digests`: kernel name to current
    digest.
    """
    return tuple(r for r in results if digests.get(r.kernel) != r.source_digest)
