"""Commands around sweeps: sweep, results, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kgen.cli.output import EXIT_UNKNOWN, Json, emit, note, say

ONS = ("auto", "gpu", "emulator", "none")
Results = Annotated[
    Path | None, typer.Option("--results", help="Results file; default <name>.sqlite here.")
]
SweepName = Annotated[
    str | None, typer.Option("--sweep", help="Which sweep, where a file holds several.")
]


class _ShowByDefault(TyperGroup):
    """`kgen results X` is `kgen results show X`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(sweep)
    app.command()(report)
    group = typer.Typer(
        cls=_ShowByDefault, help="What was measured: `kgen results [PATH]` is `show`."
    )
    group.command("show")(show)
    group.command("key")(key)
    app.add_typer(group, name="results")


def sweep(
    file: Annotated[Path, typer.Argument(help="Sweep file (*.sweep.yaml).")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many points each rule removes.")
    ] = False,
    results: Results = None,
    on: Annotated[
        str,
        typer.Option(
            help="gpu, emulator, none (compile and rank only), or auto: a GPU if there is one."
        ),
    ] = "auto",
    build_only: Annotated[
        bool,
        typer.Option(
            "--build-only",
            help="Compile every point into kgen's cache and stop; carry cache and results file "
            "to a machine without a compiler and start the same sweep there.",
        ),
    ] = False,
    points: Annotated[
        int | None, typer.Option(min=1, help="Budget of points, instead of the file's.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Budget of time, instead of the file's.")
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(help="A status such as hung whose work is done again; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explore a space of specs: compile, check, time. Resumable; repeats nothing."""
    from kgen.errors import KgenError
    from kgen.sweep.load import load_sweep
    from kgen.sweep.queries import STATUSES

    if on not in ONS:
        raise KgenError(f"--on: {on} is not one of {', '.join(ONS)}")
    for status in retry or []:
        if status not in STATUSES:
            raise KgenError(f"--retry: {status} is not one of {', '.join(STATUSES)}")
    found = load_sweep(file).within(points, minutes)
    if build_only and minutes is None:
        found = found.unhurried()
    if dry_run:
        _survey(found, as_json)
        return
    path = results or Path(f"{found.name}.sqlite")
    session = _session(found, path, on, build_only, tuple(retry or ()))
    outcome = _watched(session)
    _summary(path, found.name, outcome, as_json)
    if outcome == "out of time":
        raise typer.Exit(EXIT_UNKNOWN)


def _session(*arguments: Any) -> Any:
    from kgen.errors import DeviceError
    from kgen.sweep.axes import INSTALL

    try:
        from kgen.sweep.session import Session
    except ModuleNotFoundError as error:
        if error.name != "pebble":
            raise
        raise DeviceError(f"sweeps run in processes of pebble ({error}); {INSTALL}") from error
    return Session(*arguments)


def _watched(session: Any) -> str:
    """Run with a live picture on a terminal, with plain lines elsewhere."""
    import sys

    from rich.console import Console

    from kgen.sweep.progress import LiveWatch, PlainWatch

    if sys.stderr.isatty():
        with LiveWatch(Console(stderr=True)) as watch:
            session.watch = watch
            return session.run()
    session.watch = PlainWatch(sys.stderr)
    return session.run()


def _survey(sweep: Any, as_json: bool) -> None:
    from dataclasses import asdict

    found = _counted(sweep)
    lines = [
        f"{sweep.path}: {found.points} points, {found.fit} fit, {found.kernels} different kernels, "
        f"{len(sweep.problems)} problems"
    ]
    if found.rules:
        lines.append("removed by (points that break it; points that break nothing else)")
    for rule in found.rules:
        lines.append(f"{rule.points:>7} {rule.alone:>7}  {rule.rule}")
        if rule.example != rule.rule:
            lines.append(f"{'':>17}e.g. {rule.example}")
    lines += [f"warning: {text}" for text in found.warnings]
    emit(as_json, asdict(found), "\n".join(lines))


def _counted(sweep: Any) -> Any:
    """The survey of a sweep, with a bar on a terminal while its points are walked."""
    import sys

    from rich.console import Console

    from kgen.sweep.progress import LiveWatch
    from kgen.sweep.space import points_of
    from kgen.sweep.survey import survey

    if not sys.stderr.isatty():
        return survey(sweep, points_of(sweep))
    with LiveWatch(Console(stderr=True), transient=True) as watch:
        watch.phase("points", sweep.size)
        return survey(sweep, points_of(sweep, watch.step))


def _summary(path: Path, name: str, outcome: str, as_json: bool) -> None:
    from kgen.sweep.listing import rows_of, table_text
    from kgen.sweep.store import Store

    with Store.read(path) as store:
        data = {"results": str(path), "outcome": outcome}
        if as_json:
            data["rows"] = rows_of(store, name)  # type: ignore[assignment]
        emit(as_json, data, f"{table_text(store, name)}\n\nin {path}; kgen report {path}")


def show(
    path: Annotated[
        Path, typer.Argument(help="Folder of kgen bench's result files, or a sweep's results file.")
    ] = Path("benchmarks/results"),
    specs: Annotated[Path, typer.Option(help="Specs whose sources count as current.")] = Path(
        "specs"
    ),
    update: Annotated[
        Path | None, typer.Option(help="Markdown file whose tables are rewritten.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(help="SVG file that shows the Hopper ladder.")
    ] = None,
    name: SweepName = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Every point of a sweep as CSV.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Kernels shown of each problem.")] = 10,
    as_json: Json = False,
) -> None:
    """Measured results as a table, CSV or JSON; or the table of a README."""
    from kgen.errors import KgenError

    if path.is_dir() or not path.suffix:
        if as_csv or name is not None:
            raise KgenError("--csv and --sweep are for a sweep's results file")
        _show_folder(path, specs, update, chart, as_json)
        return
    from kgen.sweep.listing import as_csv as csv_text
    from kgen.sweep.listing import rows_of, table_text
    from kgen.sweep.queries import sweeps_of
    from kgen.sweep.store import Store

    if update is not None or chart is not None:
        raise KgenError("--update and --chart are for a folder of kgen bench's results")
    with Store.read(path) as store:
        names = [name] if name else sweeps_of(store)
        rows = [row for n in names for row in rows_of(store, n)] if as_csv or as_json else []
        if as_csv:
            say(csv_text(rows), end="")
            return
        text = "\n\n".join(table_text(store, n, top) for n in names)
        emit(as_json, rows, text or f"{path}: no sweep was started in it yet")


def _show_folder(
    folder: Path, specs: Path, update: Path | None, chart: Path | None, as_json: bool
) -> None:
    import json

    from kgen.bench.ladder import ladder_chart, ladder_table, rungs
    from kgen.bench.results import dump_result, load_results
    from kgen.bench.tables import results_table, update_readme
    from kgen.check import current_digests
    from kgen.errors import KgenError
    from kgen.files import write_whole

    if not folder.is_dir():
        raise KgenError(f"{folder}: no such folder of results")
    found, digests = load_results(folder), current_digests(specs)
    ladder = rungs(specs / "hopper")
    if update is not None:
        table = ladder_table(ladder, found, digests)
        changed = update_readme(update, found, digests, table)
        note(f"{update}: {'rewritten' if changed else 'already up to date'}")
    if chart is not None:
        write_whole(chart, ladder_chart(ladder, found, digests).encode())
        note(f"{chart}: written")
    if update is not None or chart is not None:
        return
    emit(as_json, [json.loads(dump_result(r)) for r in found], results_table(found, digests))


def key(
    path: Annotated[Path, typer.Argument(help="A sweep's results file.")],
    what: Annotated[str, typer.Argument(help="Key or its beginning, kernel, or source digest.")],
    as_json: Json = False,
) -> None:
    """What a key of recorded work is made of: a change of any part does that work again."""
    from kgen.sweep.keys import MEANINGS
    from kgen.sweep.queries import key_parts
    from kgen.sweep.store import Store

    with Store.read(path) as store:
        found = key_parts(store, what)
    lines = []
    for digest, parts in found.items():
        lines.append(digest)
        lines += [
            f"  {part:<10} {value:<40} {MEANINGS.get(part, '')}".rstrip()
            for part, value in parts.items()
        ]
    emit(as_json, found, "\n".join(lines))


def report(
    path: Annotated[Path, typer.Argument(help="A sweep's results file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="HTML file; default beside the results.")
    ] = None,
    name: SweepName = None,
) -> None:
    """Write one offline HTML file with pictures of a sweep."""
    from kgen.files import write_whole
    from kgen.report import page

    text = page(path, name)  # which also finds that the path is no file
    target = output or path.with_suffix(".html")
    write_whole(target, text.encode())
    say(str(target))
