"""Fixtures of the GPU tests: every shipped kernel, loaded once through both launchers.

Run with `make gpu`. Where something is missing, the skip says what.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import build_shared_library
from kgen.errors import DeviceError
from kgen.paths import data_folder
from kgen.plan import KernelPlan
from kgen.run import Arguments, Kernel, SharedLibrary
from kgen.run.launch import import_cupy

SPECS = sorted(p for p in data_folder("specs").rglob("*.yaml") if ".sweep" not in p.suffixes)


@dataclass(frozen=True)
class Loaded:
    """One kernel, ready to launch from Python (`kernel`) and through its C ABI (`library`)."""

    plan: KernelPlan
    kernel: Kernel
    library: SharedLibrary
    library_path: Path
    torch: Any

    @property
    def dtype(self) -> Any:
        """torch type of A, B and D."""
        return {"f16": self.torch.float16, "bf16": self.torch.bfloat16}[self.plan.map_a.dtype.name]

    def integers(self, rows: int, cols: int, ld: int | None = None) -> Any:
        """Small integers, so that every partial sum is exact; NaN between the rows."""
        torch = self.torch
        buffer = torch.full(
            (rows, ld or max(8, -(-cols // 8) * 8)), float("nan"), device="cuda", dtype=self.dtype
        )
        values = torch.randint(-2, 3, (rows, cols), device="cuda")
        buffer[:, :cols] = values.to(self.dtype)
        return buffer[:, :cols]

    def output(self, m: int, n: int, ld: int | None = None) -> Any:
        """D, filled with NaN."""
        buffer = self.torch.full(
            (m, ld or max(8, -(-n // 8) * 8)), float("nan"), device="cuda", dtype=self.dtype
        )
        return buffer[:, :n]

    def arguments(self, a: Any, b: Any, d: Any) -> Arguments:
        """Launch arguments of three K-major tensors."""
        return Arguments(
            a.data_ptr(),
            b.data_ptr(),
            d.data_ptr(),
            a.shape[0],
            b.shape[0],
            a.shape[1],
            a.stride(0),
            b.stride(0),
            d.stride(0),
        )

    def launch_python(self, a: Any, b: Any, d: Any) -> None:
        """Launch from Python and wait."""
        self.kernel.prepare(self.arguments(a, b, d))()
        self.torch.cuda.synchronize()

    def launch_c(self, a: Any, b: Any, d: Any) -> None:
        """Launch through the C ABI on torch's stream and wait."""
        stream = self.torch.cuda.current_stream().cuda_stream
        status = self.library.launch(self.arguments(a, b, d), stream)
        assert self.library.status_string(status) == "success", self.library.last_error()
        self.torch.cuda.synchronize()


@cache
def _load(spec: Path) -> Loaded:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    plan = lower(load_spec(spec))
    kernel = Kernel(plan, build(plan).path)
    path = build_shared_library(render(plan).source, name=plan.name, target=plan.target)
    return Loaded(plan, kernel, SharedLibrary(plan.name, path), path, torch)


@pytest.fixture(params=SPECS, ids=[p.stem for p in SPECS])
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    """Every shipped kernel whose target the current GPU is; skips say why."""
    try:
        import_cupy()
        yield _load(request.param)
    except DeviceError as error:
        pytest.skip(str(error))


def bits(tensor: Any) -> Any:
    """16-bit patterns, so that NaN compares equal to itself."""
    return tensor.contiguous().view(__import__("torch").int16)
