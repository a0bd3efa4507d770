"""Runs a kernel in the emulator over its shapes: values bit for bit, and what the emulator finds.

Operands are small integers of random sign, so that partial sums are exact in any accumulator (up to
K = 2048 whatever the signs) and the result does not depend on the order of additions. Nothing here
needs a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kgen.budget.ring import MBARRIER_BYTES
from kgen.emu import Judgement, Launch, Report, emulate, judge, load_program
from kgen.emu.api import DEFAULT_SCHEDULES
from kgen.emu.launch import (
    Argument,
    Array,
    Constant,
    Integers,
    Pointer,
    Poison,
    Raw,
    Scalar,
    Struct,
)
from kgen.emu.tensormap import TensorMap
from kgen.errors import DeviceError
from kgen.plan import KernelPlan
from kgen.plan import TensorMap as MapRow
from kgen.plan.launch import ScaleArray
from kgen.run.arguments import Arguments, problem_values, stores_by_tma
from kgen.run.grid import Grid, ceil_div, grid_of
from kgen.verify.numbers import from_float32, number_format, to_float32
from kgen.verify.problem import leading_dimension, tile_of
from kgen.verify.scaling import Scales
from kgen.verify.shapes import Shape, emulator_shapes

EXACT_SUM = 2048  # of an f16 accumulator, the narrowest
LARGEST_SCALE = 8  # of A and of B: a sum of EXACT_SUM stays below 2^24, exact in f32
GUARD_BYTES = 4096
ALIGNED = 1 << 20  # a stand-in address; the emulator places the arrays itself
LEAST_SAVING = 1  # K tiles: cut tiles wherever that is possible at all
NO_MAP = Raw("00" * 128)  # the parameter of a map that the launchers leave zero
_SCALARS = {"i4": "s32", "i8": "s64", "u8": "u64"}
_MAP_TYPES = {
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "FLOAT32": "f32",
    "TFLOAT32": "tf32",
    "UINT8": "u8",
    "INT32": "s32",
}
_PROMOTION = {0: "none", 64: "64B", 128: "128B", 256: "256B"}


@dataclass(frozen=True)
class EmulatedCase:
    """One shape: the emulator's report, and how many elements of D differ from the product."""

    shape: Shape
    report: Report
    wrong: int
    first_wrong: str

    @property
    def passed(self) -> bool:
        """Clean under every schedule, and every schedule left the right bits."""
        return self.report.verdict == "clean" and not self.wrong and self.report.outputs_agree

    @property
    def stop(self) -> str:
        """Which instruction, not modelled, ended the run that D is of, and its line; else empty.

        D is unfinished then: that it is wrong says nothing of the kernel.
        """
        first = self.report.runs[0].findings if self.report.runs else ()
        found = next((f for f in first if f.kind == "unmodelled"), None)
        return f"{found.text}: {found.line} {found.ptx}" if found else ""


def require_covered(plan: KernelPlan) -> None:
    """Raises DeviceError for a kernel whose instructions the emulator does not know."""
    family = plan.budget.arch.family
    if family != "wgmma":
        raise DeviceError(
            f"{plan.name}: the emulator does not cover {family} yet; kgen build and kgen explain "
            f"need no {plan.devices}"
        )


def shapes_of(plan: KernelPlan) -> tuple[Shape, ...]:
    """The emulator's shapes of a plan that launch something.

    Base addresses are left out: the emulator places the arrays itself.
    """
    found = emulator_shapes(tile_of(plan))
    return tuple(s for s in found if s.m and s.n and not (s.offset_a or s.offset_b or s.offset_d))


def left_out(plan: KernelPlan) -> int:
    """How many shapes that the spec names under `verify` are not among `shapes_of`."""
    ran = {(s.m, s.n, s.k) for s in shapes_of(plan)}
    return len(set(plan.budget.spec.verify.shapes) - ran)


def launch_of(
    plan: KernelPlan, shape: Shape, seed: int = 0, registers: int | None = None
) -> Launch:
    """The launch that the plan's launchers would make, as the emulator describes launches.

    registers  per thread, as ptxas reports them; they bound what setmaxnreg can deal out

    The emulated device holds one cluster less than there are cluster tiles, at least two, so that
    some cluster has a second turn or tiles are cut.
    """
    x = Arguments(
        ALIGNED, ALIGNED, ALIGNED, shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldd
    )
    arrays = []
    if x.k > 0:
        arrays = [_input(plan, row, shape, seed + i) for i, row in enumerate(plan.input_maps)]
        arrays += [_scales(row, shape, seed + 2 + i) for i, row in enumerate(plan.scale_arrays)]
    arrays.append(_output(plan, shape))
    maps: list[Argument] = []
    for row in plan.maps:
        used = stores_by_tma(plan, x) if row.operand == "d" else x.k > 0
        maps.append(_tensor_map(plan, row, shape) if used else NO_MAP)
    tile = plan.cluster_tile
    resident = max(2, ceil_div(x.m, tile[0]) * ceil_div(x.n, tile[1]) - 1)
    grid = grid_of(plan, x.m, x.n, x.k, resident, LEAST_SAVING)
    if grid.workspace_bytes:
        arrays += _workspace(grid)
    return Launch(
        kernel=plan.name,
        grid=(grid.ctas, 1, 1),
        block=(plan.threads, 1, 1),
        arrays=tuple(arrays),
        arguments=(*maps, Struct(_members(plan, x, grid))),
        dynamic_shared_bytes=plan.smem_bytes,
        cluster=(plan.cluster[0] * plan.cluster[1], 1, 1),
        registers=registers,
        overlaps_previous=plan.pdl,
    )


def _workspace(grid: Grid) -> list[Array]:
    """Its two parts apart: only flags begin as zeros, and neither runs into the other."""
    return [
        Array("flags", "u32", (grid.flag_bytes // 4,), fill=Constant(0), guard_bytes=GUARD_BYTES),
        Array("parts", "u32", (grid.part_bytes // 4,), guard_bytes=GUARD_BYTES),
    ]


def _members(plan: KernelPlan, x: Arguments, grid: Grid) -> tuple[Pointer | Scalar, ...]:
    """The members of `Problem`, pointers by the name of the array they point into."""
    values = problem_values(plan, x, grid)
    pointers = {"d": Pointer("d")}
    if x.k > 0:
        pointers |= {row.pointer: Pointer(row.pointer) for row in plan.scale_arrays}
    if grid.workspace_bytes:
        pointers |= {name: Pointer(name) for name in ("flags", "parts")}
    return tuple(
        pointers.get(f.name) or Scalar(_SCALARS[f.numpy], values[f.name])
        for f in plan.problem_fields
    )


def _input(plan: KernelPlan, row: MapRow, x: Shape, seed: int) -> Array:
    largest = 2 if 4 * x.k <= EXACT_SUM else 1
    return Array(
        name=row.operand,
        dtype=row.dtype.name,
        shape=(getattr(x, row.outer), getattr(x, row.inner)),
        fill=Integers(-largest, largest, seed),
        row_stride=leading_dimension(plan, row, x),
        guard_bytes=GUARD_BYTES,
        role="in",
    )


def _scales(row: ScaleArray, x: Shape, seed: int) -> Array:
    """Integers, so that sums of scaled blocks are exact, too."""
    shape = row.shape(m=x.m, n=x.n, k=x.k)
    fill = Integers(1, LARGEST_SCALE, seed)
    return Array(row.pointer, "f32", shape, fill=fill, guard_bytes=GUARD_BYTES, role="in")


def _output(plan: KernelPlan, x: Shape) -> Array:
    return Array(
        name="d",
        dtype=plan.d_type.name,
        shape=(x.m, x.n),
        fill=Poison(),
        row_stride=x.ldd,
        guard_bytes=GUARD_BYTES,
        role="out",
    )


def _tensor_map(plan: KernelPlan, row: MapRow, x: Shape) -> TensorMap:
    outer = getattr(x, row.outer)
    stride = leading_dimension(plan, row, x) * row.dtype.bytes if outer > 1 else 16
    return TensorMap(
        dtype=_MAP_TYPES[row.dtype.tensor_map],
        array=row.operand,
        dims=(getattr(x, row.inner), outer),
        strides=(stride,),
        box=row.box,
        swizzle=row.swizzle_bytes,
        l2_promotion=_PROMOTION[row.promotion_bytes],
    )


def expected(plan: KernelPlan, launch: Launch) -> np.ndarray:
    """Bits of D = A @ B.T, rounded once to D's type. Shape (M, N), unsigned."""
    output = plan.d_type.name
    m, n = launch.array("d").shape
    value = number_format(output).value
    product = np.zeros((m, n), value)
    if any(array.name == "a" for array in launch.arrays):
        a, b = (_matrix(plan, launch, row) for row in plan.input_maps)
        if plan.scale_arrays:
            a, b = scales_of(plan, launch).applied(a, b)
        # Adding zero turns a sum of nothing but negative zeros into the hardware's positive one.
        product = (a.astype("float64") @ b.astype("float64").T + 0.0).astype(value)
    return from_float32(product, output).view(number_format(output).bits)


def _matrix(plan: KernelPlan, launch: Launch, row: MapRow) -> np.ndarray:
    """Values of an operand, rows along M or N. Shape (rows, K)."""
    bits = launch.array(row.operand).contents()
    values = to_float32(bits.view(number_format(row.dtype.name).storage), row.dtype.name)
    return values if row.inner == "k" else values.T


def scales_of(plan: KernelPlan, launch: Launch) -> Scales:
    """The block scales of a launch."""
    a, b = (launch.array(row.pointer).contents().view("float32") for row in plan.scale_arrays)
    return Scales(a, b, plan.scale_arrays[0].rows[1])


def verify_in_emulator(
    plan: KernelPlan,
    ptx: str,
    shapes: Iterable[Shape],
    schedules: Iterable[str] = DEFAULT_SCHEDULES,
    registers: int | None = None,
    progress: Callable[[EmulatedCase], None] = lambda case: None,
    seed: int = 0,
) -> tuple[list[EmulatedCase], Judgement]:
    """Every shape under every schedule, and the verdict over all of them, coverage included.

    ptx  of the plan's rendered source, with line information
    """
    program = load_program(ptx, plan.name)
    cases = []
    for shape in shapes:
        launch = launch_of(plan, shape, seed, registers)
        report = emulate(program, launch, schedules)
        cases.append(_judge(plan, launch, shape, report))
        progress(cases[-1])
    return cases, judge([case.report for case in cases], ring_offsets(plan))


def _judge(plan: KernelPlan, launch: Launch, shape: Shape, report: Report) -> EmulatedCase:
    want, got = expected(plan, launch), report.outputs["d"]
    wrong = np.argwhere(got != want)
    first = ""
    if len(wrong):
        row, col = wrong[0]
        first = f"D[{row},{col}] = {got[row, col]:#06x}, want {want[row, col]:#06x}"
    return EmulatedCase(shape, report, len(wrong), first)


def ring_offsets(plan: KernelPlan) -> set[int]:
    """Shared-memory offsets of the mbarriers that are reused: full and empty of every stage."""
    b = plan.budget
    found, offset = set(), b.smem.offset("mbarriers")
    for row in b.barriers:
        if row.name in ("full", "empty"):
            found |= {offset + MBARRIER_BYTES * i for i in range(row.count)}
        offset += MBARRIER_BYTES * row.count
    return found
