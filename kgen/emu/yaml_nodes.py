"""Values of a YAML file that know their place, and the diagnostics about them."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
)

from kgen.errors import Diagnostic, EmulatorError

_MAX_DEPTH, _MAX_PLAIN = 16, 400
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")

Parser = Callable[["Node"], Any]


class RejectedError(Exception):
    """A field could not be read; its diagnostic is already recorded."""


class Node:
    """A value of the file with its place: line and column count from 1."""

    def __init__(self, reader: Reader, value: Any, field: str, line: int, column: int) -> None:
        self.reader, self.value, self.field = reader, value, field
        self.line, self.column = line, column

    def reject(self, what: str, field: str = "") -> NoReturn:
        self.reader.report(field or self.field, what, self.line, self.column)
        raise RejectedError

    def mapping(self, required: dict[str, Parser], optional: dict[str, Parser]) -> dict[str, Any]:
        """Parses every field; unknown and missing ones are reported, all of them."""
        if not isinstance(self.value, CommentedMap):
            self.reject(f"expected a mapping with {', '.join(required)}, found {self.kind}")
        parsers, bad = required | optional, False
        result: dict[str, Any] = {}
        for key in self.value:
            if key not in parsers:
                line, column = self.value.lc.key(key)
                near = get_close_matches(str(key), parsers, 1, 0.5)
                hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(parsers)}"
                what = f"unknown key{hint}"
                self.reader.report(self.child_field(key), what, line + 1, column + 1)
                bad = True
                continue
            try:
                result[key] = parsers[key](self.child(key))
            except RejectedError:
                bad = True
        for key in required:
            if key not in self.value:
                self.reader.report(self.child_field(key), "missing", self.line, self.column)
                bad = True
        if bad:
            raise RejectedError
        return result

    def child_field(self, key: Any) -> str:
        if isinstance(key, int):
            return f"{self.field}[{key}]"
        return f"{self.field}.{key}" if self.field else str(key)

    def child(self, key: Any) -> Node:
        place = self.value.lc.item(key) if isinstance(key, int) else self.value.lc.value(key)
        return Node(self.reader, self.value[key], self.child_field(key), place[0] + 1, place[1] + 1)

    def children(self) -> list[Node]:
        if not isinstance(self.value, CommentedSeq):
            self.reject(f"expected a list, found {self.kind}")
        return [self.child(i) for i in range(len(self.value))]

    @property
    def kind(self) -> str:
        match self.value:
            case CommentedMap():
                return "a mapping"
            case CommentedSeq():
                return "a list"
            case None:
                return "nothing"
        return repr(self.value)


class Reader:
    """One file: its text, and the diagnostics so far."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, text.split("\n")
        self.found: list[Diagnostic] = []

    def report(self, field: str, what: str, line: int, column: int) -> None:
        source = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        self.found.append(Diagnostic(str(self.path), line, column, field, what, source))

    def fail(self) -> NoReturn:
        self.found.sort(key=lambda d: (d.line, d.column))
        raise EmulatorError("\n".join(map(str, self.found)))


def refuse_early(reader: Reader, text: str) -> None:
    """What a launch has no use for, found before any value is built: anchors, aliases, tags,
    merges, deep nesting, and scalars that the loader would choke on.
    """
    depth = 0
    try:
        for event in YAML(typ="rt").parse(text):
            what = _refusal(event)
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            if depth > _MAX_DEPTH:
                what = f"nested deeper than {_MAX_DEPTH}"
            if what:
                mark = event.start_mark
                reader.report("", what, mark.line + 1, mark.column + 1)
                reader.fail()
    except YAMLError:
        return  # the loader reports it


def _refusal(event: Event) -> str:
    """Why an event cannot be part of a launch, or nothing."""
    if isinstance(event, AliasEvent):
        return "an alias; write the value out"
    if not isinstance(event, NodeEvent):
        return ""
    if event.anchor is not None:
        return "an anchor; write the value out"
    tag = event.tag if isinstance(event, (ScalarEvent, CollectionStartEvent)) else None
    if tag is not None:
        return f"a tag, {tag}"
    if not isinstance(event, ScalarEvent) or event.style is not None:
        return ""
    if event.value == "<<":
        return "a merge; write the keys out"
    if _DATE.match(event.value):
        return f"{event.value[:20]}: a launch has no dates; quote it if it is text"
    if len(event.value) > _MAX_PLAIN and re.fullmatch(r"[-+0-9a-fA-FxXob_.:]*", event.value):
        return f"a number of {len(event.value)} characters"
    return ""


def locate(node: Node, field: str) -> Node:
    """The node of a field such as cluster[1] or fill.integers, as near as the file has it."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field):
        value, key = node.value, int(index) if index else name
        if isinstance(value, CommentedMap) and key not in value and len(value) == 1:
            node = node.child(next(iter(value)))  # the kind of an argument
            value = node.value
        in_list = isinstance(value, CommentedSeq) and isinstance(key, int) and key < len(value)
        if in_list or (isinstance(value, CommentedMap) and key in value):
            node = node.child(key)
    return node
