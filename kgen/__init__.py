"""kgen: a YAML spec to one self-contained, readable CUDA GEMM kernel, with the evidence for it.

from kgen import load_spec, lower, render
print(render(lower(load_spec("specs/hopper/v6.yaml"))).source)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kgen._version import __version__

if TYPE_CHECKING:
    from kgen.api import build, load_spec, lower, render

__all__ = ["__version__", "build", "load_spec", "lower", "render"]


def __getattr__(name: str) -> Any:
    """Load the interface on first use, so that `kgen --help` loads none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'kgen' has no attribute {name!r}")
    # Not `from kgen import api`: that would ask this function for `api`.
    from importlib import import_module

    return getattr(import_module("kgen.api"), name)


class _Package(ModuleType):
    """This package: loading a module such as `kgen.render` must not hide the function `render`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
