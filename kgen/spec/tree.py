"""YAML text to plain data plus the position of every key and value.

Works on the node graph of ruamel.yaml, so that duplicate keys are found with both places and
nothing is constructed but scalars, lists and maps. YAML 1.2: `no`, `off` and `on` are strings.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from kgen.errors import Diagnostic, SpecError
from kgen.files import read_regular

FieldPath = tuple[str | int, ...]

LONGEST_FILE = 1 << 20
DEEPEST_FLOW = 64
MOST_BITS = 64  # no field is larger, and Python cannot print every number that it can read
_LINE_END = re.compile(r"\r\n|[\r\n]")  # as YAML counts lines; str.splitlines knows seven more
# Behind nothing but empty lines and comments, where alone YAML takes one.
_DIRECTIVE = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|[\r\n]))*(%[^\r\n]*)")
_PLAIN_TAGS = {"null", "bool", "int", "float", "str", "map", "seq"}
_TUPLE_OF_ONE = re.compile(r"\(('<[^']*>'),\)")  # how the parser shows what it found, at times


@dataclass(frozen=True)
class Position:
    """A place in a file; line and column count from 1."""

    path: str
    line: int
    column: int
    source: str

    def diagnostic(self, name: str, what: str) -> Diagnostic:
        """A finding at this place."""
        return Diagnostic(self.path, self.line, self.column, name, what, self.source)


@dataclass
class Tree:
    """Plain data and, for every field path, where its key and its value stand."""

    data: Any
    keys: dict[FieldPath, Position] = field(default_factory=dict)
    values: dict[FieldPath, Position] = field(default_factory=dict)


def dotted(path: FieldPath) -> str:
    """`('verify', 'shapes', 0)` as `verify.shapes[0]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def read_text(path: Path, shown: str, extended_at: Position | None = None) -> str:
    """The file's text. Raises SpecError when it cannot be read as UTF-8 text of sensible size.

    A file that another extends fails at the place where that one names it.
    """
    try:
        raw = read_regular(path, LONGEST_FILE)
    except OSError as error:
        if extended_at is None:
            raise SpecError([Diagnostic(shown, 0, 0, "", str(error.strerror))]) from error
        what = f"no such spec: {shown}"
        if not isinstance(error, FileNotFoundError):
            what = f"{shown}: {error.strerror}"
        raise SpecError([extended_at.diagnostic("extends", what)]) from error
    if len(raw) > LONGEST_FILE:
        what = f"more than {LONGEST_FILE} bytes; no spec is as long"
        raise SpecError([Diagnostic(shown, 0, 0, "", what)])
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} is not UTF-8"
        raise SpecError([Diagnostic(shown, line, 1, "", what)]) from error


class _Walker:
    """Turns one node graph into a Tree, collecting every finding."""

    def __init__(self, yaml: YAML, shown: str, lines: list[str]) -> None:
        self._yaml = yaml
        self._shown = shown
        self._lines = lines
        self._refused: set[int] = set()
        self.tree = Tree(None)
        self.findings: list[Diagnostic] = []

    def position(self, node: Node) -> Position:
        line, column = node.start_mark.line, node.start_mark.column
        source = self._lines[line] if line < len(self._lines) else ""
        return Position(self._shown, line + 1, column + 1, source)

    def refuse(self, node: Node, path: FieldPath, what: str) -> None:
        self.findings.append(self.position(node).diagnostic(dotted(path), what))

    def walk(self, node: Node, path: FieldPath) -> Any:
        self.tree.values[path] = self.position(node)
        if node.anchor is not None:
            if id(node) not in self._refused:  # an alias is the anchored node once more
                self.refuse(node, path, "anchors and aliases are not used in specs; use `extends`")
            self._refused.add(id(node))
            return None
        if str(node.tag).rpartition(":")[2] not in _PLAIN_TAGS:
            self.refuse(node, path, f"the tag {node.tag} has no meaning here")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.walk(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: Node, path: FieldPath) -> Any:
        assert isinstance(node, ScalarNode)
        try:
            value = self._yaml.constructor.construct_object(node)
            if isinstance(value, int) and value.bit_length() > MOST_BITS:
                raise OverflowError
            return value
        except (ArithmeticError, LookupError, TypeError, ValueError, YAMLError):
            kind = str(node.tag).rpartition(":")[2]
            self.refuse(node, path, f"cannot be read as a value of YAML type {kind}")
            return None

    def _mapping(self, node: MappingNode, path: FieldPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, Position] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self.refuse(key_node, path, "a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in first:
                earlier = first[key].line
                self.refuse(key_node, (*path, key), f"duplicate key, first given in line {earlier}")
                continue
            first[key] = self.tree.keys[(*path, key)] = self.position(key_node)
            result[key] = self.walk(value_node, (*path, key))
            if value_node.start_mark.index == value_node.end_mark.index:
                # Nothing stands there, and its mark is that of whatever comes next.
                self.tree.values[(*path, key)] = first[key]
        return result


def _too_deep(lines: list[str], shown: str) -> Position | None:
    """Where brackets outside comments nest too deep; the parser takes quadratic time over them."""
    depth = 0
    for number, line in enumerate(lines, 1):
        for bracket in re.finditer(r"[\[\]{}]", line.partition("#")[0]):
            depth = depth + 1 if bracket[0] in "[{" else max(0, depth - 1)
            if depth > DEEPEST_FLOW:
                return Position(shown, number, bracket.start() + 1, line)
    return None


def _at(mark: Any, lines: list[str], shown: str) -> Position:
    """The place of a parser's mark; the end of the file is shown as the end of its last line."""
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if not any(text.strip() for text in lines[line:]):
        filled = [number for number, text in enumerate(lines) if text.strip()]
        line = filled[-1] if filled else 0
        column = len(lines[line])
    return Position(shown, line + 1, column + 1, lines[line])


def parse_tree(text: str, shown: str) -> Tree:
    """Parse one YAML document whose root is a map.

    Raises SpecError with every duplicate key, alias or strange tag, or with the first syntax error.
    """
    yaml = YAML(typ="safe", pure=True)
    lines = _LINE_END.split(text)
    if place := _too_deep(lines, shown):
        raise SpecError([place.diagnostic("", "nested too deeply")])
    if directive := _DIRECTIVE.match(text):
        place = Position(shown, text.count("\n", 0, directive.end()) + 1, 1, directive[1])
        raise SpecError([place.diagnostic("", "YAML directives are not used in specs")])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # anchors are refused below
            root = yaml.compose(text)
    except MarkedYAMLError as error:
        place = _at(error.problem_mark or error.context_mark, lines, shown)
        what = " ".join(str(p) for p in (error.context, error.problem) if p)
        what = _TUPLE_OF_ONE.sub(r"\1", what)
        if "\t" in place.source[: place.column]:
            what = "a tab is used as indentation; YAML takes spaces only"
        raise SpecError([place.diagnostic("", what)]) from error
    except ReaderError as error:
        before = _LINE_END.split(text[: error.position])
        what = f"the character U+{error.character:04X} is not allowed in YAML"
        place = Position(shown, len(before), len(before[-1]) + 1, lines[len(before) - 1])
        raise SpecError([place.diagnostic("", what)]) from error
    except YAMLError as error:
        raise SpecError([Diagnostic(shown, 0, 0, "", f"not YAML: {error}")]) from error
    except RecursionError as error:
        raise SpecError([Diagnostic(shown, 0, 0, "", "nested too deeply")]) from error
    if not isinstance(root, MappingNode):
        found = "empty" if root is None else "not a map of fields"
        raise SpecError([Diagnostic(shown, 1, 1, "", f"the file is {found}", lines[0])])
    walker = _Walker(yaml, shown, lines)
    walker.tree.data = walker.walk(root, ())
    if walker.findings:
        raise SpecError(walker.findings)
    return walker.tree


def merge(base: Tree, over: Tree) -> Tree:
    """`over` on top of `base`: maps merge, the rest is replaced; positions follow the values."""
    result = Tree(base.data, dict(base.keys), dict(base.values))
    result.data = _merge_value(base.data, over.data, (), result)
    result.keys.update(over.keys)
    result.values.update(over.values)
    return result


def _merge_value(base: Any, over: Any, path: FieldPath, result: Tree) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            child = (*path, key)
            merged[key] = _merge_value(base[key], value, child, result) if key in base else value
        return merged
    for places in (result.keys, result.values):
        for below in [p for p in places if p[: len(path)] == path and len(p) > len(path)]:
            del places[below]
    return over


def dump_resolved(tree: Tree, comment: str) -> str:
    """The merged data as YAML text under a one-line comment."""
    stream = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = None
    yaml.dump(tree.data, stream)
    return f"# {comment}\n{stream.getvalue()}"
