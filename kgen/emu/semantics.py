"""The meaning of every modelled ALU instruction, as a function of register rows.

A row is a numpy array of unsigned register contents: uint32 for registers of up to 32 bits (narrow
ones are
zero-extended), uint64 for 64-bit registers, bool for predicates. Functions are elementwise, any
shape.
Source  PTX ISA chapter 9.7.1 - 9.7.9 (integer, floating point, comparison, logic and shift, data
        movement)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kgen.emu.bit_ops import PERMUTE_MODES, dot_product
from kgen.emu.convert_ops import convert
from kgen.emu.float_ops import FLOAT_ROOTS, float_operation, half_operation
from kgen.emu.integer_ops import INTEGER, WIDE
from kgen.emu.operation import INTEGER_TYPE, Function, Operation, bits_of, typed


def operation(opcode: str) -> Operation | None:
    """The operation of an opcode with all its modifiers; None if this module does not model it."""
    root, *modifiers = opcode.split(".")
    builder = _BUILDERS.get(root)
    return builder(root, modifiers) if builder is not None and modifiers else None


_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def _arithmetic(root: str, modifiers: list[str]) -> Operation | None:
    """Integer and floating-point instructions whose operands all have the instruction's type."""
    kind = modifiers[-1]
    if kind == "pred":
        return _logic(root, kind) if len(modifiers) == 1 else None
    if INTEGER_TYPE.fullmatch(kind):
        return _integer(root, modifiers[:-1], kind)
    options = [m for m in modifiers[:-1] if m != "rn"]
    if kind in _HALVES:
        return half_operation(root, options, kind)
    if kind in ("f32", "f64"):
        return float_operation(root, options, kind)
    return None


def _integer(root: str, options: list[str], kind: str) -> Operation | None:
    if "wide" in options:
        wide = f"{kind[0]}{2 * bits_of(kind)}"
        if root not in WIDE or options != ["wide"]:
            return None
        sources = (kind, kind, wide) if root == "mad" else (kind, kind)
        return typed(wide, sources, WIDE[root])
    form = ".".join([root, *options])
    entry = INTEGER.get(form)
    if entry is None:
        return None
    function, count, special = entry
    sources = tuple(special.get(index, kind) for index in range(count))
    return typed(special.get(-1, kind), sources, function)


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
        return typed("pred", (words[1], words[1]), compare)
    combine = _COMBINE.get(words[1])
    if combine is None:
        return None
    sources = (words[2], words[2], "pred")
    return typed("pred", sources, lambda a, b, c: combine(compare(a, b), c))


def _selp(root: str, modifiers: list[str]) -> Operation | None:
    kind = modifiers[-1]
    raw = f"b{bits_of(kind)}"
    return typed(raw, (raw, raw, "pred"), lambda a, b, p: np.where(p, a, b))


def _set(root: str, modifiers: list[str]) -> Operation | None:
    """set.cmp.dtype.stype: all ones (integers) or 1.0 where the comparison holds."""
    words = [m for m in modifiers if m != "ftz"]
    if len(words) != 3 or words[1] not in ("u32", "s32", "f32"):
        return None
    compare = _comparison(words[0], words[2])
    if compare is None:
        return None
    true = np.uint32(0x3F800000 if words[1] == "f32" else 0xFFFFFFFF)
    sources = (words[2], words[2])
    return typed("b32", sources, lambda a, b: np.where(compare(a, b), true, np.uint32(0)))


def _slct(root: str, modifiers: list[str]) -> Operation | None:
    """slct.dtype.s32 / .f32: a if c >= 0, else b."""
    words = [m for m in modifiers if m != "ftz"]
    if len(words) != 2 or words[1] not in ("s32", "f32"):
        return None
    raw = f"b{bits_of(words[0])}"
    return typed(raw, (raw, raw, words[1]), lambda a, b, c: np.where(c >= 0, a, b))


def _prmt(root: str, modifiers: list[str]) -> Operation | None:
    """prmt.b32[.mode]"""
    if modifiers[-1] in PERMUTE_MODES and modifiers[0] == "b32":
        return typed("b32", ("b32",) * 3, PERMUTE_MODES[modifiers[-1]])
    return _arithmetic(root, modifiers)


def _dot(root: str, modifiers: list[str]) -> Operation | None:
    """dp4a.atype.btype and dp2a.mode.atype.btype"""
    a_type, b_type = modifiers[-2:]
    half = -1 if root == "dp4a" else int(modifiers[0] == "hi")
    return typed("b32", ("b32",) * 3, dot_product(a_type == "s32", b_type == "s32", half))


def _mov(root: str, modifiers: list[str]) -> Operation | None:
    kind = modifiers[-1]
    if kind == "pred":
        return Operation(kind, (kind,), np.copy)
    raw = f"b{bits_of(kind)}"
    return typed(raw, (raw,), np.copy) if len(modifiers) == 1 else None


_BUILDERS: dict[str, Callable[[str, list[str]], Operation | None]] = {
    **dict.fromkeys(FLOAT_ROOTS, _arithmetic),
    **{form.split(".")[0]: _arithmetic for form in INTEGER},
    "setp": _setp,
    "selp": _selp,
    "mov": _mov,
    "cvt": convert,
    "set": _set,
    "slct": _slct,
    "prmt": _prmt,
    "dp4a": _dot,
    "dp2a": _dot,
}
