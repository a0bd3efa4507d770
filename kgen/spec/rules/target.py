"""Which schedules run on which targets."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.arch import ARCHS
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """The target must have the instructions that the schedule is named for."""
    family = "tcgen05" if spec.schedule.kind.startswith("tcgen05") else "wgmma"
    if ARCHS[spec.target].family != family:
        fitting = ", ".join(a.target for a in ARCHS.values() if a.family == family)
        yield Violation(
            ("target",),
            f"{spec.target} has no {family}, which {spec.schedule.kind} is made for; "
            f"that runs on {fitting}",
        )
