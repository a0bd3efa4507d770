"""Hardware limits that a kernel of any schedule may exceed, each with its sum."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Budget
from kgen.spec import Violation
from kgen.spec.tree import FieldPath


def thread_limit(b: Budget, path: FieldPath, who: str) -> Iterator[Violation]:
    """A CTA has room for its threads; `who` they are, for the reader."""
    if b.threads > b.arch.threads_per_cta:
        yield Violation(
            path, f"{who} are {b.threads} threads; a CTA has at most {b.arch.threads_per_cta}"
        )


def smem_limit(b: Budget) -> Iterator[Violation]:
    """The ring and what else stands in shared memory fits."""
    if b.smem.over:
        stages = b.spec.schedule.stages
        yield Violation(
            ("schedule", "stages"),
            f"{stages} stage{'s do' if stages != 1 else ' does'} not fit in {b.smem.limit_name}",
            b.smem.rows(),
        )
    limit = b.spec.schedule.smem_limit
    if limit and limit > b.arch.smem_per_cta:
        yield Violation(
            ("schedule", "smem_limit"),
            f"{limit} bytes; {b.arch.target} gives a CTA at most {b.arch.smem_per_cta} "
            f"({b.arch.smem_per_cta // 1024}KiB)",
        )


def accumulator_limit(b: Budget, path: FieldPath, whose: str, how: str) -> Iterator[Violation]:
    """A thread has room for its accumulators and what it needs beside them.

    whose  the accumulators are, and how their number comes about
    """
    consumer, threads = b.role("consumer"), b.role("consumer").warps * 32
    # ptxas wants one wgmma to fit the launch allocation, whatever setmaxnreg adds later (C7602).
    cap = min(consumer.register_cap, b.launch_cap)
    if consumer.registers <= cap:
        return
    other = "addresses, loop state, epilogue (as ptxas reports)"
    items = (
        Item("accumulators", consumer.accumulators, how),
        Item("other", consumer.overhead, other),
    )
    table = Ledger("registers", "registers per thread", items, cap, "consumer")
    whole = threads * consumer.accumulators
    left = b.arch.registers - whole
    yield Violation(
        path,
        f"{b.spec.gemm.accumulator} accumulators of {whose} do not fit in the register file of "
        f"{b.arch.target}",
        (
            *table.rows(),
            f"all consumers: {threads} threads x {consumer.accumulators} accumulators = "
            f"{whole} of {b.arch.registers} registers per SM, {left} left for everything else",
        ),
    )


def box_limit(b: Budget) -> Iterator[Violation]:
    """TMA can request every box."""
    for box in b.boxes:
        for axis, extent in ((box.inner_axis, box.inner), (box.outer_axis, box.outer)):
            if extent > b.arch.tma_box_extent:
                yield Violation(
                    ("schedule", "tile", axis),
                    f"the TMA box of {box.operand.upper()} would be {extent} elements along "
                    f"{axis}; at most {b.arch.tma_box_extent}",
                )
