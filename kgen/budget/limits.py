"""Hardware limits that a kernel of any schedule may exceed, each with its sum."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Budget
from kgen.budget.ring import hopper
from kgen.spec import Violation
from kgen.spec.tree import FieldPath

# What ptxas needs beside the accumulators of one wgmma before it accepts the instruction: a launch
# cap of 154 for 128 accumulators, seen with ptxas 13.0 and 13.5.
ONE_WGMMA_OVERHEAD = 26


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
    limit = hopper(b.spec).smem_limit
    if limit and limit > b.arch.smem_per_cta:
        yield Violation(
            ("schedule", "smem_limit"),
            f"{limit} bytes; {b.arch.target} gives a CTA at most {b.arch.smem_per_cta} "
            f"({b.arch.smem_per_cta // 1024}KiB)",
        )


def accumulator_limit(
    b: Budget, path: FieldPath, whose: str, how: str, slabs: int = 1
) -> Iterator[Violation]:
    """A thread has room for its accumulators and what it needs beside them.

    whose  the accumulators are, and how their number comes about
    slabs  parts of them that one instruction takes at a time
    """
    consumer, threads = b.role("consumer"), b.role("consumer").warps * 32
    # ptxas wants one wgmma to fit the launch allocation, whatever setmaxnreg adds later (C7602).
    alone = consumer.accumulators // slabs
    too_large = alone + ONE_WGMMA_OVERHEAD > b.launch_cap
    if consumer.registers <= consumer.register_cap and not too_large:
        return
    other = "addresses, loop state, epilogue (as ptxas reports)"
    items = [
        Item("accumulators", alone if too_large else consumer.accumulators, how),
        Item("other", consumer.overhead, other),
    ]
    if consumer.waiting and not too_large:
        items.insert(1, Item("waiting", consumer.waiting, "the tile before, not yet stored"))
    if consumer.block_sums and not too_large:
        items.insert(1, Item("block sums", consumer.block_sums, "of one slab, before promotion"))
    cap = min(consumer.register_cap, b.launch_cap) if too_large else consumer.register_cap
    table = Ledger("registers", "registers per thread", tuple(items), cap, "consumer")
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
