"""Does a budget fit, and if not, what would: every fix shown has passed the same check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kgen.budget.mma_sync import mma_sync_budget, mma_sync_changes, mma_sync_limits
from kgen.budget.model import Budget
from kgen.budget.tcgen05 import Tcgen05Budget, tcgen05_budget
from kgen.budget.tcgen05_limits import tcgen05_changes, tcgen05_limits
from kgen.budget.wgmma_changes import wgmma_changes
from kgen.budget.wgmma_limits import wgmma_persistent_limits, wgmma_single_limits, wgmma_ws_limits
from kgen.budget.wgmma_persistent import wgmma_persistent_budget
from kgen.budget.wgmma_single import wgmma_single_budget
from kgen.budget.wgmma_ws import wgmma_ws_budget
from kgen.errors import BudgetError
from kgen.spec import KernelSpec, LoadedSpec, Violation
from kgen.spec.rules import violations as rule_violations

Fits = Callable[[KernelSpec], bool]


@dataclass(frozen=True)
class _Family:
    """How the schedules of one kind are sized, limited and repaired."""

    budget: Callable[[KernelSpec], Budget]
    limits: Callable[[Budget], Iterator[Violation]]
    changes: Callable[[KernelSpec, Violation, Fits], Iterator[tuple[str, KernelSpec]]]


_FAMILIES: dict[str, _Family] = {
    "mma_sync": _Family(mma_sync_budget, mma_sync_limits, mma_sync_changes),
    "tcgen05_ws": _Family(tcgen05_budget, tcgen05_limits, tcgen05_changes),
    "tcgen05_ws_split": _Family(tcgen05_budget, tcgen05_limits, tcgen05_changes),
    "wgmma_persistent": _Family(wgmma_persistent_budget, wgmma_persistent_limits, wgmma_changes),
    "wgmma_single": _Family(wgmma_single_budget, wgmma_single_limits, wgmma_changes),
    "wgmma_ws": _Family(wgmma_ws_budget, wgmma_ws_limits, wgmma_changes),
}


def budget(loaded: LoadedSpec) -> Budget:
    """The budget of a spec, every `auto` resolved.

    Raises BudgetError with every limit that the spec exceeds, each with its sum and tested fixes.
    """
    result = budget_of(loaded.spec)
    broken = violations(result)
    if broken:
        fixed = [Violation(v.path, v.what, v.table, fixes(loaded.spec, v)) for v in broken]
        raise BudgetError(loaded.diagnose(fixed))
    return result


def budget_of(spec: KernelSpec) -> Budget:
    """The budget of a spec with every `auto` resolved, whether it fits or not."""
    return _FAMILIES[spec.schedule.kind].budget(spec)


def violations(result: Budget) -> list[Violation]:
    """Every hardware limit that a budget exceeds."""
    return list(_FAMILIES[result.spec.schedule.kind].limits(result))


def fixes(spec: KernelSpec, broken: Violation) -> tuple[str, ...]:
    """Single changes, in the order a person would try them, after which `spec` fits whole."""
    found = []
    for text, changed in _FAMILIES[spec.schedule.kind].changes(spec, broken, _fits):
        if _fits(changed):
            after = budget_of(changed)
            found.append(f"{text:<38}  {after.smem.total} bytes of shared memory, {_scarce(after)}")
    return tuple(found[:3])


def _scarce(b: Budget) -> str:
    """What the accumulators of a budget live in."""
    if isinstance(b, Tcgen05Budget):
        return f"{b.tmem.used} columns"
    return f"{b.role('consumer').registers} registers"


def _fits(spec: KernelSpec) -> bool:
    return not rule_violations(spec) and not violations(budget_of(spec))
