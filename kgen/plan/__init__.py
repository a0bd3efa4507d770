"""Lowering: one function per schedule turns an accepted budget into a plan."""

from collections.abc import Callable

from kgen.budget import Budget, budget
from kgen.plan.model import KernelPlan, TensorMap
from kgen.plan.single_role import lower_mma_sync, lower_wgmma_single
from kgen.plan.tcgen05 import lower_tcgen05
from kgen.plan.wgmma_persistent import lower_wgmma_persistent
from kgen.plan.wgmma_ws import lower_wgmma_ws
from kgen.spec import LoadedSpec

__all__ = ["KernelPlan", "TensorMap", "lower"]

_LOWERINGS: dict[str, Callable[[LoadedSpec, Budget], KernelPlan]] = {
    "mma_sync": lower_mma_sync,
    "wgmma_persistent": lower_wgmma_persistent,
    "wgmma_single": lower_wgmma_single,
    "wgmma_ws": lower_wgmma_ws,
    "tcgen05_ws": lower_tcgen05,
    "tcgen05_ws_split": lower_tcgen05,
}


def lower(loaded: LoadedSpec) -> KernelPlan:
    """Spec to plan. Raises BudgetError when the spec does not fit its target."""
    return _LOWERINGS[loaded.spec.schedule.kind](loaded, budget(loaded))
