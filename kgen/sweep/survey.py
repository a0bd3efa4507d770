"""What became of the points of a space before anything was compiled: what every rule removes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kgen.errors import KgenError
from kgen.sweep.load import Sweep
from kgen.sweep.space import Point


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
