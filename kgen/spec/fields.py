"""The fields of the schema: which exist, under which `kind`, and which one a misspelt key means."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from kgen.spec.model import KernelSpec
from kgen.spec.names import NAME_LENGTH
from kgen.spec.tree import FieldPath, dotted

Names = tuple[str, ...]


def legal_paths(data: Any = None, model: type[BaseModel] = KernelSpec) -> tuple[Names, ...]:
    """Every field path, in schema order.

    data  of a file: where it names a legal `kind`, only the fields of that kind are listed
    """
    paths: list[Names] = []
    for name, info in model.model_fields.items():
        paths.append((name,))
        value = data.get(name) if isinstance(data, dict) else None
        for nested in _in_use(_models_in(info.annotation), value):
            paths += [(name, *rest) for rest in legal_paths(value, nested)]
    return tuple(dict.fromkeys(paths))


def kinds_at(path: FieldPath, data: Any = None) -> tuple[str, ...]:
    """The kinds that the map at `path` may have; none if its fields do not depend on a kind.

    data  of a file: the kinds that it names on the way to `path` count
    """
    models: list[type[BaseModel]] = [KernelSpec]
    for name in path:
        fields = [
            m.model_fields[str(name)] for m in _in_use(models, data) if name in m.model_fields
        ]
        models = [nested for field in fields for nested in _models_in(field.annotation)]
        data = data.get(name) if isinstance(data, dict) else None
    return tuple(kind for model in models for kind in _kinds_of(model))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for argument in get_args(annotation) for m in _models_in(argument)]


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def _in_use(models: list[type[BaseModel]], value: Any) -> list[type[BaseModel]]:
    kind = value.get("kind") if isinstance(value, dict) else None
    return [m for m in models if kind in _kinds_of(m)] or models


# Keys that other targets, other tools or other units would suggest, for each family.
_KNOWN_STRANGERS = {
    "wgmma": {
        "mma_k": "the K of one wgmma is fixed at 32 bytes (16 elements of f16 or bf16), so there "
        "is no field; {value} bytes would be {elements} elements of f16, {value} elements would be "
        "{bytes} bytes",
        "collector": "a collector belongs to tcgen05; wgmma has none",
        "tmem": "tensor memory belongs to tcgen05; wgmma accumulates in registers",
    },
    "tcgen05": {
        "mma_k": "write the K of one MMA in bytes, as mma.k_bytes; {value} bytes are {value} "
        "elements of 8 bits and {bytes} of 4, {value} elements are {value} bytes of 8 bits and "
        "{elements} of 4",
        "consumers": "tcgen05 multiplies in one thread; there are no consumer warpgroups",
        "smem_limit": "it is smem.limit here, with a unit",
    },
}


def unknown_key(data: Any, path: FieldPath, value: Any, model: type[BaseModel] = KernelSpec) -> str:
    """What to say of a key that the schema `model` does not have at `path` of a file's data."""
    key = str(path[-1])
    parent = tuple(p for p in path[:-1] if isinstance(p, str))
    strangers = _KNOWN_STRANGERS.get(_family_of(data), {})
    if key in strangers:
        number = value if isinstance(value, int) else 0
        text = strangers[key]
        return "unknown key: " + text.format(value=value, elements=number // 2, bytes=number * 2)
    legal = legal_paths(data, model)
    other = max(_other_kinds(data, parent, key), key=lambda found: len(found[0]), default=None)
    if other is not None:
        at, kind, others = other
        return f"misplaced key, it belongs to {dotted(at)}.kind {' or '.join(others)}, not {kind}"
    elsewhere = [p for p in legal if p[-1] == key]
    if elsewhere:
        places = " or ".join(dotted(p) for p in elsewhere[:3])
        return f"misplaced key, it belongs at {places}"
    near = max(legal, key=lambda p: _closeness(key, parent, p))
    if _closeness(key, parent, near) > 0:
        name = f"`{near[-1]}`" if near[:-1] == parent else dotted(near)
        return f"unknown key, the nearest is {name}"
    siblings = [p[-1] for p in legal if p[:-1] == parent]
    return f"unknown key, known here: {', '.join(siblings) or 'none'}"


def _family_of(data: Any) -> str:
    """The MMA family of a file's schedule, by the first word of its kind."""
    schedule = data.get("schedule") if isinstance(data, dict) else None
    kind = schedule.get("kind") if isinstance(schedule, dict) else None
    return str(kind).partition("_")[0]


def _other_kinds(
    data: Any, parent: Names, key: str
) -> Iterator[tuple[Names, str, tuple[str, ...]]]:
    """Every map on the way to a key whose fields depend on its kind: the map, its kind, and the
    kinds under which the key would be legal.
    """
    value = data
    for depth, name in enumerate(parent, 1):
        at, value = parent[:depth], value[name]
        kind = str(value.get("kind"))
        # A schedule for other targets would not help.
        kinds = (k for k in kinds_at(at, data) if _is_tcgen05(k) == _is_tcgen05(kind))
        others = tuple(k for k in kinds if _legal_if(data, at, k, (*parent, key)))
        if others:
            yield at, kind, others


def _is_tcgen05(kind: str) -> bool:
    return kind.startswith("tcgen05")


def _legal_if(data: Any, at: Names, kind: str, path: Names) -> bool:
    """Whether `path` is a field once the map at `at` has this kind."""

    def changed(value: Any, rest: Names) -> Any:
        if not rest:
            return {**value, "kind": kind}
        return {**value, rest[0]: changed(value[rest[0]], rest[1:])}

    return path in legal_paths(changed(data, at))


def _closeness(key: str, parent: FieldPath, path: Names) -> float:
    """How well a field fits a misspelt key, above 0 if well enough: alike, near, not deep."""
    alike = difflib.SequenceMatcher(None, key[:NAME_LENGTH], path[-1]).ratio()
    if path[:-1] == parent:
        return alike - 0.5
    return alike - 0.55 - 0.05 * (len(path) - 1) if alike >= 0.65 else 0.0
