"""What kgen brings along for spec authors: shipped specs to start from, and the JSON Schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kgen.errors import KgenError
from kgen.files import write_new
from kgen.paths import data_folder
from kgen.spec import KernelSpec, load_spec, opening_line, parse_spec
from kgen.spec.tree import dump_resolved


def shipped_specs() -> list[tuple[str, str]]:
    """Name (`hopper/v6`) and first comment line of every shipped kernel spec."""
    folder = data_folder("specs")
    files = [p for p in sorted(folder.rglob("*.yaml")) if ".sweep" not in p.suffixes]
    return [(p.relative_to(folder).with_suffix("").as_posix(), opening_line(p)) for p in files]


def new_spec(path: Path, like: str) -> None:
    """Write a copy of a shipped spec, named after the new file.

    A shipped spec that extends another is written out whole, so that the copy stands alone.
    Raises KgenError when `like` is unknown, the file exists, or its stem is no kernel name.
    """
    names = [name for name, _ in shipped_specs()]
    if like not in names:
        raise KgenError(f"no shipped spec is called {like}; there are {', '.join(names)}")
    if path.suffix not in (".yaml", ".yml"):
        raise KgenError(f"{path}: a spec file ends in .yaml")
    source = data_folder("specs") / f"{like}.yaml"
    text = source.read_text("utf-8")
    if re.search(r"^extends:", text, re.MULTILINE):
        text = dump_resolved(load_spec(source).tree, opening_line(source))
    text = re.sub(r"^name: .*$", f"name: {path.stem}", text, count=1, flags=re.MULTILINE)
    parse_spec(text, str(path))
    try:
        write_new(path, text.encode())
    except FileExistsError:
        raise KgenError(f"{path} exists; kgen does not overwrite a spec") from None


def json_schema() -> str:
    """JSON Schema (draft 2020-12) of a spec file.

    A spec that extends another may leave out whatever its base sets, at any depth; only the name is
    its own.
    """
    whole = KernelSpec.model_json_schema()
    definitions = whole.pop("$defs")
    part = _optional(whole)
    part["properties"]["extends"] = extends = {
        "type": "string",
        "description": "Spec file that this one extends, relative to it.",
    }
    part["required"] = ["extends", "name"]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kgen kernel spec",
        "type": "object",
        "properties": {"extends": extends},
        "if": {"required": ["extends"]},
        "then": part,
        "else": whole,
        "$defs": {
            **definitions,
            **{f"{name}Part": _optional(d) for name, d in definitions.items()},
        },
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _optional(schema: Any) -> Any:
    """The same schema with every field optional, in the models that it refers to as well.

    Of maps told apart by their kind, any may be meant: the kind may stand in the base.
    """
    if isinstance(schema, list):
        return [_optional(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        {"oneOf": "anyOf"}.get(k, k): _optional(v)
        for k, v in schema.items()
        if k not in ("required", "discriminator")
    }
    if "$ref" in kept:
        kept["$ref"] += "Part"
    return kept
