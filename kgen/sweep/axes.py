"""Axes and constraints of a sweep: values at field paths, and expressions that must hold.

Knows the paths of the spec's schema, nothing of what a value does there.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kgen.errors import DeviceError
from kgen.spec.fields import legal_paths

Path = tuple[str, ...]
_UNFIT = (TypeError, ValueError, ArithmeticError, KeyError)  # values that an operator cannot take
BASE_AXIS = "base"
_ARITHMETIC = (
    *(("gemm", operand, "dtype") for operand in "abd"),
    *(("gemm", field) for field in ("accumulator", "block_scale", "global_scale")),
)
INSTALL = "pip install pebble simpleeval, or kgen with its extra `sweep`"


@dataclass(frozen=True)
class Axis:
    """One direction of the space. A map as value sets several fields below the path together."""

    path: str
    values: tuple[Any, ...]

    @cached_property
    def parts(self) -> Path:
        """The path as the spec's tree has it."""
        return tuple(self.path.split("."))

    @cached_property
    def sets_kind(self) -> bool:
        """Whether a value of this axis may decide which fields others can set."""
        return self.parts[-1] == "kind" or any(isinstance(v, dict) for v in self.values)

    @property
    def leaves(self) -> frozenset[Path]:
        """Every field that some value of this axis sets."""
        return frozenset(leaf for value in self.values for leaf in _leaves(self.parts, value))


def _leaves(path: Path, value: Any) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves((*path, str(key)), item)
    else:
        yield path


def unknown_path(path: str) -> str:
    """Why a path cannot be an axis; empty if it can."""
    legal = {".".join(p) for p in legal_paths() if p[0] not in ("name", "verify")}
    if path in legal:
        return ""
    if path.split(".")[0] == "name":
        return "kernels of a sweep get a name from what they are: set the sweep's `name`"
    if path.split(".")[0] == "verify":
        return "how a kernel is checked is the same for all; set it in the base spec"
    near = difflib.get_close_matches(path, legal, n=1, cutoff=0.5)
    same_end = sorted(p for p in legal if p.rsplit(".", 1)[-1] == path.rsplit(".", 1)[-1])
    found = same_end or near
    return "no field of a spec" + (f"; the nearest is {found[0]}" if found else "")


def overlap(one: Axis, other: Axis) -> str:
    """The field that two axes both set, dotted; empty if there is none."""
    for a in sorted(one.leaves):
        for b in sorted(other.leaves):
            shorter, longer = sorted((a, b), key=len)
            if longer[: len(shorter)] == shorter:
                return ".".join(longer)
    return ""


def with_value(data: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of a spec's data with a value at a path; maps merge, the rest is replaced."""
    result = copied(data)
    put_value(result, path, value)
    return result


def copied(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose maps are its own."""
    return {k: copied(v) if isinstance(v, dict) else v for k, v in data.items()}


def put_value(data: dict[str, Any], path: Path, value: Any) -> None:
    """What `with_value` does, in place."""
    *above, key = path
    for part in above:
        data = _map_at(data, part)
    if isinstance(value, dict):
        inner = _map_at(data, key)
        for name, item in value.items():
            put_value(inner, (str(name),), item)
    else:
        data[key] = value


def _map_at(data: dict[str, Any], key: str) -> dict[str, Any]:
    inner = data.get(key)
    if not isinstance(inner, dict):
        inner = data[key] = {}
    return inner


def arithmetic(data: Mapping[str, Any]) -> dict[str, Any]:
    """What of a spec's data decides the values of D: field paths to types and scales, or None."""
    return {".".join(p): None if _missing(data, p) else _lookup(data, p) for p in _ARITHMETIC}


class ConstraintError(ValueError):
    """An expression that cannot be read, or names what is no field."""


@dataclass(frozen=True)
class Constraint:
    """A named condition over fields: `schedule.tile.m * schedule.tile.n <= 32768`."""

    name: str
    text: str

    @cached_property
    def _evaluator(self) -> Any:
        # No functions: a condition compares, computes and combines fields, nothing else.
        return _simpleeval().EvalWithCompoundTypes(functions={})

    @cached_property
    def _parsed(self) -> Any:
        return self._evaluator.parse(self.text)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The field paths that the expression names. Raises ConstraintError if it has no meaning"""
        try:
            tree = ast.parse(self.text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConstraintError(f"not an expression: {getattr(error, 'msg', error)}") from None
        found = sorted(set(_dotted_names(tree.body)))
        if not found:
            raise ConstraintError("names no field, so it holds for all points or for none")
        return tuple(found)

    def holds(self, fields: Mapping[str, Any]) -> bool | None:
        """Whether the condition is met; None where a point lacks a field that it names.

        fields  the spec's data, nested maps
        Raises  ConstraintError where the values cannot be compared
        """
        if any(_missing(fields, path.split(".")) for path in self.paths):
            return None
        self._evaluator.names = dict(fields)
        try:
            return bool(self._evaluator.eval(self.text, previously_parsed=self._parsed))
        except (
            _simpleeval().InvalidExpression,
            TypeError,
            ValueError,
            ArithmeticError,
            KeyError,
        ) as error:
            raise ConstraintError(str(error)) from None

    def shown(self, fields: Mapping[str, Any]) -> str:
        """The condition with the values it met: `schedule.stages = 4`."""
        return ", ".join(f"{path} = {_lookup(fields, path.split('.'))}" for path in self.paths)


def _simpleeval() -> Any:
    """The library behind constraints; looked for when a sweep has some."""
    try:
        import simpleeval
    except ImportError as error:
        raise DeviceError(f"constraints need simpleeval ({error}); {INSTALL}") from error
    return simpleeval


def _dotted_names(node: ast.AST) -> Iterator[str]:
    """Whole attribute chains, each once; `a.b.c` yields `a.b.c` only."""
    if isinstance(node, ast.Attribute):
        chain: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield ".".join([inner.id, *reversed(chain)])
            return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _dotted_names(child)


def _lookup(fields: Any, path: Iterable[str]) -> Any:
    for part in path:
        fields = fields[part]
    return fields


def _missing(fields: Any, path: Iterable[str]) -> bool:
    try:
        return _lookup(fields, path) is None
    except (KeyError, TypeError):
        return True
