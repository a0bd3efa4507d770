"""Commands around running kernels: verify, bench, demo."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kgen.cli.build_commands import Toolchain
from kgen.cli.emulator_commands import Schedules, verify_emulated
from kgen.cli.output import EXIT_NO, EXIT_UNKNOWN, Json, emit, note, say

MOST_ELEMENTS = 2**31 - 1  # the launcher takes 32-bit extents, as does a spec

Shapes = Annotated[
    list[str] | None, typer.Option("--shape", help="M,N,K in elements; may be repeated.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (verify, bench, demo):
        app.command()(command)


def _compiler(toolchain: str) -> Literal["nvrtc", "nvcc"]:
    """NVRTC runs in the private toolchain; any other offers nvcc only."""
    return "nvrtc" if toolchain == "private" else "nvcc"


def _problem(text: str) -> tuple[int, int, int]:
    from kgen.errors import KgenError

    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(re.fullmatch(r"\s*[0-9]{1,10}\s*", p) for p in parts):
        raise KgenError(f"--shape: {text} is not M,N,K such as 8192,8192,8192")
    m, n, k = (int(p) for p in parts)
    if max(m, n, k) > MOST_ELEMENTS:
        raise KgenError(f"--shape: {text} has more than {MOST_ELEMENTS} elements in one direction")
    return m, n, k


def verify(
    spec: Annotated[Path, typer.Argument(help="Spec file.")],
    on: Annotated[
        str, typer.Option(help="gpu, emulator, or auto: a GPU if there is one.")
    ] = "auto",
    shape: Shapes = None,
    schedules: Schedules = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder for PTX and launch descriptions (emulator), for kgen emulate."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder for a record of the run (emulator), evidence for kgen ship."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random operands.")] = 0,
    toolchain: Toolchain = "private",
    as_json: Json = False,
) -> None:
    """Run a kernel over derived shapes, on a GPU or in the emulator, and judge every output."""
    from kgen.errors import KgenError

    if on not in ("auto", "gpu", "emulator"):
        raise KgenError(f"--on: {on} is not one of gpu, emulator, auto")
    if on == "auto":
        why = _why_no_gpu(spec)
        on = "emulator" if why and not shape else "gpu"
        if on == "emulator":
            note(f"verifying in the emulator: {why}")
    if on == "emulator":
        if shape:
            raise KgenError("--shape is for a GPU; the emulator's shapes follow from the tile")
        verify_emulated(spec, schedules, toolchain, as_json, keep, seed, record)
        return
    if schedules is not None or keep or record:
        raise KgenError("--schedules, --keep and --record are for the emulator: --on emulator")
    _verify_on_gpu(spec, shape, seed, toolchain, as_json)


def _why_no_gpu(spec: Path) -> str:
    """Why the current device cannot run the kernel of a spec; empty if it can."""
    from kgen import api
    from kgen.errors import DeviceError
    from kgen.run.launch import require_device

    plan = api.lower(api.load_spec(spec))
    try:
        require_device(plan)
    except DeviceError as error:
        return str(error)
    return ""


def _verify_on_gpu(
    spec: Path, shape: list[str] | None, seed: int, toolchain: str, as_json: bool
) -> None:
    from kgen import api
    from kgen.run import Kernel
    from kgen.run.launch import import_cupy
    from kgen.verify import device
    from kgen.verify.shapes import shape as make_shape

    problems = [_problem(text) for text in shape or []]
    plan = api.lower(api.load_spec(spec))
    cupy = import_cupy()
    artifact = api.build(plan, toolchain=toolchain, compiler=_compiler(toolchain))
    kernel = Kernel(plan, artifact.path)
    sms = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["multiProcessorCount"]
    tile = device.tile_of(plan)
    chosen = [make_shape(tile, *problem, "named on the command line") for problem in problems]
    shapes = chosen or device.shapes_of(plan, sms)

    def progress(case: device.Case) -> None:
        state = "ok  " if case.passed else "FAIL"
        note(f"{state} {case.shape.label:<28} {case.report.data}")

    cases = device.verify_on_gpu(plan, kernel, shapes, progress, seed)
    failed = [c for c in cases if not c.passed]
    data = {
        "kernel": plan.name,
        "source_digest": api.render(plan).digest,
        "passed": not failed,
        "cases": [
            {"shape": c.shape.label, "why": c.shape.why, **c.report.as_json()} for c in cases
        ],
    }
    lines = [f"{plan.name}: {len(cases) - len(failed)} of {len(cases)} cases right"]
    for case in failed:
        lines += [f"{case.shape.label}: {case.shape.why}", f"  {case.report}"]
        if case.report.declared_limit:
            lines.append(f"  explained by a declared limit: {case.report.declared_limit}")
    lines += _figures(cases)
    emit(as_json, data, "\n".join(lines))
    if failed:
        raise typer.Exit(EXIT_NO)


def _figures(cases: list[Any]) -> list[str]:
    """Errors at unit-variance outputs, the convention of published f16-accumulation figures."""
    lines = []
    for case in cases:
        for result in case.report.results:
            if "p99_error" in result.figures:
                f = result.figures
                figures = (
                    f"mean error {f['mean_error']:.2g}, p99 {f['p99_error']:.2g}, "
                    f"maximum {f['max_error']:.2g}"
                )
                lines.append(f"  {case.shape.label}, outputs of unit variance: {figures}")
    return lines


def bench(
    specs: Annotated[list[Path], typer.Argument(help="Spec files, or folders of them.")],
    shape: Shapes = None,
    window: Annotated[
        list[int] | None, typer.Option(help="Launches in one timed window; may be repeated.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of every window, at least 3.")] = 5,
    cooldown: Annotated[float, typer.Option(help="Seconds of rest before every window.")] = 3.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Folder for result files; one of the same code, GPU and day keeps other shapes.",
        ),
    ] = None,
    skip_verify: Annotated[
        bool, typer.Option("--skip-verify", help="Only the timed shapes are verified.")
    ] = False,
    toolchain: Toolchain = "private",
    as_json: Json = False,
) -> None:
    """Verify kernels, then time them against cuBLAS in one process; exit 4 if undecided."""
    from kgen import api
    from kgen.bench import session
    from kgen.bench.protocol import Settings
    from kgen.bench.results import dump_result, look_at_results, save_result
    from kgen.check import find_specs
    from kgen.errors import KgenError

    if not math.isfinite(cooldown):
        raise KgenError(f"--cooldown {cooldown}: wants a number of seconds")
    settings = Settings(tuple(window or [30]), rounds, cooldown)
    problems = [_problem(text) for text in shape or ["8192,8192,8192"]]
    found, lines, undecided = [], [], False
    plans = [api.lower(api.load_spec(spec)) for spec in find_specs(specs)]
    if output is not None:
        look_at_results(output, (plan.name for plan in plans))
    for plan in plans:
        artifact = api.build(plan, toolchain=toolchain, compiler=_compiler(toolchain))
        result = session.run(
            plan, artifact, problems, settings, derived=not skip_verify, progress=note
        )
        found.append(result)
        if output is not None:
            lines.append(f"{save_result(result, output)}")
        undecided |= session.undecided(result)
        lines += session.summary(result)
    import json

    emit(as_json, [json.loads(dump_result(r)) for r in found], "\n".join(lines))
    if undecided:
        raise typer.Exit(EXIT_UNKNOWN)


def demo(
    spec: Annotated[
        Path | None, typer.Argument(help="Spec file; default: the shipped hopper/v6.")
    ] = None,
) -> None:
    """The main job in one go: render, explain, build; verify and time where a GPU allows it."""
    from kgen import api, explain
    from kgen.check import check_one
    from kgen.cli.build_commands import describe_build
    from kgen.errors import DeviceError
    from kgen.paths import data_folder
    from kgen.run.launch import require_device

    spec = spec or data_folder("specs") / "hopper" / "v6.yaml"
    plan = api.lower(api.load_spec(spec))
    rendered = api.render(plan)
    say(f"1. render   {spec} -> {rendered.name}.cu, {rendered.name}.h")
    say(f"   {len(rendered.source.splitlines())} lines; {check_one(spec, rendered)}")
    say("2. explain\n")
    say(explain.text(plan, rendered.digest), end="\n\n")
    say("3. build")
    say(describe_build(plan, api.build(plan)))
    try:
        require_device(plan)
        import torch

        if not torch.cuda.is_available():
            raise DeviceError(f"torch {torch.__version__} has no GPU")
    except (DeviceError, ImportError) as error:
        say("4. verify   in the emulator: every derived shape, five kinds of schedule")
        verify_emulated(spec, None, "private", False)
        say(f"5. bench    not done: {error}")
        say("Right in the emulator; not run on hardware, and nothing here says that it is fast.")
        return
    say("4. verify")
    _verify_on_gpu(spec, None, 0, "private", False)
    say("5. bench    8192 x 8192 x 8192 against torch.mm")
    try:
        bench([spec], rounds=3)
    except typer.Exit as undecided:
        if undecided.exit_code != EXIT_UNKNOWN:
            raise
        say("   undecided: the interval of the ratio spans 1")
