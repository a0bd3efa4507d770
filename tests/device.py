"""A kernel loaded on the GPU through both launchers, and the tensors that tests feed it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import build_shared_library
from kgen.plan import KernelPlan
from kgen.run import Arguments, Kernel, SharedLibrary
from kgen.run.launch import require_device


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

    def launch_c(self, a: Any, b: Any, d: Any, workspace: Any = None) -> None:
        """Launch through the C ABI on torch's stream, with a workspace if it asks for one; wait."""
        stream = self.torch.cuda.current_stream().cuda_stream
        x = self.arguments(a, b, d)
        size = self.library.workspace_bytes(x.m, x.n, x.k)
        if size and workspace is None:
            workspace = self.torch.zeros(size, dtype=self.torch.uint8, device="cuda")
        if size:
            x = replace(x, workspace=workspace.data_ptr())
        status = self.library.launch(x, stream)
        assert self.library.status_string(status) == "success", self.library.last_error()
        self.torch.cuda.synchronize()


@cache
def load(spec: Path) -> Loaded:
    """A spec's kernel, built (or taken from the cache) and loaded once."""
    return load_plan(lower(load_spec(spec)))


def load_plan(plan: KernelPlan) -> Loaded:
    """The kernel of a plan, built (or taken from the cache) and loaded."""
    import torch

    require_device(plan)  # before anything is built for another target
    kernel = Kernel(plan, build(plan).path)
    path = build_shared_library(render(plan).source, name=plan.name, target=plan.target)
    return Loaded(plan, kernel, SharedLibrary(plan.name, path), path, torch)


def bits(tensor: Any) -> Any:
    """16-bit patterns, so that NaN compares equal to itself."""
    import torch

    return tensor.contiguous().view(torch.int16)
