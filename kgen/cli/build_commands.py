"""Commands around the compilers: build, toolchain, doctor."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kgen.cli.output import EXIT_CANNOT, Json, emit, note

Toolchain = Annotated[
    str,
    typer.Option(
        help="`private` (kgen's own compilers), `system` (nvcc on PATH), or a toolkit folder."
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command()(build)
    app.command()(doctor)
    group = typer.Typer(
        help="Install, list and check kgen's private compilers.", no_args_is_help=True
    )
    for name, command in (("install", install), ("list", listing), ("check", check)):
        group.command(name)(command)
    app.add_typer(group, name="toolchain")


def build(
    spec: Annotated[Path, typer.Argument(help="Spec file.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also copy the artefact here.")
    ] = None,
    compiler: Annotated[str, typer.Option(help="nvrtc or nvcc.")] = "nvrtc",
    emit_kind: Annotated[
        str, typer.Option("--emit", help="cubin, ptx, or so (with the C launcher).")
    ] = "cubin",
    toolchain: Toolchain = "private",
    as_json: Json = False,
) -> None:
    """Compile a spec's kernel and hold the result against the ptxas gate. Needs no GPU."""
    from kgen import api
    from kgen.build.compile import build_shared_library
    from kgen.files import write_whole

    _require("--compiler", compiler, ("nvrtc", "nvcc"))
    _require("--emit", emit_kind, ("cubin", "ptx", "so"))
    plan = api.lower(api.load_spec(spec))
    if emit_kind == "so":
        source = api.render(plan).source
        path = build_shared_library(source, name=plan.name, target=plan.target, toolchain=toolchain)
        data: dict[str, Any] = {"kernel": plan.name, "path": str(path)}
        text = f"{plan.name}: C launcher in {path}"
    else:
        artifact = api.build(plan, compiler=compiler, emit=emit_kind, toolchain=toolchain)  # type: ignore[arg-type]
        path, data = artifact.path, _report(plan.name, artifact)
        text = describe_build(plan, artifact)
    if output is not None:
        target = output / path.name if output.is_dir() else output
        write_whole(target, path.read_bytes())
        data["copy"] = str(target)
    emit(as_json, data, text)


def _require(option: str, value: str, legal: tuple[str, ...]) -> None:
    from kgen.errors import KgenError

    if value not in legal:
        raise KgenError(f"{option}: {value} is not one of {', '.join(legal)}")


def _report(name: str, artifact: Any) -> dict[str, Any]:
    return {
        "kernel": name,
        "path": str(artifact.path),
        "kind": artifact.kind,
        "compiler": artifact.compiler,
        "key": artifact.key,
        "seconds": artifact.seconds,
        "cached": artifact.cached,
        "resources": [asdict(r) for r in artifact.resources],
        "notes": list(artifact.notes),
    }


def describe_build(plan: Any, artifact: Any) -> str:
    """The result of a build, for people."""
    how = "from the cache" if artifact.cached else f"in {artifact.seconds:.2f} s"
    compiler = " ".join(artifact.compiler.split()[:2])
    lines = [f"{plan.name}: {artifact.kind} by {compiler} {how}"]
    cap = plan.budget.launch_cap
    role = max(plan.budget.roles, key=lambda r: r.registers)
    article = "an" if role.name[0] in "aeiou" else "a"
    for r in (r for r in artifact.resources if r.is_kernel):
        lines.append(
            f"  {r.kernel}: {r.registers} registers of {cap} at launch (budget: about "
            f"{role.registers} for {article} {role.name}), "
            f"{r.spill_store_bytes + r.spill_load_bytes} spill bytes, {r.stack_bytes} stack bytes"
        )
    lines += [f"  {text}" for text in artifact.notes]
    lines.append(f"  {artifact.path}")
    return "\n".join(lines)


def install() -> None:
    """Install the pinned compilers into kgen's private environment; says what it downloads."""
    from kgen.build import toolchain

    toolchain.install()


def listing(as_json: Json = False) -> None:
    """Show the pinned compilers and where they are installed."""
    from kgen.build import toolchain

    status = toolchain.status()
    lines = [f"toolchain {status.release}, lock {status.digest}: {status.state}, {status.home}"]
    lines += [f"  {name} {version}" for name, version in status.pins.items()]
    emit(as_json, asdict(status), "\n".join(lines))


def check(as_json: Json = False) -> None:
    """Say whether the private compilers work; exit code 3 if not."""
    from kgen.build import toolchain

    status = toolchain.status()
    text = f"toolchain {status.release}: {status.state}"
    if status.problem:
        text += f": {status.problem}; run: {toolchain.INSTALL_COMMAND}"
    emit(as_json, asdict(status), text)
    if status.state != "installed":
        raise typer.Exit(EXIT_CANNOT)


def doctor(as_json: Json = False) -> None:
    """Say what works on this machine, and for what does not, why."""
    from kgen.doctor import examine

    rows = examine()
    width = max(len(row.what) for row in rows) + 2
    lines = [f"{'yes' if row.works else 'no ':<5}{row.what:<{width}}{row.detail}" for row in rows]
    emit(as_json, [asdict(row) for row in rows], "\n".join(lines))
    if not rows[0].works:
        note("rendering does not work: this installation is damaged")
        raise typer.Exit(EXIT_CANNOT)
