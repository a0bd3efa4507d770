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

from kgen.errors import Diagnostic, SpecError
from kgen.spec import LoadedSpec, load_spec
from kgen.spec.fields import legal_paths
from kgen.spec.load import label_of
from kgen.spec.locate import from_pydantic, locate
from kgen.spec.names import PLAIN_NAME
from kgen.spec.tree import FieldPath, Tree, parse_tree, read_text
from kgen.sweep.axes import BASE_AXIS, Axis, Constraint, ConstraintError, overlap, unknown_path
from kgen.sweep.model import DIGEST_DIGITS, NAME_LENGTH, FigureName, Range, SweepFile
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
    name = file.name or _stem(path, findings)
    bases = _bases(file, path, findings)
    axes = _axes(file, findings)
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


def _stem(path: Path, findings: _Findings) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "_", path.name.split(".")[0]).strip("_")
    if not PLAIN_NAME.fullmatch(stem) or len(stem) > NAME_LENGTH - DIGEST_DIGITS - 1:
        findings.add((), f"the file's stem {stem!r} cannot begin a kernel's name: give a `name`")
    return stem


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
