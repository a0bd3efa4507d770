"""Read-modify-write arithmetic of atom, red and the reducing copies.

Source  PTX ISA 9.7.13.6 (atom), 9.7.13.7 (red), cp.reduce.async.bulk
"""

from __future__ import annotations

import numpy as np

from kgen.emu import alu

_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def combine(operation: str, dtype: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Unsigned bits of `old operation new`; dtype is a PTX type or that of a tensor map."""
    if operation in _BITWISE:
        return _BITWISE[operation](old, new)
    if operation == "exch":
        return new
    if dtype in ("f16x2", "bf16x2"):
        return alu.half2_op(operation, dtype.removesuffix("x2"), old, new)
    if dtype in ("f16", "bf16"):
        return alu.half_op(operation, dtype, old, new)
    if dtype in ("f32", "f64", "f32_ftz"):
        kind = "f8" if dtype == "f64" else "f4"
        a, b = old.view(kind), new.view(kind)
        result = a + b if operation == "add" else alu.minmax(operation, a, b)
        return np.asarray(result, kind).view(old.dtype)
    a, b = old, new
    if dtype[0] == "s":
        a, b = old.view(f"i{old.dtype.itemsize}"), new.view(f"i{new.dtype.itemsize}")
    if operation == "add":
        return (a + b).view(old.dtype)
    if operation in ("min", "max"):
        return (np.minimum if operation == "min" else np.maximum)(a, b).view(old.dtype)
    if operation == "inc":
        return np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return np.where((old == 0) | (old > new), new, old - old.dtype.type(1))
    raise ValueError(f"{operation}.{dtype}")


def is_modelled(operation: str, dtype: str) -> bool:
    """Whether `combine` knows this pair."""
    probe = np.zeros(
        1,
        {"f16": np.uint16, "bf16": np.uint16}.get(dtype, np.uint64 if "64" in dtype else np.uint32),
    )
    try:
        combine(operation, dtype, probe, probe)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return True
