"""cvt: conversions between integers and floats of all widths.

Source  PTX ISA 9.7.9.21 (cvt)
"""

from __future__ import annotations

import re
from typing import cast

import numpy as np

from kgen.emu import alu, numerics
from kgen.emu.float_ops import saturate as clamp
from kgen.emu.operation import INTEGER_TYPE, Operation, Row, bits_of, read, typed


def convert(root: str, modifiers: list[str]) -> Operation | None:
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
    from_int, to_int = bool(INTEGER_TYPE.fullmatch(source)), bool(INTEGER_TYPE.fullmatch(target))
    bits, signed = bits_of(target), target[0] == "s"
    if from_int and to_int:
        if not saturate:
            return typed(target, (source,), lambda a: a)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        dtype = f"{'i' if signed else 'u'}{bits // 8}"
        return typed(
            target, (source,), lambda a: np.clip(a.astype(object), low, high).astype(dtype)
        )
    if to_int:
        mode = rounding or "rzi"
        return typed(target, (source,), lambda a: numerics.float_to_int(a, bits, signed, mode))
    if (target, source) == ("f32", "bf16") and not options:  # a shift: NaN stays as it is
        return Operation(target, ("b16",), lambda a: (a & np.uint32(0xFFFF)) << np.uint32(16))
    if target in ("f32", "f64"):
        if rounding.endswith("i") and not from_int:
            return typed(target, (source,), lambda a: numerics.round_to_integer(a, rounding))
        if rounding in ("rz", "rm", "rp") and target == "f32":
            return typed(target, (source,), lambda a: _round_directed(a, rounding))
        if rounding not in ("", "rn"):
            return None
        return typed(target, (source,), lambda a: clamp(a) if saturate else a)
    if target in ("f16", "bf16", "tf32"):
        mode = cast(numerics.Rounding, rounding or "rn")
        relu, satfinite = "relu" in options, "satfinite" in options

        def narrow(row: Row) -> Row:
            values = read(row, source)
            return numerics.encode(values, target, mode, satfinite=satfinite, relu=relu).astype(
                np.uint32
            )

        return Operation(target, (source,), narrow)
    return None


def _round_directed(a: Row, rounding: str) -> Row:
    """A 32-bit integer or f64 to f32; 64-bit integers do not fit float64 and round twice."""
    return alu.round_to_format(a.astype(np.float64), "f32", cast(numerics.Rounding, rounding))


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
