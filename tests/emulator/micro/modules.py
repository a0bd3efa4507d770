"""PTX text of every module of the micro-tests, and where their cubins are."""

from __future__ import annotations

from pathlib import Path

from .generated import modules

HERE = Path(__file__).resolve().parent
PTX, BUILD = HERE / "ptx", HERE / "_build"
COMPILED = ("tma", "sync")
"""Modules that come from a .cu file; their PTX is committed. The others are generated."""

MODULES = (*COMPILED, *modules())


def ptx_text(module: str) -> str:
    """Needs no compiler."""
    if module in COMPILED:
        return (PTX / f"{module}.ptx").read_text()
    return modules()[module]
