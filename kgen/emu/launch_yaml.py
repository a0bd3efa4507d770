"""Reads a launch description from YAML 1.2 and places every mistake at its line and column."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from kgen.emu.launch import (
    Argument,
    Array,
    Constant,
    File,
    Fill,
    Integers,
    Launch,
    Pointer,
    Poison,
    Raw,
    Scalar,
    Struct,
)
from kgen.emu.launch_rules import array_problems, launch_problems, scalar_problems
from kgen.emu.tensormap import TensorMap
from kgen.emu.yaml_nodes import Node, Parser, Reader, RejectedError, locate, refuse_early
from kgen.errors import EmulatorError


def read(path: Path) -> Launch:
    """The launch in a file; raises EmulatorError with every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise EmulatorError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise EmulatorError(f"{path}: not UTF-8 text") from None
    reader = Reader(path, text)
    refuse_early(reader, text)
    try:
        loaded = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        duplicate = isinstance(error, DuplicateKeyError)
        what = "duplicate key" if duplicate else f"not YAML: {error.problem}"
        mark = error.problem_mark or error.context_mark
        reader.report("", what, mark.line + 1, mark.column + 1)
        reader.fail()
    except YAMLError as error:
        reader.report("", f"not YAML: {error}", 1, 1)
        reader.fail()
    root = Node(reader, loaded, "", 1, 1)
    try:
        launch = _launch(root)
    except RejectedError:
        reader.fail()
    for field, what in launch_problems(launch):
        at = locate(root, field)
        reader.report(field, what, at.line, at.column)
    if reader.found:
        reader.fail()
    return launch


# ---------------------------------------------------------------- fields


def _integer(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        node.reject(f"expected an integer, found {node.kind}")
    return int(node.value)


def _number(node: Node) -> int | float:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        node.reject(f"expected a number, found {node.kind}")
    if node.value != node.value:
        return float("nan")  # the parser's NaN has its sign bit set
    return int(node.value) if isinstance(node.value, int) else float(node.value)


def _text(node: Node) -> str:
    if not isinstance(node.value, str):
        node.reject(f"expected text, found {node.kind}")
    return str(node.value)


def _flag(node: Node) -> bool:
    if not isinstance(node.value, bool):
        node.reject(f"expected true or false, found {node.kind}")
    return bool(node.value)


def _integers(node: Node) -> tuple[int, ...]:
    return tuple(_integer(child) for child in node.children())


def _xyz(node: Node) -> tuple[int, ...]:
    sizes = _integers(node)
    if not 1 <= len(sizes) <= 3:
        node.reject(f"expected [x, y, z], found {len(sizes)} entries")
    return sizes + (1,) * (3 - len(sizes))


def _fill(node: Node) -> Fill:
    if node.value == "poison":
        return Poison()
    if isinstance(node.value, str):
        near = " (poison?)" if get_close_matches(node.value, ["poison"]) else ""
        node.reject(f"{node.value!r} is none of poison, integers, constant, file{near}")

    def integers(child: Node) -> Integers:
        return Integers(**child.mapping({"lo": _integer, "hi": _integer}, {"seed": _integer}))

    def file(child: Node) -> File:
        return File(str(node.reader.path.parent / _text(child)))

    choices: dict[str, Parser] = {
        "integers": integers, "constant": lambda c: Constant(_number(c)), "file": file,
    }  # fmt: skip
    return _one_of(node, choices)


def _one_of(node: Node, choices: dict[str, Parser]) -> Any:
    """A mapping with exactly one of the keys."""
    found = node.mapping({}, choices)
    if len(found) != 1:
        node.reject(f"expected exactly one of {', '.join(choices)}, found {len(found)}")
    return next(iter(found.values()))


def _array(name: str, node: Node) -> Array:
    fields = node.mapping(
        {"dtype": _text, "shape": _integers},
        {
            "fill": _fill,
            "row_stride": _integer,
            "guard_bytes": _integer,
            "role": _text,
            "constant": _flag,
        },
    )
    array = Array(name=name, **fields)
    return _checked(node, array, array_problems(array))


def _checked(node: Node, value: Any, problems: list[tuple[str, str]]) -> Any:
    """Reports broken rules at the child they name."""
    for field, what in problems:
        at = locate(node, field)
        node.reader.report(f"{node.field}.{field}", what, at.line, at.column)
    if problems:
        raise RejectedError
    return value


def _arrays(node: Node) -> tuple[Array, ...]:
    if not isinstance(node.value, CommentedMap):
        node.reject(f"expected a mapping from array names, found {node.kind}")
    result, bad = [], False
    for name in node.value:
        try:
            result.append(_array(str(name), node.child(name)))
        except RejectedError:
            bad = True
    if bad:
        raise RejectedError
    return tuple(result)


def _pointer(node: Node) -> Pointer:
    if isinstance(node.value, str):
        return Pointer(node.value)
    return Pointer(**node.mapping({"array": _text}, {"offset": _integer}))


def _scalar(node: Node) -> Scalar:
    scalar = Scalar(**node.mapping({"type": _text, "value": _number}, {}))
    return _checked(node, scalar, scalar_problems(scalar))


def _struct(node: Node) -> Struct:
    members: dict[str, Parser] = {"pointer": _pointer, "scalar": _scalar}
    return Struct(tuple(_one_of(child, members) for child in node.children()))


def _tensor_map(node: Node) -> TensorMap:
    tensor_map = TensorMap(
        **node.mapping(
            {
                "array": _text,
                "dtype": _text,
                "dims": _integers,
                "strides": _integers,
                "box": _integers,
            },
            {
                "offset": _integer,
                "element_strides": _integers,
                "swizzle": _integer,
                "interleave": _text,
                "l2_promotion": _text,
                "oob_fill": _text,
            },
        )
    )
    try:
        return tensor_map.validate()
    except EmulatorError as error:
        field, _, what = str(error).partition(": ")[2].partition(": ")
        locate(node, field).reject(what, f"{node.field}.{field}")


def _arguments(node: Node) -> tuple[Argument, ...]:
    choices: dict[str, Parser] = {
        "tensor_map": _tensor_map,
        "pointer": _pointer,
        "scalar": _scalar,
        "struct": _struct,
        "bytes": lambda c: Raw(_text(c)),
    }
    result, bad = [], False
    for child in node.children():
        try:
            result.append(_one_of(child, choices))
        except RejectedError:
            bad = True
    if bad:
        raise RejectedError
    return tuple(result)


def _launch(node: Node) -> Launch:
    return Launch(
        **node.mapping(
            {"kernel": _text, "grid": _xyz, "block": _xyz},
            {
                "cluster": _xyz,
                "dynamic_shared_bytes": _integer,
                "registers": _integer,
                "overlaps_previous": _flag,
                "arrays": _arrays,
                "arguments": _arguments,
            },
        )
    )
