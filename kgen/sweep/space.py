"""Every point of a sweep: its spec, or the rules that it breaks. Compiles and renders nothing."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from kgen.budget import violations as budget_violations
from kgen.budget.fit import budget_of
from kgen.spec import KernelSpec, LoadedSpec, Violation
from kgen.spec.fields import legal_paths
from kgen.spec.locate import from_pydantic
from kgen.spec.rules import violations as rule_violations
from kgen.spec.tree import Position, Tree, dotted
from kgen.sweep.axes import (
    BASE_AXIS,
    Axis,
    Constraint,
    ConstraintError,
    Path,
    copied,
    put_value,
    with_value,
)
from kgen.sweep.figures import static_figures
from kgen.sweep.load import Sweep
from kgen.sweep.model import DIGEST_DIGITS, kernel_name

_NUMBER = re.compile(r"\d[\d.]*")
_SEED = 1  # of the order in which a budget of points walks the space


@dataclass(frozen=True)
class Loss:
    """One rule that a point breaks: the rule in words without numbers, and the case at hand."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Point:
    """One combination of axis values. A point that fits has a spec and no losses.

    values  path to value; None where the schedule's kind has no such field
    twin  index of the earlier point whose kernel is the same, `auto` resolved; -1 if there is none
    """

    index: int
    values: dict[str, Any]
    loaded: LoadedSpec | None = None
    losses: tuple[Loss, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    twin: int = -1

    @property
    def fits(self) -> bool:
        """Whether there is a kernel for it."""
        return not self.losses

    @property
    def values_key(self) -> str:
        """The values as text that does not depend on the order of the axes."""
        return json.dumps(self.values, sort_keys=True, default=str)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without the cycle collector: points hold no cycles, and it would walk all of them again and
    again, a sixth of the time in a large space.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collector()
def points_of(sweep: Sweep, step: Callable[[str], None] = lambda status: None) -> list[Point]:
    """Every point in the order of the file, the last axis fastest.

    step  is told of each in turn whether it `fits` or is `infeasible`
    """
    seen: dict[str, int] = {}
    found = []
    starts: dict[tuple[int, ...], _Start] = {}
    first = [i for i, axis in enumerate(sweep.axes) if _comes_first(axis)]
    for index, chosen in enumerate(itertools.product(*(enumerate(a.values) for a in sweep.axes))):
        values = {axis.path: v for axis, (_, v) in zip(sweep.axes, chosen, strict=True)}
        key = tuple(chosen[i][0] for i in first)
        if key not in starts:
            starts[key] = _start(sweep, values)
        point = _point(sweep, starts[key], index, values)
        if point.loaded is not None:
            twin = seen.setdefault(point.loaded.spec.name, index)
            point = replace(point, twin=twin if twin != index else -1)
        found.append(point)
        step("fits" if point.fits else "infeasible")
    return found


def chosen_points(sweep: Sweep, points: list[Point]) -> list[Point]:
    """The points to work on, one per kernel; a budget of points takes a spread of them.

    The same sweep file gives the same choice, and a larger budget only adds to it.
    """
    found = [p for p in points if p.fits and p.twin < 0]
    most = sweep.file.budget.points
    if most is None or most >= len(found):
        return found
    walk = sorted(found, key=lambda p: p.values_key)
    random.Random(_SEED).shuffle(walk)
    return sorted(walk[:most], key=lambda p: p.index)


@dataclass(frozen=True)
class _Start:
    """What points share that have the same base and kinds: their data so far, and its fields."""

    base: LoadedSpec
    data: dict[str, Any]
    fields: frozenset[Path]


def _comes_first(axis: Axis) -> bool:
    """Whether an axis may decide which fields the others can set."""
    return axis.path == BASE_AXIS or axis.sets_kind


def _start(sweep: Sweep, values: dict[str, Any]) -> _Start:
    base = sweep.bases[values.get(BASE_AXIS, next(iter(sweep.bases)))]
    data = dict(base.tree.data) | {"name": kernel_name(sweep.name)}
    for axis in sweep.axes:
        if axis.path != BASE_AXIS and axis.sets_kind:
            data = with_value(data, axis.parts, values[axis.path])
    return _Start(base, data, frozenset(legal_paths(_kinds(data))))


def _point(sweep: Sweep, start: _Start, index: int, values: dict[str, Any]) -> Point:
    data = copied(start.data)
    for axis in sweep.axes:
        if _comes_first(axis):
            continue
        if axis.parts in start.fields:
            put_value(data, axis.parts, values[axis.path])
            continue
        if values[axis.path] != axis.values[0]:
            what = f"{axis.path}: no field of this kind, so its values make one point"
            return Point(index, values, losses=(Loss(what, what),))
        values = values | {axis.path: None}
    try:
        spec = KernelSpec.model_validate(data)
    except ValidationError as error:
        return Point(index, values, losses=tuple(_schema_losses(start.base, data, error)))
    losses = [_loss(v) for v in rule_violations(spec)]
    fields = spec.model_dump() if sweep.constraints else {}
    losses += _unmet(sweep.constraints, fields, {})
    if losses:
        return Point(index, values, losses=tuple(losses))
    budget = budget_of(spec)
    figures = static_figures(budget)
    losses += [_loss(v) for v in budget_violations(budget)]
    losses += _unmet(sweep.constraints, fields, figures)
    if losses:
        return Point(index, values, losses=tuple(losses), figures=figures)
    name = kernel_name(sweep.name, _code_digest(budget.spec))
    loaded = LoadedSpec(
        spec.model_copy(update={"name": name}),
        sweep.label,
        Tree(data | {"name": name}, start.base.tree.keys, start.base.tree.values),
    )
    return Point(index, values, loaded, figures=figures)


def _kinds(data: Any) -> Any:
    """The maps of a spec with nothing in them but their kinds."""
    maps = {k: _kinds(v) for k, v in data.items() if isinstance(v, dict)}
    return maps | ({"kind": data["kind"]} if "kind" in data else {})


def _code_digest(resolved: KernelSpec) -> str:
    """Digest of what decides the code: every `auto` resolved, neither name nor checks.

    Defaults are left out, so that a kernel keeps its name when specs get one more field.
    """
    values = resolved.model_dump(mode="json", exclude={"name", "verify"}, exclude_defaults=True)
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def _schema_losses(base: LoadedSpec, data: Any, error: ValidationError) -> Iterator[Loss]:
    """What the schema refuses: a value out of range, or a field that the schedule does not have."""
    for found in from_pydantic(Tree(data, {}, _every_path(data)), error):
        yield Loss(f"schema: {found.field}: {without_numbers(found.what)}", found.what)


def _every_path(data: Any, path: tuple[str | int, ...] = ()) -> dict[Any, Any]:
    """Positions are unknown here; the locator only asks which paths the data spells out."""
    found = {path: Position("<sweep>", 0, 0, "")}
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs if isinstance(data, dict | list) else ():
        if isinstance(value, dict | list):
            found |= _every_path(value, (*path, key))
        else:
            found[(*path, key)] = found[path]
    return found


def _loss(violation: Violation) -> Loss:
    place = dotted(violation.path)
    reason = f"{place}: {violation.what}"
    if violation.table:
        reason += "\n" + "\n".join(f"    {row}" for row in violation.table)
    return Loss(f"{place}: {without_numbers(violation.what)}", reason)


def without_numbers(text: str) -> str:
    """Numbers as N, so that one rule is one row of a table."""
    text = re.sub(r"\b(sm_\d+\w*|f\d+|bf\d+|C\d{4})\b", lambda m: f"\0{m[0]}\0", text)
    parts = text.split("\0")
    return "".join(p if i % 2 else _NUMBER.sub("N", p) for i, p in enumerate(parts))


def _unmet(
    constraints: tuple[Constraint, ...], fields: dict[str, Any], figures: dict[str, float]
) -> Iterator[Loss]:
    """Constraints over fields in the first pass, those over figures in the second."""
    names = fields | figures
    for constraint in constraints:
        needs_figures = any("." not in path and path not in fields for path in constraint.paths)
        if needs_figures != bool(figures):
            continue
        rule = f"constraint {constraint.name}: {constraint.text}"
        try:
            holds = constraint.holds(names)
        except ConstraintError as error:
            yield Loss(rule, f"constraint {constraint.name} cannot be computed: {error}")
            continue
        if holds is False:
            yield Loss(rule, f"constraint {constraint.name}: {constraint.shown(names)}")
