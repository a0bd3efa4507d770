"""Extended-precision arithmetic: add, sub and mad with the condition code register of each thread.

Source  PTX ISA 9.7.2 (extended-precision integer arithmetic)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.machine import Fragment
from kgen.emu.operation import bits_of
from kgen.emu.program import Handler, Outcome, Program, handles, require
from kgen.emu.ptx import Instruction

if TYPE_CHECKING:
    from kgen.emu.machine import Warp


@handles("add.cc", "addc", "sub.cc", "subc")
def add_with_carry(program: Program, instruction: Instruction, pc: int) -> Handler:
    """add.cc sets the carry, addc takes it (addc.cc: both); sub likewise with the borrow."""
    require(instruction, "cc", instruction.type)
    bits = bits_of(instruction.type)
    subtracts, takes = instruction.root.startswith("sub"), instruction.root.endswith("c")
    sets = instruction.has("cc")
    left, right = (program.registers.row(o, bits) for o in instruction.operands[1:])
    setter = program.registers.setter(instruction.operands[0])
    mask = (1 << bits) - 1
    dtype = np.uint64 if bits == 64 else np.uint32

    def run(warp: Warp, fragment: Fragment, active: np.ndarray) -> Outcome:
        a, b = left(warp, fragment).astype(object), right(warp, fragment).astype(object)
        carry = warp.carry.astype(object) if takes else 0
        total = a - b - carry if subtracts else a + b + carry
        if sets:
            over = (total < 0) if subtracts else (total > mask)
            warp.carry = np.where(active, over, warp.carry).astype(bool)
        setter(warp, fragment, active, (total & mask).astype(dtype))
        return None

    return run
