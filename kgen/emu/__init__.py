"""A CPU emulator for PTX kernels of sm_90a: values, races, deadlocks, missing fences.

It takes PTX text and a launch description, runs every warp under several schedules, and reports
what it found. It knows nothing of kgen's specs or templates.

    report = emulate(ptx_text, launch, schedules=("early", "late"))
    report.verdict          error > incomplete > review > clean
    report.findings         kind, CUDA line, warp, bytes, the other party
    report.outputs          array name -> unsigned bits of its elements
    judge([report, ...])    the verdict over all cases of a kernel, coverage included
"""

from __future__ import annotations

from kgen.emu.api import DEFAULT_SCHEDULES, emulate, load_program
from kgen.emu.launch import Launch, dump_launch, load_launch
from kgen.emu.report import Coverage, Finding, Judgement, Report, judge

__all__ = [
    "DEFAULT_SCHEDULES",
    "Coverage",
    "Finding",
    "Judgement",
    "Launch",
    "Report",
    "dump_launch",
    "emulate",
    "judge",
    "load_launch",
    "load_program",
]
