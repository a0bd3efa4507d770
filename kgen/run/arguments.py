"""What a launch is given, whether it may run, and the by-value parameter it passes. No GPU needed.

The checks are those of the C launcher, in its order, with the same status names; a test compares
both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import LaunchError
from kgen.plan import KernelPlan, TensorMap
from kgen.run.grid import Grid, ceil_div


@dataclass(frozen=True)
class Arguments:
    """Device addresses, extents and leading dimensions (both in elements) of one launch.

    sfa, sfb and alpha count only for kernels that take block scales and a global scale.
    """

    a: int
    b: int
    d: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldd: int
    workspace: int = 0
    sfa: int = 0
    sfb: int = 0
    alpha: float = 1.0

    @property
    def is_empty(self) -> bool:
        """D has no element: there is nothing to launch."""
        return self.m == 0 or self.n == 0


def _tiles_of(plan: KernelPlan, x: Arguments) -> int:
    m, n = plan.cluster_tile
    return ceil_div(x.m, m) * ceil_div(x.n, n)


def status_of(plan: KernelPlan, x: Arguments) -> str:
    """`ok`, or the name of the first precondition that the launch breaks."""
    for extent in ("m", "n", "k"):
        if not 0 <= getattr(x, extent) <= plan.extent_limit:
            return f"{extent}_out_of_range"
    if x.is_empty:
        return "ok"
    if _tiles_of(plan, x) > plan.max_tiles:
        return "too_many_tiles"
    if x.k > 0:
        for row in plan.input_maps:
            status = _input_status(row, x)
            if status != "ok":
                return status
        status = _scale_status(plan, x)
        if status != "ok":
            return status
    if x.d == 0:
        return "d_null"
    if x.d % plan.d_type.bytes:
        return "d_unaligned"
    if x.m > 1 and x.ldd < x.n:
        return "ldd_too_small"
    return "ok"


def _input_status(row: TensorMap, x: Arguments) -> str:
    address, ld = getattr(x, row.pointer), getattr(x, row.ld)
    if address == 0:
        return f"{row.pointer}_null"
    if address % 16:
        return f"{row.pointer}_unaligned"
    if getattr(x, row.outer) > 1:
        if ld < getattr(x, row.inner):
            return f"{row.ld}_too_small"
        if ld % row.multiple:
            return f"{row.ld}_unaligned"
        if ld >= row.max_ld:
            return f"{row.ld}_too_large"
    return "ok"


def _scale_status(plan: KernelPlan, x: Arguments) -> str:
    for row in plan.scale_maps:
        if x.k % row.whole:
            return "k_not_whole_scales"
        address = getattr(x, row.pointer)
        if address == 0:
            return f"{row.pointer}_null"
        if address % 16:
            return f"{row.pointer}_unaligned"
    for row in plan.scale_arrays:
        address = getattr(x, row.pointer)
        if address == 0:
            return f"{row.pointer}_null"
        if address % 4:
            return f"{row.pointer}_unaligned"
    return "ok"


def require_workspace(plan: KernelPlan, x: Arguments, grid: Grid) -> None:
    """Raises LaunchError where the launch needs a workspace and has none that it could use."""
    if grid.workspace_bytes and (not x.workspace or x.workspace % 16):
        what = (
            f"{plan.name}: workspace_unusable: {grid.workspace_bytes} bytes of device memory needed"
        )
        raise LaunchError(what, "workspace_unusable")


def require_ok(plan: KernelPlan, x: Arguments) -> None:
    """Raises LaunchError, naming operand, value and rule, when the launch must not run."""
    status = status_of(plan, x)
    if status != "ok":
        row = next(s for s in plan.statuses if s.name == status)
        subject = status.split("_")[0]
        value = getattr(x, subject, None)
        pointers = ("a", "b", "d", "sfa", "sfb")
        shown = f"{value:#x}" if subject in pointers and value is not None else value
        given = f" ({subject} = {shown})" if value is not None else ""
        raise LaunchError(f"{plan.name}: {status}: {row.text}{given}", status)


def stores_by_tma(plan: KernelPlan, x: Arguments) -> bool:
    """Whether TMA can write the rows of D; otherwise the consumers store element by element.

    TMA clips a load element by element but a store in units of 16 bytes: with N = 81 of a 16-bit
    type it writes 88 columns (seen on an H200). So N must be a whole number of units, too.
    """
    row = plan.map_d
    if row is None or x.d % 16 or x.n % row.multiple:
        return False
    return x.m == 1 or (x.ldd % row.multiple == 0 and x.ldd < row.max_ld)


def stores_in_pairs(x: Arguments) -> bool:
    """Whether two neighbouring 16-bit elements of D can be stored as one aligned word."""
    return x.d % 4 == 0 and (x.m == 1 or x.ldd % 2 == 0)


def problem_values(plan: KernelPlan, x: Arguments, grid: Grid) -> dict[str, int | float]:
    """The members of the kernel's `Problem` parameter, by name; a plan has some of them."""
    return {
        "d": x.d,
        "ldd": x.ldd,
        "m": x.m,
        "n": x.n,
        "k_tiles": ceil_div(x.k, plan.tile[2]),
        "tiles_m": grid.tiles_m,
        "tiles_n": grid.tiles_n,
        "tma_store": int(stores_by_tma(plan, x)),
        "pair_store": int(stores_in_pairs(x)),
        "share": grid.share,
        "flags": x.workspace,
        "parts": x.workspace + grid.flag_bytes,
        "sfa": x.sfa,
        "sfb": x.sfb,
        "alpha": x.alpha,
    }


def problem_record(plan: KernelPlan, x: Arguments, grid: Grid) -> Any:
    """The kernel's `Problem` parameter, laid out as the compiler lays out the struct."""
    layout = np.dtype([(f.name, f.numpy) for f in plan.problem_fields], align=True)
    values = problem_values(plan, x, grid)
    record = np.zeros((), layout)
    for name in layout.names or ():
        record[name] = values[name]
    return record[()]
