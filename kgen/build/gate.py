"""Reads a build's log: resources of each kernel, and the notes that fail a build.

Pure text in, data out; takes the log of nvcc (-Xptxas=-v) and of NVRTC (--ptxas-options=-v). All
failing notes are `info` lines with exit status 0, so the status alone proves nothing. No spec can
waive one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from kgen.errors import CompileError

Cause = Literal[
    "registers", "setmaxnreg", "wgmma serialised", "accumulator in flight", "fence in main loop"
]

FENCE_NOTE = "sass    : fence in a main loop:"  # how kgen's own lines of a build's log begin

# The notes of ptxas that fail a build, beside spills. C7507 and C7508 are two reasons to ignore
# setmaxnreg; other reasons fail by their wording. C7602 ends the compilation by itself; it is here
# so that its cause gets the same advice. ptxas 13.0 reports a missing wgmma.fence as C7519; 13.5
# adds the fence and says nothing. Source: runs of ptxas 13.0.88 and 13.5.37 for sm_90a.
FAILING_CODES = frozenset({"C7507", "C7508", "C7602", *(f"C75{n}" for n in range(10, 20))})

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for '?([^'\s]+)'?")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+) bytes smem")
# Only ptxas' own lines: a message of the front end may quote any text of the source.
_CODE = re.compile(r"^\s*ptxas.*?\((C\d{4})\)")


@dataclass(frozen=True)
class Resources:
    """What ptxas gave one function of a cubin.

    Units   registers per thread, barriers per CTA; bytes per thread for stack and spills;
            static_smem_bytes per CTA
    is_kernel is False for a device function that was not inlined; ptxas gives it no registers of
    its own, and its stack and spills come on top of its callers'.
    """

    kernel: str
    target: str = ""
    registers: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    static_smem_bytes: int = 0
    barriers: int = 0
    is_kernel: bool = True


@dataclass(frozen=True)
class Finding:
    """One reason to refuse a build: its code ("spill" or C75xx), the log line, and its cause."""

    code: str
    line: str
    cause: Cause
    kernel: str = ""


def resources(log: str) -> tuple[Resources, ...]:
    """Resources of every function in the log, in the log's order."""
    found: dict[str, Resources] = {}
    entry = owner = target = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, target = match.groups()
            owner = entry
            found[entry] = Resources(entry, target)
        elif match := _PROPERTIES.search(line):
            owner = match[1]
            found.setdefault(owner, Resources(owner, target, is_kernel=False))
        elif owner and (match := _STACK.search(line)):
            stack, stores, loads = map(int, match.groups())
            found[owner] = replace(
                found[owner],
                stack_bytes=stack,
                spill_store_bytes=stores,
                spill_load_bytes=loads,
            )
        elif entry and (match := _USED.search(line)):
            barriers, smem = _BARRIERS.search(line), _SMEM.search(line)
            found[entry] = replace(
                found[entry],
                registers=int(match[1]),
                barriers=int(barriers[1]) if barriers else 0,
                static_smem_bytes=int(smem[1]) if smem else 0,
            )
    return tuple(found.values())


def notes(log: str) -> tuple[str, ...]:
    """Every line of ptxas that carries a code or is a warning, failing or not, once each."""
    lines = (line.strip() for line in log.splitlines())
    return tuple(
        dict.fromkeys(line for line in lines if _CODE.search(line) or line.startswith("ptxas warn"))
    )


def check(log: str) -> tuple[Finding, ...]:
    """Every finding that fails a build, in the log's order; empty for a clean build."""
    found: dict[tuple[str, str], Finding] = {}
    kernel = ""
    for raw in log.splitlines():
        line = raw.strip()
        if match := _ENTRY.search(line) or _PROPERTIES.search(line):
            kernel = match[1]
        elif match := _STACK.search(line):
            if int(match[2]) or int(match[3]):
                found[("spill", kernel)] = Finding("spill", line, "registers", kernel)
        elif line.startswith(FENCE_NOTE):
            owner = line.removeprefix(FENCE_NOTE).split(":")[0].strip()
            finding = Finding("fence", line, "fence in main loop", owner)
            found.setdefault(("fence", line), finding)
        elif code := _failing_code(line):
            named = re.search(r"in (?:the )?function '?(\w+)", line)
            finding = Finding(code, line, _cause(code, line), named[1] if named else kernel)
            found.setdefault((code, line), finding)
    return tuple(found.values())


def require_clean(name: str, log: str) -> None:
    """Raise CompileError, with every finding and its advice, unless `check` finds nothing."""
    findings = check(log)
    if not findings:
        return
    lines = [f"{name}: ptxas reports what no kgen build may have"]
    for finding in findings:
        spec_field, text = advice(finding)
        lines += [f"    {finding.line}", f"    fix: {spec_field}: {text}"]
    raise CompileError("\n".join(dict.fromkeys(lines)), log)


def require_reported(kernel: str, log: str) -> None:
    """Raise CompileError unless the log gives this kernel's registers: silence is no proof."""
    if not any(item.kernel == kernel and item.registers for item in resources(log)):
        raise CompileError(f"{kernel}: the compiler's report says nothing of this kernel", log)


def advice(finding: Finding) -> tuple[str, str]:
    """The spec field to change for a finding, and what to change about it."""
    return _ADVICE[finding.cause]


_ADVICE: dict[Cause, tuple[str, str]] = {
    "registers": (
        "schedule.consumers",
        (
            "the accumulator does not fit the registers of a thread: spread the tile over more "
            "consumers (or schedule.warps), make schedule.tile.n or tile.m smaller, or raise "
            "schedule.registers.consumer"
        ),
    ),
    "setmaxnreg": (
        "schedule.registers",
        (
            "ptxas ignored setmaxnreg: it needs __launch_bounds__(threads, 1), no call that is "
            "not inlined, and a producer count it can reach; use schedule.registers: auto, or "
            "schedule.producer: warp, which has no setmaxnreg"
        ),
    ),
    "wgmma serialised": (
        "schedule.kind",
        (
            "ptxas waits after each wgmma: registers of a running wgmma are written, read, or "
            "live across a branch or call; a fault of the template, or of an edit to its output"
        ),
    ),
    "accumulator in flight": (
        "schedule.kind",
        (
            "ptxas added a wait or fence: the accumulator is touched between a commit and its "
            "wait; a fault of the template, or of an edit to its output"
        ),
    ),
    "fence in main loop": (
        "schedule.kind",
        (
            "every K tile would wait for a fence of the whole GPU: an arrive or fence with .release "
            "at cluster scope or wider; a fault of the template, or of an edit to its output"
        ),
    ),
}


def _failing_code(line: str) -> str:
    """The code of a failing note, or ""; an ignored setmaxnreg fails under any code."""
    match = _CODE.search(line)
    if not match:
        return ""
    ignored = "setmaxnreg" in line and "ignored" in line
    return match[1] if match[1] in FAILING_CODES or ignored else ""


def _cause(code: str, line: str) -> Cause:
    """The wording decides, since one code covers several reasons; unknown wording is by code."""
    if "setmaxnreg" in line:
        return "setmaxnreg"
    if "insufficient register" in line or code == "C7602":
        return "registers"
    if "injected" in line:
        return "accumulator in flight"
    return "wgmma serialised"
