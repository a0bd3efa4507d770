"""Lowering: one function per MMA family turns an accepted budget into a plan."""

from kgen.budget import budget
from kgen.plan.model import KernelPlan, TensorMap
from kgen.plan.wgmma import lower_wgmma
from kgen.spec import LoadedSpec

__all__ = ["KernelPlan", "TensorMap", "lower"]


def lower(loaded: LoadedSpec) -> KernelPlan:
    """Spec to plan. Raises BudgetError when the spec does not fit its target."""
    return lower_wgmma(loaded, budget(loaded))
