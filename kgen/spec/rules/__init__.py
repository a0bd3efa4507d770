"""Rules between fields that need no hardware limit: what may be combined, and whole multiples."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules import single_role, target, tcgen05, wgmma_persistent, wgmma_ws

__all__ = ["violations"]

_RULES: dict[str, Callable[[KernelSpec], Iterator[Violation]]] = {
    "mma_sync": single_role.mma_sync_rules,
    "wgmma_persistent": wgmma_persistent.rules,
    "wgmma_single": single_role.wgmma_single_rules,
    "wgmma_ws": wgmma_ws.rules,
    "tcgen05_ws": tcgen05.rules,
    "tcgen05_ws_split": tcgen05.rules,
}


def violations(spec: KernelSpec) -> list[Violation]:
    """Every rule that `spec` breaks; a schedule on a target it is not for breaks nothing else."""
    return list(target.rules(spec)) or list(_RULES[spec.schedule.kind](spec))
