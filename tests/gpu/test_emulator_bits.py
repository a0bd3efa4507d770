"""The hardware leaves the bits that the emulator leaves, on the emulator's own cases and operands.

CI holds the emulator to `expected` (tests/emulator/test_kernels.py); this holds the GPU to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device import Loaded

from kgen.emu.launch import Array
from kgen.run import Arguments
from kgen.verify.emulator import expected, launch_of, shapes_of
from kgen.verify.shapes import Shape

pytestmark = pytest.mark.gpu


def on_device(array: Array) -> tuple[Any, int]:
    """The array's memory at launch on the GPU, guard bands around it, and its base address."""
    import cupy

    guard = np.full(array.guard_bytes, 0xFF, np.uint8)
    memory = cupy.asarray(np.concatenate([guard, array.allocate(), guard]))
    return memory, memory.data.ptr + array.guard_bytes


def test_the_gpu_leaves_the_same_bits(loaded: Loaded) -> None:
    plan = loaded.plan
    for shape in shapes_of(plan):
        launch = launch_of(plan, shape)
        memory = {a.name: on_device(a) for a in launch.arrays}
        loaded.kernel.prepare(arguments(shape, memory))()
        loaded.torch.cuda.synchronize()
        array = launch.array("d")
        whole = memory["d"][0].get()
        inside = whole[array.guard_bytes : len(whole) - array.guard_bytes]
        assert np.array_equal(array.elements(inside), expected(plan, launch)), shape.label
        untouched = np.ones(len(whole), bool)
        places = array.element_offsets()[..., None] + np.arange(array.element_bytes)
        untouched[array.guard_bytes + places.ravel()] = False
        assert (whole[untouched] == 0xFF).all(), f"{shape.label}: written outside D"


def arguments(shape: Shape, memory: dict[str, tuple[Any, int]]) -> Arguments:
    address = {name: base for name, (_, base) in memory.items()}
    return Arguments(
        address.get("a", 0),
        address.get("b", 0),
        address["d"],
        shape.m,
        shape.n,
        shape.k,
        shape.lda,
        shape.ldb,
        shape.ldd,
    )
