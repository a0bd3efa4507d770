"""The rules a launch description must obey, each with the field it blames."""

from __future__ import annotations

from math import prod

from kgen.emu.launch import (
    DTYPES,
    MAX_CLUSTER,
    MAX_SHARED_BYTES,
    MAX_THREADS,
    SCALAR_TYPES,
    Argument,
    Array,
    Constant,
    File,
    Integers,
    Launch,
    Raw,
    Scalar,
    Struct,
    dtype_bytes,
)
from kgen.emu.tensormap import TensorMap
from kgen.errors import EmulatorError

_MAX_DIMENSIONS = 32
_LARGEST = 1 << 1023  # an integer that still is a float64
MAX_ARRAY_BYTES = 1 << 30  # a run holds several copies
_MAX_BLOCK, _MAX_GRID = (1024, 1024, 64), (2**31 - 1, 65535, 65535)
_EXACT = {"e4m3": 16, "e5m2": 8, "bf16": 256, "f16": 2048, "tf32": 2048}
"""Integers up to this magnitude are exact in the format."""

Problem = tuple[str, str]


def launch_problems(launch: Launch) -> list[Problem]:
    """Every broken rule of the launch as (field, what), in field order."""
    return _sizes(launch) + _arrays(launch) + _arguments(launch)


def _sizes(launch: Launch) -> list[Problem]:
    found: list[Problem] = []
    for field, sizes, limits in (
        ("grid", launch.grid, _MAX_GRID),
        ("block", launch.block, _MAX_BLOCK),
    ):
        for i, (size, limit) in enumerate(zip(sizes, limits, strict=True)):
            if not 1 <= size <= limit:
                found.append((f"{field}[{i}]", f"{size} is not in 1..{limit}"))
    if prod(launch.block) > MAX_THREADS:
        found.append(("block", f"{prod(launch.block)} threads, a CTA has at most {MAX_THREADS}"))
    if min(launch.cluster) < 1 or prod(launch.cluster) > MAX_CLUSTER:
        found.append(("cluster", f"{prod(launch.cluster)} CTAs are not in 1..{MAX_CLUSTER}"))
    else:
        for i, (size, cluster) in enumerate(zip(launch.grid, launch.cluster, strict=True)):
            if size % cluster:
                found.append((f"cluster[{i}]", f"{cluster} does not divide grid[{i}] = {size}"))
    if not 0 <= launch.dynamic_shared_bytes <= MAX_SHARED_BYTES:
        found.append(
            (
                "dynamic_shared_bytes",
                f"{launch.dynamic_shared_bytes} is not in 0..{MAX_SHARED_BYTES}",
            )
        )
    if launch.registers is not None and not 1 <= launch.registers <= 255:
        found.append(("registers", f"{launch.registers} is not in 1..255"))
    return found


def _arrays(launch: Launch) -> list[Problem]:
    found: list[Problem] = []
    seen: set[str] = set()
    for array in launch.arrays:
        field = f"arrays.{array.name}"
        if array.name in seen:
            found.append((field, "a second array of this name"))
        seen.add(array.name)
        found += [(f"{field}.{at}" if at else field, what) for at, what in array_problems(array)]
    return found


def array_problems(array: Array) -> list[Problem]:
    """Broken rules of one array."""
    if array.dtype not in DTYPES:
        return [("dtype", f"{array.dtype!r} is none of {', '.join(DTYPES)}")]
    found: list[Problem] = []
    if len(array.shape) > _MAX_DIMENSIONS:
        found.append(("shape", f"{len(array.shape)} dimensions, an array has {_MAX_DIMENSIONS}"))
    elif not array.shape or min(array.shape) < 1:
        found.append(("shape", f"{list(array.shape)} needs at least one dimension, all positive"))
    elif array.row_stride is not None and array.row_stride < array.shape[-1]:
        found.append(("row_stride", f"{array.row_stride} is less than a row of {array.shape[-1]}"))
    elif (size := array.nbytes) > MAX_ARRAY_BYTES:
        found.append(("shape", f"{size} bytes are over the emulator's {MAX_ARRAY_BYTES}"))
    if array.guard_bytes > MAX_ARRAY_BYTES:
        found.append(("guard_bytes", f"{array.guard_bytes} is over {MAX_ARRAY_BYTES}"))
    if array.guard_bytes < 0:
        found.append(("guard_bytes", f"{array.guard_bytes} is negative"))
    if array.role not in ("in", "out", "inout"):
        found.append(("role", f"{array.role!r} is none of in, out, inout"))
    if isinstance(array.fill, Integers):
        lo, hi = array.fill.lo, array.fill.hi
        least, most = _integer_range(array.dtype)
        if lo > hi:
            found.append(("fill.integers", f"lo {lo} is above hi {hi}"))
        elif lo < least or hi > most:
            found.append(
                ("fill.integers", f"{lo}..{hi} is not exact in {array.dtype} ({least}..{most})")
            )
        if array.fill.seed < 0:
            found.append(("fill.integers", f"seed {array.fill.seed} is negative"))
    if isinstance(array.fill, Constant) and (what := _misfit(array.fill.value, array.dtype)):
        found.append(("fill.constant", what))
    if isinstance(array.fill, File) and not array.fill.path:
        found.append(("fill.file", "an empty path"))
    return found


def _integer_range(dtype: str) -> tuple[int, int]:
    """Integers that the dtype holds exactly, without gaps."""
    if dtype[0] in "su":
        bits = 8 * dtype_bytes(dtype)
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, 2**bits - 1)
    most = _EXACT.get(dtype, 1 << (24 if dtype == "f32" else 53))
    return -most, most


def _misfit(value: float, dtype: str) -> str:
    """Why a number is not a value of the dtype, or nothing."""
    if dtype[0] not in "su":
        huge = isinstance(value, int) and abs(value) > _LARGEST
        return f"{str(value)[:20]}... is over the range of {dtype}" if huge else ""
    least, most = _integer_range(dtype)
    if value != value or value in (float("inf"), -float("inf")) or value != int(value):
        return f"{value} is not an integer, the type is {dtype}"
    return "" if least <= value <= most else f"{value} does not fit {dtype} ({least}..{most})"


def _arguments(launch: Launch) -> list[Problem]:
    found: list[Problem] = []
    for i, argument in enumerate(launch.arguments):
        found += _argument_problems(launch, f"arguments[{i}]", argument)
    return found


def _argument_problems(launch: Launch, field: str, argument: Argument) -> list[Problem]:
    names = {a.name: a for a in launch.arrays}
    if isinstance(argument, Struct):
        if not argument.members:
            return [(f"{field}.struct", "has no member")]
        return [
            problem
            for i, member in enumerate(argument.members)
            for problem in _argument_problems(launch, f"{field}.struct[{i}]", member)
        ]
    if isinstance(argument, Scalar):
        return [(f"{field}.{at}", what) for at, what in scalar_problems(argument)]
    if isinstance(argument, Raw):
        try:
            argument.to_bytes()
        except ValueError:
            return [(f"{field}.bytes", f"{argument.hex!r} is not pairs of hex digits")]
        return []
    if argument.array not in names:
        known = ", ".join(names) or "none"
        return [(f"{field}.array", f"no array {argument.array!r}; there are: {known}")]
    if isinstance(argument, TensorMap):
        try:
            argument.validate()
        except EmulatorError as error:
            return [(field, str(error))]
    elif not 0 <= argument.offset <= names[argument.array].nbytes:
        return [(f"{field}.offset", f"{argument.offset} bytes is outside the array")]
    return []


def scalar_problems(scalar: Scalar) -> list[Problem]:
    """Broken rules of one scalar argument."""
    if scalar.type not in SCALAR_TYPES:
        return [("type", f"{scalar.type!r} is none of {', '.join(SCALAR_TYPES)}")]
    if scalar.type[0] in "su":
        least, most = _integer_range(scalar.type)
        if isinstance(scalar.value, float):
            return [("value", f"{scalar.value} is not an integer, the type is {scalar.type}")]
        if not least <= scalar.value <= most:
            return [("value", f"{scalar.value} does not fit {scalar.type} ({least}..{most})")]
    elif what := _misfit(scalar.value, scalar.type):
        return [("value", what)]
    return []
