"""JSON files that kgen writes and reads back: strict models, a schema number, the same bytes again.

Knows no kind of record; result files, emulator records and kgen.lock are built on it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kgen.errors import KgenError
from kgen.files import read_regular

LARGEST_BYTES = 1 << 26


class Record(BaseModel):
    """Frozen and strict: an unknown key is a misspelt one, or a newer file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


R = TypeVar("R", bound=Record)


def load_record(path: Path, model: type[R], what: str, schema: int) -> R:
    """Read one file. `what` names its kind in messages: "a result file".

    Raises  KgenError naming the file and the field, for a newer schema, broken JSON or a wrong
        field
    """
    try:
        raw = read_regular(path, LARGEST_BYTES)
        data = json.loads(raw.decode()) if len(raw) <= LARGEST_BYTES else None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise KgenError(f"{path}: not {what}: {error}") from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int:
        raise KgenError(f"{path}: not {what}: no schema_version")
    if version > schema:
        raise KgenError(
            f"{path}: schema {version} is newer than this kgen reads ({schema}); fix: upgrade kgen"
        )
    try:
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise KgenError("\n".join(f"{path}: {line}" for line in lines)) from error


def dump_record(record: Record) -> str:
    """The file's text: sorted keys, so that a diff shows only what changed."""
    data = record.model_dump(mode="json")
    return json.dumps(_rounded(data), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _rounded(value: Any) -> Any:
    """Floats to seven significant digits: more is noise, and noise makes diffs."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) and math.isfinite(value) else value
