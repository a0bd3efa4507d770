"""The workspace that a kernel gives its launches: shared by them, and alive as long as one is."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_driver import install_cupy, install_driver
from persistent import plan_of

from kgen.run import Arguments, Kernel

WORK = Arguments(0x10000, 0x20000, 0x30000, 2048, 256, 2560, 2560, 2560, 256)
"""Eight cluster tiles of 40 K tiles for the seven clusters that fit: tiles are cut."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """The arrays that a kernel asked for, without keeping them."""
    found: list[weakref.ref[Any]] = []
    install_driver(monkeypatch)
    cupy, _ = install_cupy(monkeypatch, "90")
    zeros = cupy.zeros

    def record(*shape: Any, **options: Any) -> Any:
        array = zeros(*shape, **options)
        found.append(weakref.ref(array))
        return array

    cupy.zeros = record
    return found


def kernel() -> Kernel:
    return Kernel(plan_of(), Path("none.cubin"))


def test_a_launch_keeps_its_workspace_when_the_kernel_is_gone(given) -> None:
    """Other arrays in that memory would be taken for parts and flags, and overwritten."""
    launch = kernel().prepare(WORK)
    gc.collect()
    (workspace,) = (ref() for ref in given)
    assert workspace is not None
    assert launch.arguments[-1]["flags"] == workspace.data.ptr
    del launch, workspace
    gc.collect()
    assert given[0]() is None


def test_launches_share_a_workspace(given) -> None:
    loaded = kernel()
    first, second = (loaded.prepare(x) for x in (WORK, replace(WORK, m=1900)))
    assert len(given) == 1 and first.workspace is second.workspace
    assert first.workspace.nbytes == loaded.grid(WORK).workspace_bytes


def test_no_workspace_is_made_where_none_is_needed_or_one_is_given(given) -> None:
    loaded = kernel()
    whole = loaded.prepare(replace(WORK, k=64))
    own = loaded.prepare(replace(WORK, workspace=0x40000))
    nothing = loaded.prepare(replace(WORK, m=0))
    assert not given
    assert (whole.workspace, own.workspace, nothing.workspace) == (None, None, None)
    assert own.arguments[-1]["flags"] == 0x40000
