"""Hardware limits that a wgmma kernel may exceed, each with its sum."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Budget
from kgen.spec import Violation
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaSchedule
from kgen.spec.rules.wgmma import SLAB_M


def wgmma_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of a wgmma schedule exceeds."""
    yield from _threads(b)
    yield from _smem(b)
    yield from _registers(b)
    yield from _boxes(b)


def _schedule(b: Budget) -> WgmmaSchedule:
    return b.spec.schedule


def _threads(b: Budget) -> Iterator[Violation]:
    if b.threads > b.arch.threads_per_cta:
        consumers = _schedule(b).consumers
        yield Violation(
            ("schedule", "consumers"),
            f"{consumers} consumer warpgroups and the producer are {b.threads} threads; "
            f"a CTA has at most {b.arch.threads_per_cta}",
        )


def _smem(b: Budget) -> Iterator[Violation]:
    if b.smem.over:
        stages = _schedule(b).stages
        yield Violation(
            ("schedule", "stages"),
            f"{stages} stage{'s do' if stages != 1 else ' does'} not fit in {b.smem.limit_name}",
            b.smem.rows(),
        )
    limit = _schedule(b).smem_limit
    if limit and limit > b.arch.smem_per_cta:
        yield Violation(
            ("schedule", "smem_limit"),
            f"{limit} bytes; {b.arch.target} gives a CTA at most {b.arch.smem_per_cta} "
            f"({b.arch.smem_per_cta // 1024}KiB)",
        )


def _registers(b: Budget) -> Iterator[Violation]:
    consumer, threads = b.role("consumer"), b.role("consumer").warps * 32
    # ptxas wants one wgmma to fit the launch allocation, whatever setmaxnreg adds later (C7602).
    cap = min(consumer.register_cap, b.launch_cap)
    if consumer.registers > cap:
        table = Ledger(
            "registers",
            "registers per thread",
            (
                Item("accumulators", consumer.accumulators, _accumulator_sum(b)),
                Item(
                    "other", consumer.overhead, "addresses, loop state, epilogue (as ptxas reports)"
                ),
            ),
            cap,
            "consumer",
        )
        whole = threads * consumer.accumulators
        left = b.arch.registers - whole
        yield Violation(
            ("gemm", "accumulator"),
            f"{b.spec.gemm.accumulator} accumulators of {_schedule(b).consumers} consumers "
            f"do not fit in the register file of {b.arch.target}",
            (
                *table.rows(),
                f"all consumers: {threads} threads x {consumer.accumulators} accumulators = "
                f"{whole} of {b.arch.registers} registers per SM, {left} left for everything else",
            ),
        )
    yield from _producer(b)
    yield from _register_split(b)


def _producer(b: Budget) -> Iterator[Violation]:
    producer, split = b.role("producer"), _schedule(b).registers
    if _schedule(b).stages == 1 and producer.registers > producer.register_cap:
        yield Violation(
            ("schedule", "registers", "producer")
            if isinstance(split, Registers)
            else ("schedule", "stages"),
            f"the producer needs about {producer.registers} registers and has "
            f"{producer.register_cap}: with one stage the addresses of all loads stay in registers",
        )


def _accumulator_sum(b: Budget) -> str:
    bits = 16 if b.spec.gemm.accumulator == "f16" else 32
    per_register = " / 2 per register" if bits == 16 else ""
    return f"{SLAB_M} x {_schedule(b).tile.n}{per_register} / {b.arch.warpgroup_threads} threads"


def _register_split(b: Budget) -> Iterator[Violation]:
    split = _schedule(b).registers
    if not isinstance(split, Registers):
        return
    for role, value in (("producer", split.producer), ("consumer", split.consumer)):
        if value not in b.arch.setmaxnreg:
            r = b.arch.setmaxnreg
            yield Violation(
                ("schedule", "registers", role),
                f"{value}; setmaxnreg takes multiples of {r.step} from {r.start} to {r.stop - 1}",
            )
    if split.producer > split.consumer:
        yield Violation(
            ("schedule", "registers", "producer"),
            f"{split.producer} for the producer and {split.consumer} for a consumer: setmaxnreg "
            "takes registers from the producer, so it cannot keep more (ptxas C7406)",
        )
    consumers = _schedule(b).consumers
    asked, pool = (
        split.producer + consumers * split.consumer,
        b.register_pool,
    )
    if asked > pool:
        yield Violation(
            ("schedule", "registers"),
            "setmaxnreg would wait for ever: the split asks for more than the CTA was launched "
            "with",
            (
                f"asked  {asked:>5}   {split.producer} + {consumers} consumers x {split.consumer}",
                f"pool   {pool:>5}   {consumers + 1} warpgroups x {b.launch_cap} at launch",
            ),
        )


def _boxes(b: Budget) -> Iterator[Violation]:
    for box in b.boxes:
        for axis, extent in ((box.inner_axis, box.inner), (box.outer_axis, box.outer)):
            if extent > b.arch.tma_box_extent:
                yield Violation(
                    ("schedule", "tile", axis),
                    f"the TMA box of {box.operand.upper()} would be {extent} elements along "
                    f"{axis}; at most {b.arch.tma_box_extent}",
                )
