"""What can be said of a kernel without running it, and the order that follows from it.

Every number comes from the budget or from the compiler's report; none is computed anew here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kgen.budget import Budget


@dataclass(frozen=True)
class Figure:
    """One static figure. `less` says that a smaller value ranks first."""

    unit: str
    less: bool
    meaning: str


FIGURES: dict[str, Figure] = {
    "operand_bytes_per_flop": Figure("B/FLOP", True, "operand bytes loaded per FLOP of a tile"),
    "ring_bytes": Figure("B", False, "operand bytes in flight: the rings of one CTA"),
    "registers": Figure("", True, "registers per thread, as ptxas reports them"),
    "smem_bytes": Figure("B", True, "shared memory of one CTA"),
    "threads": Figure("", True, "threads of one CTA"),
    "tmem_columns": Figure("", True, "tensor-memory columns of one CTA"),
}


def static_figures(budget: Budget) -> dict[str, float]:
    """The figures that a budget knows; the compiler's registers come on top once it has spoken."""
    rings = [item.amount for item in budget.smem.items if item.name.endswith("ring")]
    found: dict[str, float] = {
        "operand_bytes_per_flop": budget.operand_bytes_per_flop,
        "ring_bytes": sum(rings),
        "smem_bytes": budget.smem.total,
        "threads": budget.threads,
    }
    tmem = getattr(budget, "tmem", None)  # only families that have tensor memory
    if tmem is not None:
        found["tmem_columns"] = tmem.total
    return found


def figure_text(value: float) -> str:
    """A figure for people: a whole number whole, another to five digits."""
    return str(int(value)) if float(value).is_integer() else f"{value:.5g}"


def static_order(figures: Mapping[str, float], ranking: Sequence[str]) -> tuple[float, ...]:
    """A sort key, the best first; a figure that a kernel lacks ranks it behind those that have it.

    figures  of one kernel; ranking: names of FIGURES, the most important first
    """
    order = []
    for name in ranking:
        value = figures.get(name)
        if value is None:
            order.append(float("inf"))
        else:
            order.append(value if FIGURES[name].less else -value)
    return tuple(order)
