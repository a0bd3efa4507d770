"""Commands that carry kernels to another repository: ship, and the check of what was shipped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgen.cli.output import EXIT_NO, Json, emit, note

if TYPE_CHECKING:
    from kgen.ship.lock import Lock, Part
    from kgen.ship.make import Records

_RESULTS = Path("benchmarks/results")  # of the current folder


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.command()(ship)


def ship(
    specs: Annotated[
        list[Path] | None,
        typer.Argument(help="Spec files, or folders of them; none: what kgen.lock in DIR lists."),
    ] = None,
    from_sweep: Annotated[
        Path | None,
        typer.Option(
            "--from-sweep",
            metavar="RESULTS",
            help="Ship the best kernel of every problem in a sweep's results file.",
        ),
    ] = None,
    sweep: Annotated[
        str | None, typer.Option(help="Which sweep, where the file holds several.")
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Folder of its own in another repository.")
    ] = ...,  # type: ignore[assignment]
    name: Annotated[
        str | None,
        typer.Option(help="Prefix of the dispatch code and of the bindings; default gemm."),
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option("--with", help="Comma-separated: cmake, python, torch; default all of them."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of result files, evidence and ranking; default benchmarks/results."
        ),
    ] = None,
    emulated: Annotated[
        Path | None,
        typer.Option(
            help="Folder of `kgen verify --on emulator --record`; default benchmarks/emulated."
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="GPU whose results rank, where there are several.")
    ] = None,
    require_evidence: Annotated[
        bool,
        typer.Option("--require-evidence", help="Fail where a kernel has not run right on a GPU."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write kernels, dispatch tables and bindings as a folder to commit in another repository."""
    from kgen.errors import KgenError, VerifyError
    from kgen.ship import folder
    from kgen.ship.lock import load_lock
    from kgen.ship.make import remake

    if specs and from_sweep:
        raise KgenError("--from-sweep names what is shipped: leave the specs out, or ship twice")
    if sweep is not None and from_sweep is None:
        raise KgenError("--sweep goes with --from-sweep")
    if from_sweep and gpu is not None:
        raise KgenError("--from-sweep ranks by the GPU of its latest start: leave --gpu out")
    if from_sweep:
        lock = _swept(from_sweep, sweep, to, name, parts, _records(results, emulated))
    elif specs:
        lock = _new(specs, to, name, parts, _records(results, emulated), gpu)
    else:
        _refuse_without_specs(to, name, parts)
        lock = remake(load_lock(to))
    bare = [k.name for k in lock.kernels if not k.evidence.runs]
    if bare and specs and results is None and not _RESULTS.is_dir():
        note(f"no folder {_RESULTS.absolute()} of results; --results names another")
    if bare and require_evidence:
        raise VerifyError(f"no recorded run on a GPU of this source: {', '.join(bare)}")
    states = folder.write(lock, to)
    data = {
        "folder": str(to),
        "files": states,
        "kernels": [{"name": k.name, "source_digest": k.source_digest} for k in lock.kernels],
        "tables": [{"name": t.name, "rows": len(t.rows)} for t in lock.tables],
    }
    emit(as_json, data, "\n".join(f"{to / file}  {state}" for file, state in states.items()))


def _new(
    specs: list[Path],
    to: Path,
    name: str | None,
    parts: str | None,
    records: Records,
    gpu: str | None,
) -> Lock:
    from kgen.check import find_specs
    from kgen.ship.make import make_lock
    from kgen.spec import load_spec

    loaded = [load_spec(path) for path in find_specs(specs)]
    lock = make_lock(loaded, *_prefix_and_parts(to, name, parts), records, gpu=gpu)
    _remark(lock, records)
    return lock


def _swept(
    file: Path, sweep: str | None, to: Path, name: str | None, parts: str | None, records: Records
) -> Lock:
    from dataclasses import replace

    from kgen.ship.from_sweep import shipment
    from kgen.ship.make import make_lock

    found = shipment(file, sweep)
    records = replace(records, runs=found.runs)
    lock = make_lock(found.specs, *_prefix_and_parts(to, name, parts), records, found.winners)
    _remark(lock, records)
    return lock


def _prefix_and_parts(
    to: Path, name: str | None, parts: str | None
) -> tuple[str, tuple[Part, ...]]:
    """What was asked for, else what an earlier shipment in the folder has, else the defaults."""
    from kgen.ship.lock import LOCK_NAME, load_lock
    from kgen.ship.make import PARTS

    old = load_lock(to) if (to / LOCK_NAME).exists() else None
    chosen = _parts(parts) if parts is not None else old.parts if old else PARTS
    return name or (old.name if old else "gemm"), chosen


def _remark(lock: Lock, records: Records) -> None:
    """Say which kernels have no evidence of a GPU, and which are in no table."""
    from kgen.ship.make import untabled

    reasons = untabled(lock)
    for kernel in lock.kernels:
        other = records.stale(kernel.name, kernel.source_digest)
        if not kernel.evidence.runs:
            why = f"; what is recorded measured source {', '.join(other)}" if other else ""
            note(
                f"{kernel.name}: no run on a GPU is recorded for source {kernel.source_digest}{why}"
            )
        if kernel.name in reasons:
            note(f"{kernel.name}: in no dispatch table: {reasons[kernel.name]}")


def render_with(specs: list[Path], output: Path | None, parts: str, as_json: bool) -> None:
    """`kgen render --with`: kernels and bindings in a folder of their own, without evidence."""
    from kgen.check import find_specs
    from kgen.errors import KgenError
    from kgen.ship import folder
    from kgen.ship.make import make_lock
    from kgen.spec import load_spec

    if output is None:
        raise KgenError("--with wants a folder of its own for the files: -o DIR")
    loaded = [load_spec(path) for path in find_specs(specs)]
    lock = make_lock(loaded, "gemm", _parts(parts), None)
    rows = [
        {"path": str(output / file), "state": state}
        for file, state in folder.write(lock, output).items()
    ]
    emit(as_json, rows, "\n".join(f"{row['path']}  {row['state']}" for row in rows))


def _parts(text: str) -> tuple[Part, ...]:
    from kgen.errors import KgenError
    from kgen.ship.make import PARTS

    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in PARTS:
            raise KgenError(f"--with: {word} is not one of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in words)


def _refuse_without_specs(to: Path, name: str | None, parts: str | None) -> None:
    from kgen.errors import KgenError
    from kgen.ship.lock import LOCK_NAME

    if not (to / LOCK_NAME).exists():
        raise KgenError(f"{to}: holds no {LOCK_NAME} yet; name the specs to ship")
    if name is not None or parts is not None:
        raise KgenError("--name and --with need the specs, too")


def _records(results: Path | None, emulated: Path | None) -> Records:
    """Both folders; a default one need not exist."""
    from kgen.bench.results import load_results
    from kgen.errors import KgenError
    from kgen.ship.make import Records
    from kgen.verify.record import load_emulator_records

    for folder in (results, emulated):
        if folder is not None and not folder.is_dir():
            raise KgenError(f"{folder}: no such folder of records")
    results = results or _RESULTS
    emulated = emulated or Path("benchmarks/emulated")
    return Records(
        load_results(results) if results.is_dir() else (),
        load_emulator_records(emulated) if emulated.is_dir() else (),
    )


def check_shipped(folder: Path, digests_only: bool, as_json: bool) -> None:
    """`kgen check` of a folder that holds kgen.lock."""
    from kgen.cli.output import drift_report
    from kgen.ship.drift import check_shipped as find_drift
    from kgen.ship.lock import load_lock

    drifts = find_drift(folder, digests_only)
    data, lines = drift_report(drifts)
    if not drifts:
        how = "by digest" if digests_only else "by digest and against the templates"
        lines = [f"{len(load_lock(folder).files)} shipped files are as kgen wrote them, {how}"]
    emit(as_json, data, "\n".join(lines))
    if drifts:
        raise typer.Exit(EXIT_NO)
