"""From a field path to a place in a file, and from pydantic's errors to kgen's diagnostics."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kgen.errors import Diagnostic
from kgen.spec.model import KernelSpec
from kgen.spec.names import NAME_LENGTH
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


@cache
def legal_paths(model: type[BaseModel] = KernelSpec) -> tuple[tuple[str, ...], ...]:
    """Every field path of the schema, in schema order."""
    paths: list[tuple[str, ...]] = []
    for name, info in model.model_fields.items():
        paths.append((name,))
        for nested in _models_in(info.annotation):
            paths += [(name, *rest) for rest in legal_paths(nested)]
    return tuple(paths)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for argument in get_args(annotation) for m in _models_in(argument)]


# Keys that other targets, other tools or other units would suggest.
_KNOWN_STRANGERS = {
    "mma_k": "the K of one wgmma is fixed at 32 bytes (16 elements of f16 or bf16), so there is "
    "no field; {value} bytes would be {elements} elements of f16, {value} elements would be "
    "{bytes} bytes",
    "collector": "a collector belongs to tcgen05; wgmma has none",
    "tmem": "tensor memory belongs to tcgen05; wgmma accumulates in registers",
}


def _unknown_key(path: FieldPath, value: Any, model: type[BaseModel]) -> str:
    key = str(path[-1])
    parent = tuple(p for p in path[:-1] if isinstance(p, str))
    legal = legal_paths(model)
    if key in _KNOWN_STRANGERS:
        number = value if isinstance(value, int) else 0
        text = _KNOWN_STRANGERS[key]
        return "unknown key: " + text.format(value=value, elements=number // 2, bytes=number * 2)
    elsewhere = [p for p in legal if p[-1] == key]
    if elsewhere:
        places = " or ".join(dotted(p) for p in elsewhere[:3])
        return f"misplaced key, it belongs at {places}"
    near = max(legal, key=lambda p: _closeness(key, parent, p))
    if _closeness(key, parent, near) > 0:
        name = f"`{near[-1]}`" if near[:-1] == parent else dotted(near)
        return f"unknown key, the nearest is {name}"
    siblings = [p[-1] for p in legal if p[:-1] == parent]
    return f"unknown key, known here: {', '.join(siblings) or 'none'}"


def _closeness(key: str, parent: FieldPath, path: tuple[str, ...]) -> float:
    """How well a field fits a misspelt key, above 0 if well enough: alike, near, not deep."""
    alike = difflib.SequenceMatcher(None, key[:NAME_LENGTH], path[-1]).ratio()
    if path[:-1] == parent:
        return alike - 0.5
    return alike - 0.55 - 0.05 * (len(path) - 1) if alike >= 0.65 else 0.0


def _what(error: ErrorDetails, path: FieldPath, model: type[BaseModel]) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return _unknown_key(path, value, model)
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        legal = str(context["expected"]).replace("'", "")
        near = difflib.get_close_matches(str(value), legal.replace(" or ", ", ").split(", "), n=1)
        text = (
            f"{_shown(value)} is not {'one of ' if ',' in legal or ' or ' in legal else ''}{legal}"
        )
        return f"{text}; the nearest is {near[0]}" if near else text
    if kind in ("model_type", "model_attributes_type"):
        return f"must be a map of fields, not {_shown(value)}"
    text = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    if text != error["msg"]:
        return f"{_shown(value)} should be {text}"
    return text


def _shown(value: Any) -> str:
    """A value as YAML writes it: text that looks like something else is quoted."""
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
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
    found: dict[FieldPath, list[str]] = {}
    for detail in error.errors(include_url=False):
        path = _in_file(tree, detail)
        texts = found.setdefault(path, [])
        what = _what(detail, path, model)
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
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if (*path, part) in tree.values or (last and detail["type"] == "missing"):
            path = (*path, part)
    return path
