"""Instructions in which the lanes of a warp exchange values.

Source  PTX ISA 9.7.9 (shuffle, vote, match), 9.7.13 (elect, redux)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Fragment, lane_bits
from kgen.emu.members import with_members
from kgen.emu.operation import bits_of
from kgen.emu.program import Handler, Outcome, Program, handles, require
from kgen.emu.ptx import SINK, Instruction, Not, Pair
from kgen.emu.registers import WARP_LANES

if TYPE_CHECKING:
    from kgen.emu.machine import Warp

_LANES = np.arange(WARP_LANES)


@handles("elect.sync")
def elect(program: Program, instruction: Instruction, pc: int) -> Handler:
    """d|p: p is true in one lane, the lowest; d is its number."""
    destination = instruction.operands[0]
    assert isinstance(destination, Pair)
    leader, predicate = (
        program.registers.setter(o) for o in (destination.first, destination.second)
    )
    members = instruction.operands[1]

    def choose(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = int(active.argmax())
        leader(warp, fragment, active, chosen)
        predicate(warp, fragment, active, chosen == _LANES)
        return None

    return with_members(program, instruction, members, pc, choose)


@handles("shfl.sync")
def shuffle(program: Program, instruction: Instruction, pc: int) -> Handler:
    """shfl.sync.mode.b32 d[|p], a, b, c, members"""
    mode = instruction.parts[2]
    require(instruction, "sync", "idx", "up", "down", "bfly", "b32")
    destination, source, amount, clamp, named = instruction.operands
    first, second = (
        (destination.first, destination.second)
        if isinstance(destination, Pair)
        else (destination, SINK)
    )
    registers = program.registers
    value, lane_b, lane_c = (registers.row(operand) for operand in (source, amount, clamp))
    setter, in_range = registers.setter(first), registers.setter(second)

    def exchange(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        b = lane_b(warp, fragment).astype(np.int64) & 31
        c = lane_c(warp, fragment).astype(np.int64)
        segment, bound = (c >> 8) & 31, c & 31
        highest = (_LANES & segment) | (bound & ~segment)
        if mode == "up":
            lane = _LANES - b
            inside = lane >= highest
        elif mode == "down":
            lane = _LANES + b
            inside = lane <= highest
        elif mode == "bfly":
            lane = _LANES ^ b
            inside = lane <= highest
        else:
            lane = (_LANES & segment) | (b & ~segment)
            inside = lane <= highest
        from_lane = np.where(inside, lane, _LANES)
        if not active[from_lane[active]].all():
            warp.grid.finding("operand", "shuffles from a lane that does not take part", warp, pc)
        setter(warp, fragment, active, value(warp, fragment)[from_lane])
        in_range(warp, fragment, active, inside)
        return None

    return with_members(program, instruction, named, pc, exchange)


@handles("vote.sync")
def vote(program: Program, instruction: Instruction, pc: int) -> Handler:

    require(instruction, "sync", "all", "any", "uni", "ballot", "b32", "pred")
    mode = instruction.parts[2]
    source = instruction.operands[1]
    negated = isinstance(source, Not)
    row = program.registers.row(source.operand if isinstance(source, Not) else source, 1)
    setter = program.registers.setter(instruction.operands[0])
    members = instruction.operands[2]

    def decide(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        chosen = (row(warp, fragment).astype(bool) ^ negated)[active]
        if mode == "ballot":
            ballot = np.zeros(WARP_LANES, bool)
            ballot[active] = chosen
            setter(warp, fragment, active, lane_bits(ballot))
        else:
            answer = {
                "all": chosen.all(),
                "any": chosen.any(),
                "uni": chosen.all() or not chosen.any(),
            }[mode]
            setter(warp, fragment, active, int(answer))
        return None

    return with_members(program, instruction, members, pc, decide)


@handles("activemask")
def active_mask(program: Program, instruction: Instruction, pc: int) -> Handler:
    setter = program.registers.setter(instruction.operands[0])

    def tell(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        setter(warp, fragment, active, lane_bits(active))
        return None

    return tell


@handles("match.any.sync", "match.all.sync")
def match(program: Program, instruction: Instruction, pc: int) -> Handler:
    """match.any d: the lanes that hold the same value. match.all d|p: all lanes if they agree, else
    0.
    """
    bits = bits_of(instruction.type)
    destination = instruction.operands[0]
    first = destination.first if isinstance(destination, Pair) else destination
    second = destination.second if isinstance(destination, Pair) else SINK
    row = program.registers.row(instruction.operands[1], bits)
    setter, agrees = program.registers.setter(first), program.registers.setter(second)
    members = instruction.operands[2]
    wants_all = instruction.has("all")

    def compare(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        values = row(warp, fragment)
        if wants_all:
            same = bool((values[active] == values[active][0]).all())
            setter(warp, fragment, active, lane_bits(active) if same else 0)
            agrees(warp, fragment, active, int(same))
        else:
            peers = [lane_bits(active & (values == value)) for value in values]
            setter(warp, fragment, active, np.array(peers, np.uint32))
        return None

    return with_members(program, instruction, members, pc, compare)


@handles("redux.sync")
def reduce(program: Program, instruction: Instruction, pc: int) -> Handler:
    require(instruction, "sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32")
    ufunc = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[instruction.parts[2]]
    dtype = np.int32 if instruction.type == "s32" else np.uint32
    row = program.registers.row(instruction.operands[1])
    setter = program.registers.setter(instruction.operands[0])
    members = instruction.operands[2]

    def combine(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        values = row(warp, fragment)[active].view(dtype)
        setter(warp, fragment, active, int(ufunc.reduce(values, dtype=dtype)) & 0xFFFFFFFF)
        return None

    return with_members(program, instruction, members, pc, combine)
