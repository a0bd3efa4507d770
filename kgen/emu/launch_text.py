"""Writes a launch description as YAML: the same launch, the same text."""

from __future__ import annotations

import re
from dataclasses import fields

from kgen.emu.launch import (
    Argument,
    Array,
    Constant,
    File,
    Fill,
    Integers,
    Launch,
    Pointer,
    Raw,
    Scalar,
    Struct,
)
from kgen.emu.tensormap import TensorMap

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*\Z")
_RESERVED = {"true", "false", "null"}


def write(launch: Launch) -> str:
    """YAML text of the launch; fields at their default value are left out."""
    lines = [f"kernel: {_scalar(launch.kernel)}"]
    lines += [f"{name}: {_flow(getattr(launch, name))}" for name in ("grid", "block")]
    if launch.cluster != (1, 1, 1):
        lines.append(f"cluster: {_flow(launch.cluster)}")
    if launch.dynamic_shared_bytes:
        lines.append(f"dynamic_shared_bytes: {launch.dynamic_shared_bytes}")
    if launch.registers is not None:
        lines.append(f"registers: {launch.registers}")
    if launch.overlaps_previous:
        lines.append("overlaps_previous: true")
    if launch.arrays:
        lines.append("arrays:")
        lines += [f"  {_scalar(a.name)}: {_flow(_array(a))}" for a in launch.arrays]
    if launch.arguments:
        lines.append("arguments:")
        lines += [f"  - {_argument(a)}" for a in launch.arguments]
    return "\n".join(lines) + "\n"


def _array(array: Array) -> dict[str, object]:
    entry: dict[str, object] = {"dtype": array.dtype, "shape": array.shape}
    if array.row_stride is not None:
        entry["row_stride"] = array.row_stride
    entry["fill"] = _fill(array.fill)
    if array.guard_bytes:
        entry["guard_bytes"] = array.guard_bytes
    if array.role != "inout":
        entry["role"] = array.role
    if array.constant:
        entry["constant"] = True
    return entry


def _fill(fill: Fill) -> object:
    match fill:
        case Integers(lo, hi, seed):
            return {"integers": {"lo": lo, "hi": hi, "seed": seed}}
        case Constant(value):
            return {"constant": value}
        case File(path):
            return {"file": path}
    return "poison"


def _argument(argument: Argument) -> str:
    match argument:
        case TensorMap():
            entry = {
                f.name: getattr(argument, f.name)
                for f in fields(argument)
                if f.name in ("array", "dtype", "dims", "strides", "box")
                or getattr(argument, f.name) != f.default
            }
            return f"tensor_map: {_flow(entry)}"
        case Pointer(array, offset):
            return f"pointer: {_flow({'array': array, 'offset': offset} if offset else array)}"
        case Scalar(type_, value):
            return f"scalar: {_flow({'type': type_, 'value': value})}"
        case Struct(members):
            return "struct: [" + ", ".join(f"{{{_argument(m)}}}" for m in members) + "]"
        case Raw(digits):
            return f'bytes: "{digits}"'


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_flow(v) for v in value) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if _PLAIN.match(value) and value not in _RESERVED:
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, float):
        if value != value:
            return ".nan"
        if value in (float("inf"), float("-inf")):
            return ".inf" if value > 0 else "-.inf"
        text = repr(value)
        # YAML wants a point in front of an exponent
        return re.sub(r"^(-?\d+)e", r"\1.0e", text)
    return str(value)
