"""How commands print: text for people, JSON for programs, errors on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kgen.check import Drift

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

EXIT_NO = 1
EXIT_WRONG_QUESTION = 2
EXIT_CANNOT = 3
EXIT_UNKNOWN = 4


def emit(as_json: bool, data: Any, text: str) -> None:
    """Print a report once, in the form that was asked for."""
    say(json.dumps(data, indent=2, sort_keys=True, default=str) if as_json else text)


def say(text: str, end: str = "\n") -> None:
    """Print to standard output at once, so that a full disk is noticed and named."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def note(text: str) -> None:
    """A remark beside the answer, on standard error."""
    print(text, file=sys.stderr)


def drift_report(drifts: Iterable[Drift]) -> tuple[list[dict[str, str]], list[str]]:
    """What `kgen check` found, as rows for JSON and as lines of text with diff and repair."""
    data, lines = [], []
    for d in drifts:
        row = {"path": str(d.path), "kind": d.kind, "what": d.what}
        data.append(row | {"repair": d.repair, "diff": d.diff})
        lines.append(d.what if d.kind == "bad spec" else f"{d.path}: {d.kind}: {d.what}")
        lines += [f"    {line}" for line in d.diff.split("\n")[:40] if line]
        lines += [f"    repair: {d.repair}"] if d.repair else []
    return data, lines
