"""A stand-in for cupy on the CPU that is as strict: no silent way from its arrays to numpy's or
back.

It shows that code written for both libraries never mixes them; it says nothing about what cupy
computes.
"""

from __future__ import annotations

import operator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


def _unwrap(value: Any) -> Any:
    if _is_host(value):
        raise TypeError("a numpy array was passed to cupy")
    if isinstance(value, ndarray):
        return value.host
    if isinstance(value, tuple | list):
        return type(value)(_unwrap(item) for item in value)
    return value


def _is_host(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _wrap(value: Any) -> Any:
    return ndarray(value) if isinstance(value, np.ndarray | np.generic) else value


class ndarray:  # noqa: N801 - cupy's name
    """An array of the stand-in; even its reductions stay on the device, as cupy's do."""

    __module__ = "cupy"
    __array_ufunc__ = None  # numpy's operators must not take it in

    def __init__(self, host: Any) -> None:
        self.host = np.asarray(host)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """As cupy: an implicit conversion is an error."""
        raise TypeError("implicit conversion to a numpy array")

    def __getattr__(self, name: str) -> Any:
        """Plain facts come from the array itself, methods are wrapped; no protocol leaks the
        host.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.host, name)
        if not callable(found):
            return _wrap(found) if isinstance(found, np.ndarray) else found
        return lambda *a, **k: _wrap(found(*_unwrap(a), **{x: _unwrap(y) for x, y in k.items()}))

    @property
    def data(self) -> SimpleNamespace:
        """The device pointer."""
        return SimpleNamespace(ptr=self.host.ctypes.data)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(self.host[_unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[_unwrap(key)] = _unwrap(value)

    def __float__(self) -> float:
        return float(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __invert__(self) -> ndarray:
        return ndarray(~self.host)

    def __iadd__(self, other: Any) -> ndarray:
        self.host += _unwrap(other)
        return self

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.host.__dlpack_device__()


def _operator(function: Any, swapped: bool) -> Any:
    def apply(self: ndarray, other: Any) -> Any:
        pair = (self.host, _unwrap(other))
        return _wrap(function(*(pair[::-1] if swapped else pair)))

    return apply


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "matmul",
    "and",
    "or",
    "lshift",
    "rshift",
):
    _function = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", _operator(_function, False))
    setattr(ndarray, f"__r{_name}__", _operator(_function, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(ndarray, f"__{_name}__", _operator(getattr(operator, _name), False))


class _Generator:
    def __init__(self, seed: int) -> None:
        self.host = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: _wrap(getattr(self.host, name)(*args, **options))


_FUNCTIONS = [
    "abs",
    "isinf",
    "isnan",
    "isfinite",
    "where",
    "zeros",
    "full",
    "empty",
    "arange",
    "nextafter",
    "zeros_like",
    "pad",
    "percentile",
    "flatnonzero",
    "searchsorted",
    "signbit",
]


def strict_cupy() -> ModuleType:
    """A module to put in place of cupy."""
    module = ModuleType("cupy")

    def function(name: str) -> Any:
        found = getattr(np, name)
        return lambda *a, **k: _wrap(found(*_unwrap(a), **{x: _unwrap(y) for x, y in k.items()}))

    for name in _FUNCTIONS:
        setattr(module, name, function(name))
    module.asnumpy = lambda array: array.host.copy()  # type: ignore[attr-defined]
    module.asarray = lambda array: ndarray(np.array(array))  # type: ignore[attr-defined]
    module.from_dlpack = lambda array: ndarray(np.from_dlpack(array))  # type: ignore[attr-defined]
    module.random = SimpleNamespace(default_rng=_Generator)  # type: ignore[attr-defined]
    module.inf, module.ndarray = np.inf, ndarray  # type: ignore[attr-defined]
    module.uint8 = np.uint8  # type: ignore[attr-defined]
    return module
