"""The wgmma instructions of sm_90a.

A wgmma.mma_async is issued by the four warps of a warpgroup and runs later: it reads shared memory
through the async proxy, and owns its registers until wgmma.wait_group.
Source  PTX ISA 9.7.15 (wgmma); fragments and descriptors as an H200 ran them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.fragments import wgmma_a, wgmma_accumulator
from kgen.emu.machine import Cta, Fragment, Wait
from kgen.emu.numerics import decode_tile
from kgen.emu.operands import Named, Tile, footprints
from kgen.emu.order import AsyncOp
from kgen.emu.program import Handler, Outcome, Program, UnmodelledError, handles, require
from kgen.emu.ptx import Imm, Instruction, Reg, Vec
from kgen.emu.shared_access import in_bounds
from kgen.emu.tensor_core import accumulate, is_exact, round_sum
from kgen.emu.wgmma_form import Form, parse_form
from kgen.emu.wgmma_state import WgmmaCall

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.machine import Warp


@handles("wgmma.mma_async")
def multiply(program: Program, instruction: Instruction, pc: int) -> Handler:
    if instruction.has("sp"):
        raise UnmodelledError(f"{instruction.opcode}: sparse operands")
    form = parse_form(program, instruction)
    registers = program.registers
    names = frozenset(
        item.name
        for operand in instruction.operands[:2]
        if isinstance(operand, Vec)
        for item in operand.items
        if isinstance(item, Reg)
    )
    a_descriptor = (
        None if form.a_registers is not None else registers.scalar(instruction.operands[1], 64)
    )
    b_descriptor = registers.scalar(instruction.operands[2], 64)
    scale_d = registers.scalar(instruction.operands[3], 1)

    def issue(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        a = a_descriptor(warp, fragment) if a_descriptor is not None else None
        operands = (a, b_descriptor(warp, fragment), bool(scale_d(warp, fragment)))
        state, cta, grid = warp.wgmma, warp.cta, warp.grid
        missing = state.unfenced & names
        if missing:
            some = ", ".join(sorted(missing)[:3])
            text = f"{len(missing)} registers, {some} ..., were written with no wgmma.fence since"
            grid.finding("missing-wgmma-fence", text, warp, pc)
        key = (warp.number // 4, state.sequence)
        state.sequence += 1
        call = cta.wgmma_calls.get(key)
        if call is None:
            group = (cta.number, warp.number // 4)
            call = cta.wgmma_calls[key] = _new_call(grid, warp, pc, operands, names, form, group)
        if call.operands != (pc, *operands):
            text = (
                f"operands differ from those of {call.warps[0].name}, {call.operation.describe()}"
            )
            grid.finding("wgmma-operands", text, warp, pc)
        call.warps.append(warp)
        call.issued.append(warp.order.release())
        state.open.append(call)
        state.in_flight |= names
        if call.complete:
            del cta.wgmma_calls[key]
            _submit(grid, cta, call, pc)
        return None

    return issue


def _new_call(
    grid: Grid,
    warp: Warp,
    pc: int,
    operands: tuple[int | None, int, bool],
    names: frozenset[str],
    form: Form,
    group: tuple[int, int],
) -> WgmmaCall:
    """The first warp of the warpgroup issues a product; the operation's pipe is the warpgroup."""
    calls: list[WgmmaCall] = []
    operation = grid.new_operation("wgmma", warp, pc, lambda op: execute(op, calls[0]), group)
    calls.append(WgmmaCall(operation, (pc, *operands), names, form))
    return calls[0]


def named_operands(call: WgmmaCall) -> tuple[Named, ...]:
    """The operands that lie in shared memory."""
    _, a, b, _ = call.operands
    form = call.form
    named: list[Named] = [(b, form.b)]
    if a is not None:
        named.append((a, form.a))
    return tuple(named)


def _submit(grid: Grid, cta: Cta, call: WgmmaCall, pc: int) -> None:
    covered = footprints(named_operands(call))
    call.operation.reads = [(cta, footprint) for footprint in covered]
    call.operation.warp = call.warps[0]
    for footprint in covered:
        in_bounds(call.warps[0], cta, footprint.lo, footprint.hi, pc)
    cta.shadow.add_live(call.operation)
    if cta.wgmma_waiters:
        grid.wake(cta.wgmma_waiters)
    grid.submit(call.operation)


def check_products(warp: Warp, calls: list[WgmmaCall]) -> None:
    """What some products of this warp read must have been written, and be visible to the async
    proxy.

    Done once per commit group, over everything that the group reads.
    """
    fresh = [call for call in calls if warp.index not in call.checked]
    if not fresh:
        return
    cta, grid = warp.cta, warp.grid
    named = tuple(dict.fromkeys(operand for call in fresh for operand in named_operands(call)))
    for footprint in footprints(named):
        if footprint.hi <= cta.shared_end:
            grid.check_access(
                warp, cta, footprint, fresh[0].operation.pc, write=False, by_async=True
            )
            cta.shadow.mark_used(footprint)
    for call in fresh:
        call.checked.add(warp.index)


def execute(operation: AsyncOp, call: WgmmaCall) -> None:
    """D = A x B (+ D), into the registers of the four warps."""
    form = call.form
    _, a_raw, b_raw, add = call.operands
    warps = sorted(call.warps, key=lambda warp: warp.number)
    cta = warps[0].cta
    b = cta.tiles.get(cta, b_raw, form.b)
    if a_raw is None:
        a_values = _a_from_registers(form, warps)
    else:
        a = cta.tiles.get(cta, a_raw, form.a)
        a_values = a.values
        _check_origin(operation, a, b)
    old = np.concatenate([warp.matrix32[form.accumulators] for warp in warps], axis=1)
    new = _accumulate(form, -a_values if form.negate else a_values, b.values, old, add)
    for index, warp in enumerate(warps):
        warp.matrix32[form.accumulators] = new[:, 32 * index : 32 * index + 32]


def _accumulate(form: Form, a: np.ndarray, b: np.ndarray, old: np.ndarray, add: bool) -> np.ndarray:
    """The product on registers: 32-bit words (registers, 128 lanes).

    Exact sums stay in the layout of the registers; others go through the matrix D.
    """
    layout = wgmma_accumulator(form.n, form.dtype)
    dtype = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[form.dtype]
    elements = old.view(dtype).reshape(*old.shape, -1)  # of each word, element 0 first
    d = np.moveaxis(elements, 2, 1) if add else None
    if form.dtype == "s32" or is_exact(d, a, b, form.adder):
        total = round_sum(d, layout.gather(np.matmul(a, b.T)), form.kind, form.adder)
    else:
        matrix = None if d is None else layout.scatter(d).astype(np.float32)
        types = form.atype, form.btype
        total = layout.gather(accumulate(matrix, a, b, form.kind, types, form.adder))
    words = np.ascontiguousarray(np.moveaxis(total.astype(dtype), 1, 2))
    return words.view(np.uint32)[..., 0]


def _a_from_registers(form: Form, warps: list[Warp]) -> np.ndarray:
    """The 64 x K operand out of four registers of each lane."""
    assert form.a_registers is not None
    words = np.concatenate([warp.matrix32[form.a_registers] for warp in warps], axis=1)
    size = form.a.element_bytes
    elements = np.ascontiguousarray(words).view(f"u{size}").reshape(4, 128, 4 // size)
    layout = wgmma_a(size)
    bits = layout.scatter(np.moveaxis(elements, 2, 1))
    return decode_tile(bits, form.atype).astype(np.float64)


def _check_origin(operation: AsyncOp, a: Tile, b: Tile) -> None:
    """Elements that are multiplied with each other must have the same K in the matrices they came
    from.
    """
    grid, warp, pc = operation.warp.grid, operation.warp, operation.pc
    for name, tile in (("A", a), ("B", b)):
        if tile.k is not None and tile.mixed_row >= 0:
            text = (
                f"row {tile.mixed_row} of {name} holds other K than row 0: swizzle, descriptor or "
                f"coordinates are wrong"
            )
            grid.finding("k-mismatch", text, warp, pc, other=name)
            return
        if tile.split_row >= 0:
            text = f"row {tile.split_row} of {name} mixes several rows of the matrix"
            grid.finding("row-mismatch", text, warp, pc, other=name)
            return
    if a.k is not None and b.k is not None and (a.k != b.k).any():
        column = int((a.k != b.k).argmax())
        text = f"multiplies A at K = {int(a.k[column])} with B at K = {int(b.k[column])}"
        grid.finding("k-mismatch", text, warp, pc, other="A against B")


# ---------------------------------------------------------------- fence, groups


@handles("wgmma.fence")
def fence(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "fence", "sync", "aligned")

    def order(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        warp.wgmma.unfenced.clear()
        return None

    return order


@handles("wgmma.commit_group")
def commit(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "commit_group", "sync", "aligned")

    def close(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        state = warp.wgmma
        check_products(warp, state.open)
        state.groups.append(state.open)
        state.open = []
        return None

    return close


@dataclass
class WgmmaWait(Wait):
    call: WgmmaCall

    def describe(self) -> str:
        present = ", ".join(str(warp.number) for warp in self.call.warps)
        return (
            f"waits for {self.call.operation.describe()}, which only warps {present} of the "
            f"warpgroup have issued"
        )


@handles("wgmma.wait_group")
def wait(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "wait_group", "sync", "aligned")
    allowed = instruction.operands[0]
    assert isinstance(allowed, Imm)
    keep = allowed.value

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        state = warp.wgmma
        over = state.groups[: len(state.groups) - keep] if keep else state.groups
        calls = [call for group in over for call in group]
        for call in calls:
            if not call.complete:
                warp.cta.wgmma_waiters.append((warp, fragment))
                return warp.grid.park(warp, fragment, WgmmaWait(call))
        for other in calls[-1].warps if calls else ():
            check_products(other, other.wgmma.open)  # before this warp gives the operands away
        warp.grid.force([call.operation for call in calls])
        for call in calls:
            warp.order.knows.completed |= 1 << call.operation.number
        if calls:  # the warps issue in the same order: the last call covers the others
            for issued in calls[-1].issued:
                warp.order.knows.join_order(issued)
        state.groups = state.groups[len(over) :]
        state.refresh()
        return None

    return run
