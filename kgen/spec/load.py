"""From a spec file to a KernelSpec whose every field knows where it was set."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kgen.errors import Diagnostic, SpecError
from kgen.spec import rules
from kgen.spec.locate import Violation, from_pydantic, to_diagnostic
from kgen.spec.model import KernelSpec
from kgen.spec.tree import Position, Tree, dotted, merge, parse_tree, read_text

LONGEST_CHAIN = 16
_SPEC_FILE = re.compile(r"[^\0\ud800-\udfff]+\.ya?ml")


@dataclass(frozen=True)
class LoadedSpec:
    """A spec with the file positions of its fields.

    label names the file in generated code: its path below the nearest folder called `specs`, else
    its file name, so that the output does not depend on where the checkout lies.
    """

    spec: KernelSpec
    label: str
    tree: Tree

    @property
    def digest(self) -> str:
        """12 hex digits over the resolved spec; comments, order and `extends` do not count."""
        text = json.dumps(self.spec.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def diagnose(self, violations: list[Violation]) -> list[Diagnostic]:
        """Violations with their places, in file order."""
        found = [to_diagnostic(self.tree, v) for v in violations]
        return sorted(found, key=lambda d: (d.path, d.line, d.column))


def load_spec(path: str | Path) -> LoadedSpec:
    """Read a spec file and everything it extends.

    Raises SpecError with every finding of the file.
    """
    path = Path(path)
    return _validate(_read_chain(path, (), None), label_of(path))


def parse_spec(text: str, shown: str = "<spec>") -> LoadedSpec:
    """A spec from text; `extends` is refused because there is no folder to look in."""
    tree = parse_tree(text, shown)
    if "extends" in tree.data:
        place = tree.keys[("extends",)]
        raise SpecError(
            [place.diagnostic("extends", "only a spec that is a file can extend another")]
        )
    return _validate(tree, shown)


def opening_line(path: Path) -> str:
    """The first comment line of a spec file: what it is."""
    return path.read_text("utf-8").split("\n", 1)[0].removeprefix("#").strip()


def _validate(tree: Tree, label: str) -> LoadedSpec:
    try:
        spec = KernelSpec.model_validate(tree.data)
    except ValidationError as error:
        raise SpecError(from_pydantic(tree, error)) from None
    loaded = LoadedSpec(spec, label, tree)
    broken = rules.violations(spec)
    if broken:
        raise SpecError(loaded.diagnose(broken))
    return loaded


def _read_chain(path: Path, seen: tuple[str, ...], extended_at: Position | None) -> Tree:
    tree = parse_tree(read_text(path, str(path), extended_at), str(path))
    if "extends" not in tree.data:
        return tree
    place = tree.values[("extends",)]
    base = tree.data.pop("extends")
    base_path = _base_path(base, path, place)
    chain = (*seen, os.path.realpath(path))
    if os.path.realpath(base_path) in chain:
        loop = " -> ".join(Path(p).name for p in (*chain, base_path))
        raise SpecError([place.diagnostic("extends", f"a spec extends itself: {loop}")])
    if len(chain) >= LONGEST_CHAIN:
        raise SpecError([place.diagnostic("extends", f"more than {LONGEST_CHAIN} specs deep")])
    merged = merge(_read_chain(base_path, chain, place), tree)
    if "name" not in tree.data:
        what = "a spec that extends another needs a name of its own: two kernels cannot share one"
        raise SpecError([place.diagnostic("name", what)])
    return merged


def _base_path(base: object, path: Path, place: Position) -> Path:
    if not isinstance(base, str) or not _SPEC_FILE.fullmatch(base):
        what = "name one spec file, relative to this one: v5.yaml"
        raise SpecError([place.diagnostic(dotted(("extends",)), what)])
    return path.parent / base


def label_of(path: Path) -> str:
    """How generated code names a file: see LoadedSpec."""
    parts = Path(os.path.realpath(path)).parts
    below = (
        parts[len(parts) - parts[::-1].index("specs") :] if "specs" in parts[:-1] else parts[-1:]
    )
    text = "/".join(below)
    # The label stands in a comment of generated code: nothing may end or continue that line.
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-/") else "_" for c in text)
