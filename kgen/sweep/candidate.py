"""One kernel of a sweep on its way through the phases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.plan import KernelPlan, lower
from kgen.render import Rendered, render
from kgen.spec.tree import dump_resolved
from kgen.sweep.space import Point


@dataclass(frozen=True)
class Candidate:
    """A kernel: its plan, its text, and the point that it was found at first."""

    point: Point
    plan: KernelPlan
    rendered: Rendered

    @property
    def source(self) -> str:
        """Digest of the code."""
        return self.rendered.digest

    @property
    def spec_text(self) -> str:
        """A spec file that renders to this code."""
        assert self.point.loaded is not None
        values = json.dumps(self.point.values, default=str)
        return dump_resolved(self.point.loaded.tree, f"kgen sweep, point {values}")


def prepare(point: Point) -> Candidate:
    """Lower and render a point that fits. Raises PlanError or RenderError, kgen's own faults."""
    assert point.loaded is not None
    plan = lower(point.loaded)
    return Candidate(point, plan, render(plan))


@dataclass(frozen=True)
class Built:
    """A candidate with its cubin, ready for the emulator or a GPU."""

    candidate: Candidate
    cubin: Path
    registers: int
    toolchain: str

    @property
    def source(self) -> str:
        """Digest of the code."""
        return self.candidate.source

    @property
    def job(self) -> Job:
        """What a child process needs of it."""
        return Job(self.candidate.plan, str(self.cubin), self.registers)


@dataclass(frozen=True)
class Job:
    """A kernel as a child process gets it."""

    plan: KernelPlan
    cubin: str
    registers: int


@dataclass(frozen=True)
class Outcome:
    """What became of one piece of work in a child.

    poisoned  the process can do nothing more: its GPU context is lost, or it is gone
    """

    status: str
    reason: str = ""
    poisoned: bool = False
    value: Any = None

    @property
    def costs_process(self) -> bool:
        """Whether the process that did it has to be replaced."""
        return self.poisoned or self.status == "hung"
