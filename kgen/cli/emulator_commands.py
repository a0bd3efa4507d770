"""Commands of the emulator: emulate, and the emulator's half of verify."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kgen.cli.output import EXIT_NO, EXIT_UNKNOWN, Json, emit, note

Schedules = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated: early, late, latestore, starve, starve:WARP, random:SEED, all."
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(emulate)


def emulate(
    file: Annotated[Path, typer.Argument(help="PTX, or a .cu that is compiled to PTX first.")],
    launch: Annotated[Path, typer.Option(help="Launch description (YAML).")],
    schedules: Schedules = None,
    max_steps: Annotated[
        int, typer.Option(help="Warp-instructions after which a run is stopped.")
    ] = 10_000_000,
    outputs: Annotated[
        Path | None,
        typer.Option(help="Write every output D as bits, named array_D, into this .npz file."),
    ] = None,
    timeline: Annotated[
        Path | None, typer.Option(help="Write a Chrome trace (for Perfetto) of the first schedule.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw CTAs 0 and 1 of the same timeline as SVG.")
    ] = None,
    target: Annotated[str, typer.Option(help="Target that a .cu is compiled for.")] = "sm_90a",
    as_json: Json = False,
) -> None:
    """Run any kernel's PTX or .cu on the CPU, and report races, deadlocks and missing fences."""
    import json

    import numpy as np

    from kgen.emu import emulate as run
    from kgen.emu import load_launch
    from kgen.emu.picture import svg
    from kgen.emu.timeline import chrome_trace
    from kgen.files import require_folder, write_whole

    for path in (outputs, timeline, picture):
        if path is not None:
            require_folder(path.parent)  # now: behind the run its report would be lost
    description = load_launch(launch)
    ptx = _ptx(file, description.kernel, target)
    traced = timeline is not None or picture is not None
    report = run(ptx, description, _names(schedules), max_steps, traced)
    if outputs is not None:
        buffer = io.BytesIO()
        named: Any = {f"array_{name}": bits for name, bits in report.outputs.items()}
        np.savez(buffer, **named)
        write_whole(outputs, buffer.getvalue())
    if timeline is not None:
        write_whole(timeline, chrome_trace(report.runs[0].timeline).encode())
    if picture is not None:
        write_whole(picture, svg(report.runs[0].timeline).encode())
    gaps = report.coverage.gaps()
    lines = [
        str(report),
        "  values are not judged here: `kgen verify` compares them with the product",
    ]
    if not report.outputs_agree:
        lines.append("  the schedules left different results")
    if gaps:
        lines.append(f"  not reached by this launch: {len(gaps)}; the first ones")
        lines += [f"    {gap}" for gap in gaps[:10]]
    emit(as_json, json.loads(report.to_json()), "\n".join(lines))
    _exit(report.verdict if report.outputs_agree else "error")


def _names(schedules: str | None) -> tuple[str, ...]:
    from kgen.emu.api import DEFAULT_SCHEDULES

    return DEFAULT_SCHEDULES if schedules is None else tuple(schedules.split(","))


def _ptx(file: Path, kernel: str, target: str) -> str:
    """PTX of a file; a .cu is compiled with line information, so that findings name its lines."""
    from kgen.errors import EmulatorError

    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise EmulatorError(f"{file}: not UTF-8 text") from error
    if file.suffix != ".cu":
        return text
    from kgen.build.compile import compile_source

    artifact = compile_source(text, name=kernel, target=target, emit="ptx", line_info=True)
    return artifact.data.decode()


def _exit(verdict: str) -> None:
    if verdict == "error":
        raise typer.Exit(EXIT_NO)
    if verdict != "clean":
        raise typer.Exit(EXIT_UNKNOWN)


def verify_emulated(
    spec: Path,
    schedules: str | None,
    toolchain: str,
    as_json: bool,
    keep: Path | None = None,
    seed: int = 0,
    record: Path | None = None,
) -> None:
    """`kgen verify --on emulator`: every derived shape under every schedule, values bit for bit.

    record  folder for a record of the run, which `kgen ship` takes as evidence
    keep    folder for the PTX and one launch description per shape, which `kgen emulate` takes
    """
    from kgen import api
    from kgen.files import make_folder
    from kgen.verify import emulator
    from kgen.verify.record import emulator_record, save_emulator_record

    plan = api.lower(api.load_spec(spec))
    emulator.require_covered(plan)
    for folder in (keep, record):
        if folder is not None:
            make_folder(folder)  # before a run of minutes, whose results it is for
    compiler = "nvrtc" if toolchain == "private" else "nvcc"
    build: dict[str, Any] = {"compiler": compiler, "toolchain": toolchain}
    registers = api.build(plan, **build).resources[0].registers
    ptx = api.build(plan, emit="ptx", line_info=True, **build).data.decode()
    if keep is not None:
        _keep(keep, plan, ptx, registers)

    def progress(case: emulator.EmulatedCase) -> None:
        state = "ok  " if case.passed else "stop" if case.stop else "FAIL"
        note(f"{state} {case.shape.label:<36} {len(case.report.schedules)} schedules")

    cases, judgement = emulator.verify_in_emulator(
        plan, ptx, emulator.shapes_of(plan), _names(schedules), registers, progress, seed
    )
    right = sum(case.passed for case in cases)
    wrong = any(case.wrong and not case.stop for case in cases)
    verdict = "error" if wrong else judgement.verdict  # which knows of schedules that disagree
    runs = sum(len(case.report.schedules) for case in cases)
    stopped = [case for case in cases if case.stop]
    lines = [
        f"{plan.name}: {verdict}; {right} of {len(cases)} cases right in "
        f"{runs} runs (emulated, not run on hardware)"
    ]
    if stopped:
        lines.append(f"{len(stopped)} of {len(cases)} cases were stopped: {stopped[0].stop}")
    for case in cases:
        if not case.passed:
            lines.append(f"{case.shape.label}: {case.shape.why}: {case.report}")
        if case.stop:
            lines.append("  D is unfinished: the run was stopped, which is no word on the kernel")
        elif case.wrong:
            lines.append(f"  {case.wrong} elements of D are wrong, the first {case.first_wrong}")
    lines += [f"not reached by any case: {gap}" for gap in judgement.gaps]
    left_out = emulator.left_out(plan)
    if left_out:
        whose = "of the shapes that the spec names"
        lines.append(f"not run: {left_out} {whose} (the emulator runs derived ones)")
    digest = api.render(plan).digest
    if record is not None:
        found = emulator_record(plan.name, digest, verdict, cases, left_out)
        note(f"recorded in {save_emulator_record(found, record)}")
    data = {
        "kernel": plan.name,
        "source_digest": digest,
        "verdict": verdict,
        "note": "emulated, not run on hardware",
        "gaps": judgement.gaps,
        "named_shapes_left_out": left_out,
        "cases": [
            {
                "shape": case.shape.label,
                "why": case.shape.why,
                "passed": case.passed,
                "wrong_elements": None if case.stop else case.wrong,
                "stopped_by": case.stop,
                "schedules": list(case.report.schedules),
                "findings": [asdict(f) for f in case.report.findings],
            }
            for case in cases
        ],
    }
    emit(as_json, data, "\n".join(lines))
    _exit(verdict)


def _keep(folder: Path, plan: Any, ptx: str, registers: int) -> None:
    from kgen.emu import dump_launch
    from kgen.verify import emulator

    (folder / f"{plan.name}.ptx").write_text(ptx)
    for shape in emulator.shapes_of(plan):
        name = f"{shape.m}x{shape.n}x{shape.k}.ld{shape.lda}-{shape.ldb}-{shape.ldd}.launch.yaml"
        dump_launch(emulator.launch_of(plan, shape, registers=registers), folder / name)
    note(f"PTX and launch descriptions are in {folder}")
