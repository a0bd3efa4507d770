"""One bench of one kernel: verify, time, and the record of both."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from importlib import metadata

from kgen.bench import device
from kgen.bench.baselines import baselines_of
from kgen.bench.protocol import Measurement, Reading, Settings
from kgen.bench.results import Compiler, Gpu, Result, Timed, Verified, timed, verified
from kgen.build.compile import Artifact
from kgen.errors import VerifyError
from kgen.plan import KernelPlan
from kgen.render import render
from kgen.run import Kernel
from kgen.run.launch import import_cupy
from kgen.verify.device import Case, run_case, shapes_of, verify_on_gpu
from kgen.verify.inputs import random_kind
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.shapes import shape

LIBRARIES = ("torch", "nvidia-cublas", "cupy-cuda13x", "cuda-bindings")


def run(
    plan: KernelPlan,
    artifact: Artifact,
    problems: Iterable[tuple[int, int, int]],
    settings: Settings,
    *,
    derived: bool = True,
    progress: Callable[[str], None] = print,
) -> Result:
    """Verify a built kernel, then time it on every problem.

    derived  also verify the shapes that follow from the tile; the timed ones are always verified
    Raises   KgenError where no baseline computes the product; VerifyError, naming the first
             failure, before anything is timed if the kernel is wrong
    """
    baselines_of(numerics_of(plan))  # refuses what cannot be timed, before anything runs
    import_cupy()
    kernel = Kernel(plan, artifact.path)
    facts = device.gpu_facts()
    records: list[Verified] = []

    def keep(case: Case) -> None:
        _require_right(plan, case)
        records.extend(verified(case.shape.label, case.report))
        progress(f"{plan.name}: {case.shape.label} {case.report.data}: right")

    if derived:
        verify_on_gpu(plan, kernel, shapes_of(plan, facts["sm_count"]), keep)
    timings: list[Timed] = []
    notes: list[str] = []
    kind = random_kind(numerics_of(plan))
    for m, n, k in problems:
        keep(run_case(plan, kernel, shape(tile_of(plan), m, n, k, "timed"), kind))
        measurement, contestant_notes = _time(plan, kernel, (m, n, k), settings, progress)
        timings.append(timed(m, n, k, measurement, contestant_notes))
    return Result(
        kernel=plan.name,
        source_digest=render(plan).digest,
        compiler=_compiler(artifact),
        gpu=Gpu(
            name=facts["name"],
            driver=facts["driver"],
            toolkit=artifact.compiler.split()[1],
            libraries=library_versions(),
        ),
        measured_on=datetime.date.today(),
        timings=tuple(timings),
        verification=tuple(records),
        notes=tuple(notes),
    )


def _require_right(plan: KernelPlan, case: Case) -> None:
    if not case.passed:
        raise VerifyError(
            f"{plan.name} is wrong at {case.shape.label} ({case.shape.why}), so it was not timed\n"
            f"{case.report}"
        )


def _time(
    plan: KernelPlan,
    kernel: Kernel,
    size: tuple[int, int, int],
    settings: Settings,
    progress: Callable[[str], None],
) -> tuple[Measurement, dict[str, str]]:
    problem = device.Problem(*size)
    label = "x".join(map(str, size))

    def show(reading: Reading) -> None:
        tflops = problem.flops / reading.seconds_per_launch / 1e12
        progress(
            f"{label} round {reading.round}, {reading.window} launches: {reading.contestant} "
            f"{reading.seconds_per_launch * 1e6:.1f} us, {tflops:.0f} TFLOPS"
        )

    measurement, contestants = device.bench_on_gpu(plan, kernel, problem, settings, show)
    return measurement, {c.name: c.note for c in contestants}


def _compiler(artifact: Artifact) -> Compiler:
    name, version = artifact.compiler.split()[:2]
    return Compiler(name=name, version=version)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that a measurement went through, as installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def undecided(result: Result) -> bool:
    """Whether the interval of any ratio spans 1."""
    return any(
        ratio.verdict == "undecided"
        for problem in result.timings
        for window in problem.windows
        for ratio in window.ratios
    )


def summary(result: Result) -> list[str]:
    """The ratios, one line each."""
    lines = []
    for problem in result.timings:
        for window in problem.windows:
            own = window.timings[0]
            for ratio in window.ratios:
                size = f"{problem.m}x{problem.n}x{problem.k}, {window.launches} launches"
                interval = f"[{ratio.low:.3f}..{ratio.high:.3f}]"
                lines.append(
                    f"{result.kernel} {size}: {own.tflops:.0f} TFLOPS, {ratio.median:.3f} "
                    f"{interval} of {ratio.baseline}, {ratio.verdict} in {ratio.rounds} rounds"
                )
        lines += [f"  note: {note}" for note in problem.notes]
    return lines
