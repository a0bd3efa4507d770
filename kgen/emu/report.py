"""Findings and verdicts.

Verdicts are ordered error > incomplete > review > clean: the worst finding decides. `incomplete`
means that the emulator met something it does not model, so nothing can be concluded. A run that has
not ended at the bound on steps is an error: a right kernel needs a bound that it stays below.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

Level = Literal["error", "incomplete", "review", "clean"]
SEVERITY: tuple[Level, ...] = ("error", "incomplete", "review", "clean")

KINDS: dict[str, Level] = {
    "race": "error",  # two accesses of the same bytes with no order between them
    "not-visible": "error",  # ordered, but no release / acquire pair publishes the write
    "missing-proxy-fence": "error",
    "missing-init-fence": "error",  # an mbarrier used by TMA before fence.mbarrier_init
    "missing-wgmma-fence": "error",
    "accumulator-in-flight": "error",  # a wgmma register touched before wgmma.wait_group
    "missing-grid-wait": "error",  # memory of the grid before, touched before griddepcontrol.wait
    "unwritten-read": "error",
    "never-read": "error",  # bytes that TMA brought and nothing used
    "k-mismatch": "error",  # one MMA multiplies elements of different K
    "row-mismatch": "error",  # one row of an MMA operand mixes rows of the matrix
    "phase-lag": "error",  # a phase may complete before a warp has seen the one before
    "phase-skipped": "error",
    "deadlock": "error",
    "endless": "error",  # the bound on steps was reached
    "mbarrier-uninitialised": "error",
    "mbarrier-count": "error",  # more arrivals than the phase expects
    "mbarrier-bytes": "error",  # transaction bytes left at the end, or out of range
    "mbarrier-overwritten": "error",
    "barrier-count": "error",  # bar.sync with differing or impossible thread counts
    "cluster-exit": "error",  # a CTA ended while others still reach into its shared memory
    "exit-in-flight": "error",  # a warp ended before its bulk copies had read shared memory
    "alignment": "error",
    "shared-bounds": "error",
    "global-bounds": "error",  # outside every array
    "global-padding": "error",  # between the rows of an array
    "input-written": "error",
    "output-not-stored": "error",
    "store-past-extent": "error",  # TMA writes the rest of the 16 bytes in which a row ends
    "tma-coordinate": "error",  # a corner that raises an illegal instruction
    "operand": "error",  # a value that the ISA forbids
    "registers": "error",  # setmaxnreg
    "wgmma-operands": "error",  # the four warps of a warpgroup disagree
    "trap": "error",
    "schedules-disagree": "error",  # two schedules left different results
    "unmodelled": "incomplete",
    "partial-warp": "review",  # an .aligned instruction reached by part of a warp
    "exited-warps": "review",  # a barrier that completes only because threads have ended
    "mbarrier-unfinished": "review",  # a phase was begun and never completed
}


@dataclass
class Finding:
    """One kind of trouble at one place; `count` tells how often."""

    kind: str
    level: Level
    text: str
    line: str = ""  # of the CUDA source, "gemm.cu:123"
    ptx: str = ""  # "ptx:456 wgmma.wait_group..."
    warp: str = ""
    bytes: str = ""
    other: str = ""  # the other party
    schedule: str = ""
    count: int = 1

    def __str__(self) -> str:
        parts = (self.line, self.ptx, self.warp, self.bytes)
        where = ": " + " ".join(part for part in parts if part) if any(parts) else ""
        other = f" [other: {self.other}]" if self.other and self.other not in self.text else ""
        times = f" (x{self.count})" if self.count > 1 else ""
        schedule = f" under {self.schedule}" if self.schedule else ""
        return f"{self.level}: {self.kind}: {self.text}{other}{where}{schedule}{times}"


class Findings:
    """Collects findings, one entry per (kind, place, other party)."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, str], Finding] = {}

    def add(self, finding: Finding) -> None:
        key = (finding.kind, finding.ptx, finding.other or f"{finding.warp} {finding.text}")
        known = self.entries.get(key)
        if known is None:
            self.entries[key] = finding
        else:
            known.count += finding.count

    def merge(self, other: Findings) -> None:
        for finding in other.entries.values():
            self.add(finding)

    def __iter__(self):
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)


def worst(levels: Sequence[Level]) -> Level:
    order: list[Level] = [level for level in SEVERITY if level in levels]
    return order[0] if order else "clean"


@dataclass
class RunReport:
    """One schedule of one launch."""

    schedule: str
    findings: list[Finding]
    outputs: dict[str, np.ndarray]  # array name -> unsigned bits of its elements
    coverage: Coverage
    warp_instructions: int
    seconds: float
    timeline: list[dict[str, object]] = field(default_factory=list)


_STOPPED = frozenset(["deadlock", "endless", "trap", "unmodelled"])
"""Findings after which a run has no results."""


def disagreements(runs: Sequence[RunReport]) -> list[Finding]:
    """One finding per array in which runs left different bits, with the first element that
    differs. Runs that stopped on the way are not compared.
    """
    ended = [run for run in runs if not any(f.kind in _STOPPED for f in run.findings)]
    found: list[Finding] = []
    for name, values in ended[0].outputs.items() if ended else ():
        for run in ended[1:]:
            other = run.outputs[name]
            places = np.argwhere(values != other)
            if not len(places):
                continue
            place = tuple(int(i) for i in places[0])
            digits = 2 + 2 * values.itemsize
            text = (
                f"{name}{list(place)} is {int(values[place]):#0{digits}x} under "
                f"{ended[0].schedule}, {int(other[place]):#0{digits}x} under {run.schedule}; "
                f"{len(places)} elements differ"
            )
            kind = "schedules-disagree"
            found.append(Finding(kind, KINDS[kind], text, schedule=run.schedule))
            break
    return found


@dataclass
class Coverage:
    """What one or several runs reached. Instructions count by index, mbarriers by byte offset in
    shared memory.
    """

    instructions: int = 0
    executed: set[int] = field(default_factory=set)
    phases: dict[int, int] = field(default_factory=dict)  # mbarrier offset -> most completed phases
    places: dict[int, str] = field(
        default_factory=dict
    )  # instruction -> "gemm.cu:12 ptx:34 opcode"
    exempt: set[int] = field(default_factory=set)  # instructions that need no case

    def merge(self, other: Coverage) -> None:
        self.instructions = max(self.instructions, other.instructions)
        self.executed |= other.executed
        self.exempt |= other.exempt
        self.places.update(other.places)
        for offset, phases in other.phases.items():
            self.phases[offset] = max(self.phases.get(offset, 0), phases)

    @property
    def missing(self) -> list[int]:
        return sorted(set(range(self.instructions)) - self.executed - self.exempt)

    def gaps(self, rings: set[int] | None = None) -> list[str]:
        """What no case reached: instructions, rings that wrapped fewer than two times, idle one-
        shot barriers.

        rings: offsets of the mbarriers that form rings; None takes those that completed more than
        one phase.
        """
        found = [f"never executed: {self.places.get(pc, str(pc))}" for pc in self.missing]
        for offset, phases in sorted(self.phases.items()):
            is_ring = offset in rings if rings is not None else phases > 1
            if is_ring and phases < 3:
                found.append(
                    f"ring mbarrier +{offset}: {phases} phases, 3 are needed to wrap twice"
                )
            elif phases == 0:
                found.append(f"mbarrier +{offset} never completed a phase")
        return found


@dataclass
class Report:
    """All schedules of one launch."""

    kernel: str
    schedules: tuple[str, ...]
    findings: list[Finding]
    outputs: dict[str, np.ndarray]
    coverage: Coverage
    runs: list[RunReport]
    note: str = "emulated, not run on hardware"

    @property
    def verdict(self) -> Level:
        return worst([finding.level for finding in self.findings])

    @property
    def outputs_agree(self) -> bool:
        """Whether every schedule that ran to its end left the same bits."""
        return not disagreements(self.runs)

    def to_json(self) -> str:
        return json.dumps(
            {
                "kernel": self.kernel,
                "verdict": self.verdict,
                "note": self.note,
                "schedules": list(self.schedules),
                "findings": [asdict(finding) for finding in self.findings],
                "coverage": {
                    "instructions": self.coverage.instructions,
                    "executed": len(self.coverage.executed),
                    "gaps": self.coverage.gaps(),
                    "mbarrier_phases": {str(k): v for k, v in sorted(self.coverage.phases.items())},
                },
                "runs": [
                    {
                        "schedule": r.schedule,
                        "warp_instructions": r.warp_instructions,
                        "seconds": round(r.seconds, 4),
                    }
                    for r in self.runs
                ],
            },
            indent=1,
        )

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.verdict} under {', '.join(self.schedules)} ({self.note})"]
        return "\n".join(lines + [f"  {finding}" for finding in self.findings])


@dataclass
class Judgement:
    """The verdict on a kernel over all its cases."""

    verdict: Level
    findings: list[Finding]
    coverage: Coverage
    gaps: list[str]

    def __str__(self) -> str:
        return "\n".join([self.verdict, *[str(f) for f in self.findings], *self.gaps])


def judge(reports: list[Report], rings: set[int] | None = None) -> Judgement:
    """Coverage counts over the union of the cases: what no case reached makes the verdict
    incomplete.
    """
    coverage = Coverage()
    findings: list[Finding] = []
    for report in reports:
        coverage.merge(report.coverage)
        findings += report.findings
    gaps = coverage.gaps(rings)
    levels: list[Level] = [finding.level for finding in findings]
    if gaps:
        levels.append("incomplete")
    return Judgement(worst(levels), findings, coverage, gaps)
