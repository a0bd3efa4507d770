"""The meaning of every modelled ALU instruction, as a function of register rows.

A row is a numpy array of unsigned register contents: uint32 for registers of up to 32 bits (narrow ones are
zero-extended), uint64 for 64-bit registers, bool for predicates. Functions are elementwise, any shape.
Source  PTX ISA chapter 9.7.1 - 9.7.9 (integer, floating point, comparison, logic and shift, data movement)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import alu, numerics
from .integer_ops import INTEGER, WIDE

Row = np.ndarray
Function = Callable[..., Row]


@dataclass(frozen=True)
class Operation:
    """`run(*source rows) -> result row`; types are PTX types such as s32, b64, pred, f16x2."""

    result: str
    sources: tuple[str, ...]
    run: Function


def bits_of(kind: str) -> int:
    """Width of a PTX type in bits; predicates count as 1."""
    if kind == "pred":
        return 1
    match = re.fullmatch(r"(?:[a-z]|bf|tf|e4m|e5m)(\d+)(x2)?", kind)
    if kind in ("e4m3x2", "e5m2x2"):
        return 16
    if kind == "tf32" or match is None:
        return 32
    return int(match.group(1)) * (2 if match.group(2) else 1)


def read(row: Row, kind: str) -> Row:
    """Register contents -> values of a numpy type (integers and floats), or raw bits (b types)."""
    if kind == "pred":
        return row
    bits = bits_of(kind)
    raw = row.astype(f"u{bits // 8}", copy=False)
    if kind[0] == "s":
        return raw.view(f"i{bits // 8}")
    if kind in ("f32", "f64"):
        return raw.view(f"f{bits // 8}")
    if kind in ("f16", "bf16"):
        return numerics.decode(raw, kind)
    return raw


def write(value: Row, kind: str) -> Row:
    """Values -> register contents."""
    if kind == "pred":
        return value
    if kind == "s8":  # registers have at least 16 bits: the sign is extended
        return np.asarray(value, np.int8).astype(np.int32).view(np.uint32)
    bits = bits_of(kind)
    if kind in ("f32", "f64"):
        raw = np.asarray(value, f"f{bits // 8}").view(f"u{bits // 8}")
    elif kind in ("f16", "bf16"):
        raw = numerics.encode(value, kind)
    else:
        raw = np.asarray(value).astype(f"u{bits // 8}", copy=False)
    return raw.astype(np.uint64 if bits == 64 else np.uint32, copy=False)


def operation(opcode: str) -> Operation | None:
    """The operation of an opcode with all its modifiers; None if this module does not model it."""
    root, *modifiers = opcode.split(".")
    builder = _BUILDERS.get(root)
    return builder(root, modifiers) if builder is not None and modifiers else None


def _typed(result: str, sources: tuple[str, ...], function: Function) -> Operation:
    def run(*rows: Row) -> Row:
        with np.errstate(all="ignore"):
            return write(function(*[read(row, kind) for row, kind in zip(rows, sources)]), result)

    return Operation(result, sources, run)


_INTEGER_TYPE = re.compile(r"[busr](8|16|32|64)")
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _arithmetic(root: str, modifiers: list[str]) -> Operation | None:
    """Integer and floating-point instructions whose operands all have the instruction's type."""
    kind = modifiers[-1]
    if kind == "pred":
        return _logic(root, kind) if len(modifiers) == 1 else None
    if _INTEGER_TYPE.fullmatch(kind):
        return _integer(root, modifiers[:-1], kind)
    options = [m for m in modifiers[:-1] if m not in ("rn", "ftz")]
    if kind in _HALVES:
        return _half(root, options, kind)
    if kind in ("f32", "f64"):
        return _float(root, options, kind)
    return None


def _integer(root: str, options: list[str], kind: str) -> Operation | None:
    if "wide" in options:
        wide = f"{kind[0]}{2 * bits_of(kind)}"
        if root not in WIDE or options != ["wide"]:
            return None
        sources = (kind, kind, wide) if root == "mad" else (kind, kind)
        return _typed(wide, sources, WIDE[root])
    form = ".".join([root, *options])
    entry = INTEGER.get(form)
    if entry is None:
        return None
    function, count, special = entry
    sources = tuple(special.get(index, kind) for index in range(count))
    return _typed(special.get(-1, kind), sources, function)


def _logic(root: str, kind: str) -> Operation | None:
    table: dict[str, tuple[Function, int]] = {
        "and": (np.logical_and, 2),
        "or": (np.logical_or, 2),
        "xor": (np.logical_xor, 2),
        "not": (np.logical_not, 1),
        "mov": (np.copy, 1),
    }
    if root not in table:
        return None
    function, count = table[root]
    return Operation(kind, (kind,) * count, function)


def _half(root: str, options: list[str], kind: str) -> Operation | None:
    count = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "min": 2, "max": 2, "neg": 1, "abs": 1}.get(
        root
    )
    if count is None or options:
        return None
    packed = kind.endswith("x2")
    name = kind.removesuffix("x2")

    def run(*rows: Row) -> Row:
        if packed:
            return alu.half2_op(root, name, *rows)
        return alu.half_op(root, name, *[row.astype(np.uint16) for row in rows]).astype(np.uint32)

    return Operation(kind, (kind,) * count, run)


_FLOAT: dict[str, tuple[Function, int]] = {
    "add": (np.add, 2),
    "sub": (np.subtract, 2),
    "mul": (np.multiply, 2),
    "div": (np.divide, 2),
    "neg": (np.negative, 1),
    "abs": (np.abs, 1),
    "sqrt": (np.sqrt, 1),
    "rcp": (lambda a: 1 / a, 1),
    "rsqrt": (lambda a: 1 / np.sqrt(a), 1),
    "ex2": (np.exp2, 1),
    "lg2": (np.log2, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tanh": (np.tanh, 1),
    "copysign": (lambda a, b: np.copysign(b, a), 2),
}


def _float(root: str, options: list[str], kind: str) -> Operation | None:
    if root in ("min", "max") and not options:
        return _typed(kind, (kind, kind), lambda a, b: alu.minmax(root, a, b))
    if root == "fma" and not options and kind == "f32":
        return _typed(kind, (kind,) * 3, lambda a, b, c: alu.fma(a, b, c, "f32"))
    if root not in _FLOAT or any(option not in ("approx", "full") for option in options):
        return None
    function, count = _FLOAT[root]
    return _typed(kind, (kind,) * count, function)


_COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED = {f"{name}u": name for name in ("eq", "lt", "le", "gt", "ge")}
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(name: str, kind: str) -> Function | None:
    is_float = kind[0] == "f" or kind[:2] == "bf"
    if name in _COMPARE:
        if is_float and name == "ne":
            return lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)
        return _COMPARE[name]
    if not is_float:
        return None
    if name in _UNORDERED:
        inner = _COMPARE[_UNORDERED[name]]
        return lambda a, b: inner(a, b) | np.isnan(a) | np.isnan(b)
    if name == "neu":
        return np.not_equal
    if name in ("num", "nan"):
        wanted = name == "nan"
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == wanted
    return None


def _setp(root: str, modifiers: list[str]) -> Operation | None:
    """setp.cmp[.bool][.ftz].type: the first predicate. `p|q` is split by the lowering."""
    words = [m for m in modifiers if m != "ftz"]
    compare = _comparison(words[0], words[-1])
    if compare is None or len(words) not in (2, 3):
        return None
    if len(words) == 2:
        return _typed("pred", (words[1], words[1]), compare)
    combine = _COMBINE.get(words[1])
    if combine is None:
        return None
    sources = (words[2], words[2], "pred")
    return _typed("pred", sources, lambda a, b, c: combine(compare(a, b), c))


def _selp(root: str, modifiers: list[str]) -> Operation | None:
    kind = modifiers[-1]
    raw = f"b{bits_of(kind)}"
    return _typed(raw, (raw, raw, "pred"), lambda a, b, p: np.where(p, a, b))


def _mov(root: str, modifiers: list[str]) -> Operation | None:
    kind = modifiers[-1]
    if kind == "pred":
        return Operation(kind, (kind,), np.copy)
    raw = f"b{bits_of(kind)}"
    return _typed(raw, (raw,), np.copy) if len(modifiers) == 1 else None


def _convert(root: str, modifiers: list[str]) -> Operation | None:
    """cvt[.rounding][.ftz][.sat].dtype.atype and the packed forms that take two sources."""
    target = modifiers[-2] if len(modifiers) > 1 else ""
    source = modifiers[-1]
    options = set(modifiers[:-2]) - {"ftz"}
    if target in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2"):
        return _convert_packed(target, source, options)
    saturate = "sat" in options
    rounding = next((m for m in options if re.fullmatch(r"r[nzmp]i?|rna", m)), "")
    if options - {"sat", rounding, "satfinite", "relu"} or not target:
        return None
    from_int, to_int = bool(_INTEGER_TYPE.fullmatch(source)), bool(_INTEGER_TYPE.fullmatch(target))
    bits, signed = bits_of(target), target[0] == "s"
    if from_int and to_int:
        if not saturate:
            return _typed(target, (source,), lambda a: a)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        dtype = f"{'i' if signed else 'u'}{bits // 8}"
        return _typed(
            target, (source,), lambda a: np.clip(a.astype(object), low, high).astype(dtype)
        )
    if to_int:
        mode = rounding or "rzi"
        return _typed(target, (source,), lambda a: numerics.float_to_int(a, bits, signed, mode))
    if target in ("f32", "f64"):
        if rounding.endswith("i") and not from_int:
            return _typed(target, (source,), lambda a: numerics.round_to_integer(a, rounding))
        if rounding not in ("", "rn"):
            return None
        return _typed(target, (source,), lambda a: np.clip(a, 0, 1) if saturate else a)
    if target in ("f16", "bf16", "tf32"):
        mode = rounding or "rn"
        relu, satfinite = "relu" in options, "satfinite" in options

        def narrow(row: Row) -> Row:
            values = read(row, source)
            return numerics.encode(values, target, mode, satfinite=satfinite, relu=relu).astype(
                np.uint32
            )  # type: ignore[arg-type]

        return Operation(target, (source,), narrow)
    return None


def _convert_packed(target: str, source: str, options: set[str]) -> Operation | None:
    rounding = "rz" if "rz" in options else "rn"
    if options - {"rn", "rz", "relu", "satfinite"}:
        return None
    relu, satfinite = "relu" in options, "satfinite" in options
    if source in ("e4m3x2", "e5m2x2") and target == "f16x2":
        return Operation(target, ("b16",), lambda a: alu.cvt_fp8_to_f16x2(a, source, relu=relu))
    if source == "f16x2" and target in ("e4m3x2", "e5m2x2"):

        def from_half(words: Row) -> Row:
            high, low = alu.cvt_unpack(words, "f16x2")
            return alu.cvt_pack(high, low, target, satfinite=True, relu=relu).astype(np.uint32)

        return Operation(target, ("b32",), from_half)
    if source != "f32":
        return None

    def pack(high: Row, low: Row) -> Row:
        values = read(high, "f32"), read(low, "f32")
        return alu.cvt_pack(*values, target, rounding, satfinite=satfinite, relu=relu).astype(
            np.uint32
        )

    return Operation(target, ("f32", "f32"), pack)


_BUILDERS: dict[str, Callable[[str, list[str]], Operation | None]] = {
    **{name: _arithmetic for name in _FLOAT},
    **{form.split(".")[0]: _arithmetic for form in INTEGER},
    "fma": _arithmetic,
    "setp": _setp,
    "selp": _selp,
    "mov": _mov,
    "cvt": _convert,
}
