"""Commands that need no compiler: render, check, explain, new, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kgen.cli.output import EXIT_NO, EXIT_WRONG_QUESTION, Json, drift_report, emit, note, say
from kgen.cli.ship_commands import check_shipped, render_with

Specs = Annotated[list[Path], typer.Argument(help="Spec files, or folders of them.")]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    for command in (render, check, explain, new, schema):
        app.command()(command)


def render(
    specs: Specs,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder for the files; default: `generated` beside `specs`."
        ),
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            "--with", help="Comma-separated: cmake, python, torch; bindings, too, as kgen ship's."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the .cu and .h of each spec; the same spec gives the same bytes."""
    from kgen import check as drift

    if parts is not None:
        render_with(specs, output, parts, as_json)
        return
    found = drift.find_specs(specs)
    written: list[dict[str, Any]] = []
    if output is not None:
        outputs = drift.render_all(found, output, mirror=False)
    else:
        outputs = [
            result
            for folder in sorted({drift.default_folder(s) for s in found})
            for result in drift.render_all(
                [s for s in found if drift.default_folder(s) == folder], folder
            )
        ]
    for result in outputs:
        changed = drift.write(result)
        for name in result.rendered.files:
            path = result.folder / name
            state = "written" if path in changed else "unchanged"
            written.append({"path": str(path), "state": state, "digest": result.rendered.digest})
    emit(as_json, written, "\n".join(f"{row['path']}  {row['state']}" for row in written))


def check(
    generated: Annotated[
        Path | None, typer.Argument(help="Folder of generated files; default: generated.")
    ] = None,
    specs: Annotated[
        Path | None, typer.Option(help="Folder of specs; default: `specs` beside GENERATED.")
    ] = None,
    digests: Annotated[
        bool,
        typer.Option("--digests", help="A shipped folder, by the digests in its kgen.lock alone."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Fail on any generated file that is edited, stale, missing or orphan, with diff and repair.

    GENERATED may be a folder that `kgen ship` wrote; it needs no specs.
    """
    from kgen import check as drift
    from kgen.errors import KgenError

    if generated is None:
        generated = Path("generated")
    elif not generated.is_dir():
        raise KgenError(f"{generated}: no such folder of generated files")
    if digests or (generated / "kgen.lock").exists():
        check_shipped(generated, digests, as_json)
        return
    folder = specs or generated.parent / "specs"
    if not folder.is_dir():
        raise KgenError(f"{folder}: no such folder of specs; name it with --specs")
    found = drift.find_specs([folder])
    drifts = drift.check(found, generated)
    data, lines = drift_report(drifts)
    if not drifts:
        lines.append(f"{len(found)} specs, every generated file is up to date")
    if all(d.kind != "bad spec" for d in drifts):
        stale = _stale_records(generated, folder)
        data += [{"path": path, "kind": kind, "what": what} for path, kind, what in stale]
        lines += [": ".join(row) for row in stale]
    else:
        lines.append("orphans and stale records are looked for when every spec is good")
    emit(as_json, data, "\n".join(lines))
    if any(d.kind == "bad spec" for d in drifts):
        raise typer.Exit(EXIT_WRONG_QUESTION)
    if drifts:
        raise typer.Exit(EXIT_NO)


def _stale_records(generated: Path, specs: Path) -> list[tuple[str, str, str]]:
    """What is recorded beside GENERATED of a kernel that has changed since; remarks, no drift."""
    from kgen.bench.results import load_results, result_path, stale_results
    from kgen.bench.tested import stale_tests
    from kgen.check import current_digests

    benchmarks = generated.parent / "benchmarks"
    folder, tests = benchmarks / "results", benchmarks / "gpu_tests.json"
    results = load_results(folder)
    if not results and not tests.is_file():
        return []
    digests = current_digests(specs)
    found = []
    for r in stale_results(results, digests):
        path = str(result_path(folder, r.kernel, r.gpu.name))
        found.append((path, "stale result", f"it measured source {r.source_digest}"))
    if tests.is_file():
        for kernel, digest in stale_tests(tests, digests).items():
            found.append((str(tests), "stale test", f"{kernel} was tested as source {digest}"))
    return found


def explain(
    spec: Annotated[Path, typer.Argument(help="Spec file.")], as_json: Json = False
) -> None:
    """Print the budget: shared memory, registers, barriers, TMA, scales, grid, and the pipeline."""
    from kgen import explain as explanation
    from kgen.plan import lower
    from kgen.render import render as render_plan
    from kgen.spec import load_spec

    plan = lower(load_spec(spec))
    digest = render_plan(plan).digest
    emit(as_json, explanation.data(plan, digest), explanation.text(plan, digest))


def new(
    path: Annotated[Path | None, typer.Argument(help="Spec file to write.")] = None,
    like: Annotated[str, typer.Option(help="Shipped spec to start from.")] = "hopper/v6",
    listing: Annotated[bool, typer.Option("--list", help="List the shipped specs.")] = False,
) -> None:
    """Start a spec from a shipped one; the kernel takes the file's name."""
    from kgen.errors import KgenError
    from kgen.shipped import new_spec, shipped_specs

    if listing:
        found = shipped_specs()
        width = max(len(name) for name, _ in found) + 2
        say("\n".join(f"{name:<{width}}{first}" for name, first in found))
        return
    if path is None:
        raise KgenError("name the file to write, or use --list")
    new_spec(path, like)
    note(f"{path} written; next: kgen explain {path}")


def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; default: print it.")
    ] = None,
) -> None:
    """Write the JSON Schema of spec files, for editors that complete and check YAML."""
    from kgen.files import write_whole
    from kgen.shipped import json_schema

    text = json_schema()
    if output is None:
        say(text, end="")
        return
    write_whole(output, text.encode())
