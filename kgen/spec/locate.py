"""From a field path to a place in a file, and from pydantic's errors to kgen's diagnostics."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kgen.errors import Diagnostic
from kgen.spec.fields import kinds_at, unknown_key
from kgen.spec.model import KernelSpec
from kgen.spec.tree import FieldPath, Position, Tree, dotted


@dataclass(frozen=True)
class Violation:
    """A rule that a spec breaks, before its place in a file is known."""

    path: FieldPath
    what: str
    table: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()


def locate(tree: Tree, path: FieldPath) -> Position:
    """The value at `path`, or the nearest parent that the file spells out."""
    for length in range(len(path), -1, -1):
        if path[:length] in tree.values:
            return tree.values[path[:length]]
    return Position("<spec>", 0, 0, "")


def to_diagnostic(tree: Tree, violation: Violation) -> Diagnostic:
    """A violation with its place."""
    at = locate(tree, violation.path)
    return Diagnostic(
        at.path,
        at.line,
        at.column,
        dotted(violation.path),
        violation.what,
        at.source,
        violation.table,
        violation.fixes,
    )


def _what(tree: Tree, error: ErrorDetails, path: FieldPath, model: type[BaseModel]) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return unknown_key(tree.data, path, value, model)
    if kind == "missing":
        return "missing"
    if kind == "union_tag_not_found":
        return f"missing; one of {listed(kinds_at(path[:-1], tree.data))}"
    if kind == "union_tag_invalid":
        return _not_one_of(value["kind"], kinds_at(path[:-1], tree.data))
    if kind == "literal_error":
        legal = str(context["expected"]).replace("'", "")
        return _not_one_of(value, legal.replace(" or ", ", ").split(", "))
    if kind in ("model_type", "model_attributes_type"):
        return f"must be a map of fields, not {_shown(value)}"
    if kind == "tuple_type":
        return f"{_shown(value)} should be a list"
    message = error["msg"].removeprefix("Value error, ")
    rule = re.fullmatch(r"(?:Input|String) (should .+)", message, re.DOTALL)
    return f"{_shown(value)} {rule[1]}" if rule else message


def listed(words: Sequence[str]) -> str:
    """Alternatives as a person lists them: a, b or c."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _not_one_of(value: Any, legal: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(value), legal, n=1)
    text = f"{_shown(value)} is not {'one of ' if len(legal) > 1 else ''}{listed(legal)}"
    return f"{text}; the nearest is {near[0]}" if near else text


def _shown(value: Any) -> str:
    """A value as YAML writes it: text that looks like something else is quoted."""
    if value is None:
        return "null"
    text = str(value)
    if isinstance(value, bool | dict | list):
        text = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str) and (not value or _LOOKS_PLAIN.fullmatch(value)):
        text = f'"{value}"'
    return text if len(text) <= 60 else text[:57] + "..."


_LOOKS_PLAIN = re.compile(r"[-+.]*\d[\d_.e+-]*|true|false|null|~", re.IGNORECASE)


def from_pydantic(
    tree: Tree, error: ValidationError, model: type[BaseModel] = KernelSpec
) -> list[Diagnostic]:
    """One diagnostic per broken field, in file order; `model` is what the file was held against.

    A field of several types (`auto` or a number) fails once per type; those are joined.
    """
    details = [(_in_file(tree, detail), detail) for detail in error.errors(include_url=False)]
    inside = {path[:length] for path, _ in details for length in range(len(path))}
    found: dict[FieldPath, list[str]] = {}
    for path, detail in details:
        if path in inside and detail["type"] == "literal_error":
            continue  # a map or a list was meant, and what is wrong in it has its own place
        texts = found.setdefault(path, [])
        what = _what(tree, detail, path, model)
        if what not in texts:
            texts.append(what)
    diagnostics = []
    for path, texts in found.items():
        at = tree.keys.get(path) if texts[0].startswith(("unknown", "misplaced")) else None
        at = at or locate(tree, path)
        diagnostics.append(at.diagnostic(dotted(path), "; or ".join(texts)))
    return sorted(diagnostics, key=lambda d: (d.path, d.line, d.column))


def _in_file(tree: Tree, detail: ErrorDetails) -> FieldPath:
    """pydantic's `loc` without the union tags that no file spells out."""
    path: FieldPath = ()
    loc = detail["loc"]
    tagged: FieldPath | None = None
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if path != tagged and part == _kind(tree, path):
            tagged = path  # the tag of this map, unless a key of the same name follows
        elif (*path, part) in tree.values or (last and detail["type"] == "missing"):
            path = (*path, part)
    return (*path, "kind") if detail["type"].startswith("union_tag_") else path


def _kind(tree: Tree, path: FieldPath) -> Any:
    """The `kind` of the map at `path`, if the schema tells maps apart by it there."""
    value = tree.data
    for part in path:
        value = value[part]
    return value.get("kind") if isinstance(value, dict) and kinds_at(path) else None
