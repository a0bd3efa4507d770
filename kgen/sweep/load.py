"""From a sweep file to a Sweep whose axes, constraints and problems mean something."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kgen.errors import Diagnostic, EmulatorError, SpecError
from kgen.spec import LoadedSpec, load_spec
from kgen.spec.fields import legal_paths
from kgen.spec.load import label_of
from kgen.spec.locate import from_pydantic, locate
from kgen.spec.names import check_name
from kgen.spec.tree import FieldPath, Tree, parse_tree, read_text
from kgen.sweep.axes import (
    BASE_AXIS,
    Axis,
    Constraint,
    ConstraintError,
    arithmetic,
    overlap,
    unknown_path,
    with_value,
)
from kgen.sweep.model import FigureName, Range, SweepFile, kernel_name
from kgen.sweep.problems import Problem, ProblemError, problems_of, read_problems

MOST_POINTS = 200_000
SUFFIX = ".sweep"
# A figure that only the compiler knows cannot decide which points are compiled.
CONSTRAINT_FIGURES = frozenset(get_args(FigureName)) - {"registers"}


@dataclass(frozen=True)
class Sweep:
    """A sweep file, understood. `name` is the prefix of every kernel's name."""

    name: str
    path: Path
    label: str
    text: str
    file: SweepFile
    bases: dict[str, LoadedSpec]  # as the file names them
    axes: tuple[Axis, ...]
    constraints: tuple[Constraint, ...]
    problems: tuple[Problem, ...]

    @property
    def size(self) -> int:
        """Points of the space, lost ones included."""
        size = 1
        for axis in self.axes:
            size *= len(axis.values)
        return size

    def within(self, points: int | None, minutes: float | None) -> Sweep:
        """The same sweep with another budget, where one is given."""
        given = {k: v for k, v in (("points", points), ("minutes", minutes)) if v is not None}
        budget = self.file.budget.model_copy(update=given)
        return replace(self, file=self.file.model_copy(update={"budget": budget}))

    def unhurried(self) -> Sweep:
        """The same sweep without a budget of time."""
        budget = self.file.budget.model_copy(update={"minutes": None})
        return replace(self, file=self.file.model_copy(update={"budget": budget}))

    @cached_property
    def digest(self) -> str:
        """12 hex digits over what the file asks for, its bases and its problems included."""
        content = {
            "file": self.file.model_dump(mode="json"),
            "bases": {name: base.digest for name, base in self.bases.items()},
            "problems": [[p.name, *p.size] for p in self.problems],
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Findings:
    """Collects what is wrong, each at its place in the file."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.found: list[Diagnostic] = []

    def add(self, path: FieldPath, what: str, key: bool = False) -> None:
        at = self._tree.keys.get(path) if key else None
        at = at or locate(self._tree, path)
        self.found.append(at.diagnostic(": ".join(map(str, path)), what))


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep file, the specs it starts from, and its problem list.

    Raises  SpecError with every finding of the file, each at its place
    """
    path = Path(path)
    text = read_text(path, str(path))
    tree = parse_tree(text, str(path))
    try:
        file = SweepFile.model_validate(tree.data)
    except ValidationError as error:
        raise SpecError(from_pydantic(tree, error, SweepFile)) from None
    findings = _Findings(tree)
    name = _name(file, path, findings)
    _schedules(file, findings)
    bases = _bases(file, path, findings)
    axes = _axes(file, findings)
    _one_arithmetic(bases, axes, findings)
    constraints = _constraints(file, findings)
    problems = _problems(file, path, findings)
    if findings.found:
        raise SpecError(sorted(findings.found, key=lambda d: (d.line, d.column)))
    sweep = Sweep(name, path, label_of(path), text, file, bases, axes, constraints, problems)
    if sweep.size > MOST_POINTS:
        what = f"{sweep.size} points; a sweep has at most {MOST_POINTS}, so drop axes or values"
        findings.add(("axes",), what, key=True)
        raise SpecError(findings.found)
    return sweep


def _name(file: SweepFile, path: Path, findings: _Findings) -> str:
    """The name that the file gives, else its stem, as far as kernels may be called after it."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", path.name.split(".")[0]).strip("_")
    name = stem if file.name is None else file.name
    try:
        check_name(kernel_name(name))
    except PydanticCustomError as error:
        why = f"cannot begin a kernel's name: {error.message()}"
        if file.name is None:
            findings.add((), f"the file's stem {stem!r} {why}; give a `name`")
        else:
            findings.add(("name",), f"{name!r} {why}")
    return name


def _schedules(file: SweepFile, findings: _Findings) -> None:
    if "emulator" not in file.model_fields_set:
        return
    from kgen.emu.sched import require_schedule  # the emulator takes a while to load

    for index, name in enumerate(file.emulator.schedules):
        try:
            require_schedule(name)
        except EmulatorError as error:
            findings.add(("emulator", "schedules", index), str(error))


def _one_arithmetic(
    bases: dict[str, LoadedSpec], axes: tuple[Axis, ...], findings: _Findings
) -> None:
    """A ranking compares kernels that compute the same: no base and no axis changes types."""
    why = "kernels of a sweep are ranked against each other; fix: a sweep for each"
    data = [base.tree.data for base in bases.values()]
    for index, other in enumerate(data[1:], 1):
        if field := _differing(data[0], other):
            findings.add(("base", index), f"{field} is not that of the first base: {why}")
    for axis in axes if data else ():
        if axis.path == BASE_AXIS:
            continue
        first, *rest = (with_value(data[0], axis.parts, value) for value in axis.values or ({},))
        if field := next(filter(None, (_differing(first, other) for other in rest)), ""):
            findings.add(("axes", axis.path), f"changes {field}: {why}", key=True)


def _differing(one: Any, other: Any) -> str:
    """A field in which two specs compute differently; empty if there is none."""
    a, b = arithmetic(one), arithmetic(other)
    return next((field for field in a if (a[field] or None) != (b[field] or None)), "")


def _bases(file: SweepFile, path: Path, findings: _Findings) -> dict[str, LoadedSpec]:
    names = (file.base,) if isinstance(file.base, str) else file.base
    found: dict[str, LoadedSpec] = {}
    for index, name in enumerate(names):
        at = ("base",) if isinstance(file.base, str) else ("base", index)
        if name in found:
            findings.add(at, f"{name} is named twice")
        elif not (path.parent / name).is_file():
            findings.add(at, f"no such spec: {path.parent / name}")
        else:
            found[name] = load_spec(path.parent / name)  # its own findings have their own places
    return found


def _axes(file: SweepFile, findings: _Findings) -> tuple[Axis, ...]:
    axes = []
    if not isinstance(file.base, str) and len(file.base) > 1:
        axes.append(Axis(BASE_AXIS, file.base))
    for name, given in file.axes.items():
        at = ("axes", name)
        if why := unknown_path(name):
            findings.add(at, why, key=True)
            continue
        values = given.values if isinstance(given, Range) else given
        if not values:
            findings.add(at, "no value, so the space is empty")
        repeated = [x for i, x in enumerate(values) if x in values[:i]]
        if repeated:
            findings.add(at, f"{repeated[0]} stands twice among its values")
        axis = Axis(name, tuple(values))
        for leaf in sorted(x for x in axis.leaves if x != axis.parts):
            if why := unknown_path(".".join(leaf)):
                findings.add(at, f"{'.'.join(leaf)}: {why}")
        for earlier in axes:
            if earlier.path != BASE_AXIS and (field := overlap(earlier, axis)):
                findings.add(at, f"{field} is also set by the axis {earlier.path}", key=True)
        axes.append(axis)
    return tuple(axes)


def _constraints(file: SweepFile, findings: _Findings) -> tuple[Constraint, ...]:
    legal = {".".join(p) for p in legal_paths()} | CONSTRAINT_FIGURES
    found = []
    for name, text in file.constraints.items():
        constraint = Constraint(name, text)
        try:
            for path in constraint.paths:
                if path not in legal:
                    known = ", ".join(sorted(CONSTRAINT_FIGURES))
                    why = unknown_path(path)
                    raise ConstraintError(f"{path}: {why or 'not usable'}; figures are {known}")
        except ConstraintError as error:
            findings.add(("constraints", name), str(error))
            continue
        found.append(constraint)
    return tuple(found)


def _problems(file: SweepFile, path: Path, findings: _Findings) -> tuple[Problem, ...]:
    given: Any = file.problems
    try:
        if isinstance(given, str):
            return read_problems(path.parent / given)
        return problems_of(given)
    except ProblemError as error:
        at = ("problems", error.index) if error.index >= 0 else ("problems",)
        findings.add(at, str(error))
    except OSError as error:
        findings.add(("problems",), f"{path.parent / given}: {error.strerror}")
    return ()
