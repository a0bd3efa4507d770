"""Runs a micro-test in the emulator."""

from __future__ import annotations

from functools import cache

import numpy as np

from kgen.emu import emulate
from kgen.emu.parser import parse
from kgen.emu.program import Program
from kgen.emu.ptx import Module
from kgen.emu.report import Report

from .cases import Case
from .modules import ptx_text


@cache
def _module(name: str) -> Module:
    return parse(ptx_text(name))


@cache
def _program(module: str, kernel: str) -> Program:
    return Program(_module(module).kernels[kernel])


def replay(case: Case, schedules: tuple[str, ...] = ("early",)) -> Report:
    """The emulator's report; its outputs are the unsigned bits of the arrays not of role `in`."""
    return emulate(_program(case.module, case.launch.kernel), case.launch, schedules)


def output_bytes(report: Report, case: Case) -> dict[str, bytes]:
    """Memory of the arrays as a GPU leaves it; the padding of rows as it was at launch."""
    result = {}
    for array in case.launch.arrays:
        if array.role == "in":
            continue
        memory = array.allocate()
        places = array.element_offsets()[..., None] + np.arange(array.element_bytes)
        elements = np.ascontiguousarray(report.outputs[array.name])
        memory[places.ravel()] = elements.reshape(-1).view(np.uint8)
        result[array.name] = memory.tobytes()
    return result


def parameter_count(case: Case) -> int:
    """Parameters that the kernel of a case declares."""
    return len(_module(case.module).kernels[case.launch.kernel].params)
