"""Every point of a sweep: its spec, or the rules that it breaks. Compiles and renders nothing."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import ValidationError

from kgen.budget import violations as budget_violations
from kgen.budget.fit import budget_of
from kgen.errors import KgenError
from kgen.spec import KernelSpec, LoadedSpec, Violation
from kgen.spec.fields import legal_paths
from kgen.spec.locate import from_pydantic
from kgen.spec.rules import violations as rule_violations
from kgen.spec.tree import Position, Tree, dotted
from kgen.sweep.axes import BASE_AXIS, Constraint, ConstraintError, Path, with_value
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


def points_of(sweep: Sweep) -> list[Point]:
    """Every point in the order of the file, the last axis fastest."""
    seen: dict[str, int] = {}
    found = []
    paths = [axis.path for axis in sweep.axes]
    for index, chosen in enumerate(itertools.product(*(axis.values for axis in sweep.axes))):
        point = _point(sweep, index, dict(zip(paths, chosen, strict=True)))
        if point.loaded is not None:
            twin = seen.setdefault(point.loaded.spec.name, index)
            point = replace(point, twin=twin if twin != index else -1)
        found.append(point)
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


def _point(sweep: Sweep, index: int, values: dict[str, Any]) -> Point:
    base = sweep.bases[values.get(BASE_AXIS, next(iter(sweep.bases)))]
    data = dict(base.tree.data) | {"name": kernel_name(sweep.name)}
    axes = [axis for axis in sweep.axes if axis.path != BASE_AXIS]
    # What may set a `kind` comes first: it decides which fields the others can set.
    for axis in axes:
        if axis.sets_kind:
            data = with_value(data, axis.parts, values[axis.path])
    fields = _fields_under(json.dumps(_kinds(data), sort_keys=True))
    for axis in axes:
        if axis.sets_kind:
            continue
        if axis.parts in fields:
            data = with_value(data, axis.parts, values[axis.path])
            continue
        if values[axis.path] != axis.values[0]:
            what = f"{axis.path}: no field of this kind, so its values make one point"
            return Point(index, values, losses=(Loss(what, what),))
        values = values | {axis.path: None}
    try:
        spec = KernelSpec.model_validate(data)
    except ValidationError as error:
        return Point(index, values, losses=tuple(_schema_losses(base, data, error)))
    losses = [_loss(v) for v in rule_violations(spec)]
    losses += _unmet(sweep.constraints, spec.model_dump(), {})
    if losses:
        return Point(index, values, losses=tuple(losses))
    budget = budget_of(spec)
    figures = static_figures(budget)
    losses += [_loss(v) for v in budget_violations(budget)]
    losses += _unmet(sweep.constraints, spec.model_dump(), figures)
    if losses:
        return Point(index, values, losses=tuple(losses), figures=figures)
    name = kernel_name(sweep.name, _code_digest(budget.spec))
    loaded = LoadedSpec(
        spec.model_copy(update={"name": name}),
        sweep.label,
        Tree(data | {"name": name}, base.tree.keys, base.tree.values),
    )
    return Point(index, values, loaded, figures=figures)


@cache
def _fields_under(kinds: str) -> frozenset[Path]:
    """Every field of the schema, given the kinds that a spec names (`_kinds` as JSON)."""
    return frozenset(legal_paths(json.loads(kinds)))


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


@dataclass(frozen=True)
class RuleCount:
    """What one rule costs: points that break it, points that break nothing else, and a case."""

    rule: str
    points: int
    alone: int
    example: str


@dataclass(frozen=True)
class Survey:
    """What became of a space before anything was compiled."""

    points: int
    fit: int
    kernels: int
    rules: tuple[RuleCount, ...]
    warnings: tuple[str, ...]


def survey(sweep: Sweep, points: list[Point]) -> Survey:
    """Count what every rule removes, and find axis values that no point survives with."""
    hits: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    example: dict[str, str] = {}
    for point in points:
        broken = {loss.rule: loss.reason for loss in point.losses}
        hits.update(broken.keys())
        if len(broken) == 1:
            alone.update(broken.keys())
        for rule, reason in broken.items():
            example.setdefault(rule, reason.splitlines()[0])
    rules = tuple(RuleCount(r, n, alone[r], example[r]) for r, n in hits.most_common())
    warnings = [w for axis in sweep.axes for w in _dead_values(axis.path, axis.values, points)]
    fit = [p for p in points if p.fits]
    if not fit:
        warnings.insert(0, "no point of this space fits: nothing will be compiled")
    return Survey(len(points), len(fit), sum(p.twin < 0 for p in fit), rules, tuple(warnings))


def _dead_values(path: str, values: tuple[Any, ...], points: list[Point]) -> Iterator[str]:
    for value in values:
        mine = [p for p in points if p.values[path] == value]
        if mine and not any(p.fits for p in mine):
            reasons = Counter(loss.rule for p in mine for loss in p.losses)
            rule, count = reasons.most_common(1)[0]
            yield f"{path} = {value}: none of {len(mine)} points survives; {count} break: {rule}"


def require_points(sweep: Sweep, found: Survey) -> None:
    """Raises KgenError, with the commonest rules, when no point of the space fits."""
    if not found.fit:
        lines = [f"{sweep.path}: the space is empty: none of {found.points} points fits"]
        lines += [f"    {r.points:>6} points break {r.rule}" for r in found.rules[:5]]
        raise KgenError("\n".join(lines))
