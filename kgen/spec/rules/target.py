"""Which schedules run on which targets."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.arch import ARCHS
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

# mma.sync runs everywhere; its schedule is the first rung of Hopper's ladder and built for that.
_FAMILIES = {"mma": "wgmma"}


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """The target must have the instructions that the schedule is named for."""
    prefix = spec.schedule.kind.partition("_")[0]
    family = _FAMILIES.get(prefix, prefix)
    if ARCHS[spec.target].family != family:
        fitting = ", ".join(a.target for a in ARCHS.values() if a.family == family)
        yield Violation(
            ("target",),
            f"{spec.target} has no {prefix} schedule: {spec.schedule.kind} runs on {fitting}"
            if prefix in _FAMILIES
            else f"{spec.target} has no {family}, which {spec.schedule.kind} multiplies with; "
            f"{family} runs on {fitting}",
        )
