"""Byte sizes in specs: a number always carries its unit."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024 * 1024}
_SIZE = re.compile(r"([0-9]{1,15}) ?(B|KiB|MiB)")


def parse_bytes(value: object) -> int:
    """Bytes of a text such as `224KiB` or `229376B`.

    A bare number is refused with both readings: published tables use KiB, data sheets bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64:
        raise PydanticCustomError(
            "ambiguous_bytes",
            "{value} has no unit: {value}B is {kib} KiB, {value}KiB is {bytes} bytes; "
            "write one of them",
            {"value": value, "kib": f"{value / 1024:g}", "bytes": value * 1024},
        )
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise PydanticCustomError(
            "byte_size", "write a size with its unit: 229376B, 224KiB or 1MiB"
        )
    size = int(match[1]) * _UNITS[match[2]]
    if size == 0:
        raise PydanticCustomError("no_bytes", "Input should be more than 0 bytes")
    return size


ByteSize = Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=str)]
