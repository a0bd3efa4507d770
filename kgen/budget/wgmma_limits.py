"""Hardware limits that a wgmma kernel may exceed, each with its sum."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.limits import accumulator_limit, box_limit, smem_limit, thread_limit
from kgen.budget.model import Budget
from kgen.spec import Violation
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaPersistent, WgmmaSchedule, WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M, consumer_m, mma_k, mma_n, slabs_of
from kgen.spec.single_role import WgmmaSingle

# With one stage the descriptors of its wgmmas are loop invariants. Up to so many per consumer, the
# registers beside the accumulators are those of a deeper ring; beyond, ptxas 13.5 was seen to take
# anything from none to 84 more, and to spill with 110 free.
ONE_STAGE_WGMMAS = 8


def wgmma_ws_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of wgmma_ws exceeds."""
    s = b.spec.schedule_as(WgmmaWs)
    who = f"{s.consumers} consumer warpgroups and the producer"
    yield from thread_limit(b, ("schedule", "consumers"), who)
    yield from smem_limit(b)
    yield from _one_stage(b, s)
    yield from _accumulators(b, s)
    yield from _producer(b, s)
    yield from _register_split(b, s)
    yield from box_limit(b)


def wgmma_persistent_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of wgmma_persistent exceeds."""
    s = b.spec.schedule_as(WgmmaPersistent)
    who = f"{s.consumers} consumer warpgroups and the producer"
    yield from thread_limit(b, ("schedule", "consumers"), who)
    yield from smem_limit(b)
    yield from _one_stage(b, s)
    yield from _accumulators(b, s)
    if s.producer == "warpgroup":
        yield from _register_split(b, s)
    yield from box_limit(b)


def wgmma_single_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of wgmma_single exceeds."""
    s = b.spec.schedule_as(WgmmaSingle)
    yield from thread_limit(b, ("schedule", "consumers"), f"{s.consumers} warpgroups")
    yield from smem_limit(b)
    yield from _one_stage(b, s)
    yield from _accumulators(b, s)
    yield from box_limit(b)


def _one_stage(b: Budget, s: WgmmaSchedule) -> Iterator[Violation]:
    slabs, steps = slabs_of(s), s.tile.k // mma_k(b.spec)
    if s.stages == 1 and slabs * steps > ONE_STAGE_WGMMAS:
        yield Violation(
            ("schedule", "stages"),
            f"one stage with {slabs * steps} wgmmas of a consumer ({slabs} x {SLAB_M} rows, "
            f"{steps} K steps): ptxas keeps their descriptors in registers and may spill; at most "
            f"{ONE_STAGE_WGMMAS} with one stage",
        )


def _accumulators(b: Budget, s: WgmmaSchedule) -> Iterator[Violation]:
    per_register = " / 2 per register" if b.spec.gemm.accumulator == "f16" else ""
    how = f"{consumer_m(s)} x {mma_n(s)}{per_register} / {b.arch.warpgroup_threads} threads"
    whose = f"{s.consumers} consumer{'s' if s.consumers > 1 else ''}"
    yield from accumulator_limit(b, ("gemm", "accumulator"), whose, how, slabs_of(s))


def _producer(b: Budget, s: WgmmaWs) -> Iterator[Violation]:
    producer, split = b.role("producer"), s.registers
    if producer.registers > producer.register_cap:
        loads = sum(x.count for x in b.boxes if x.operand in ("a", "b"))
        yield Violation(
            ("schedule", "registers", "producer")
            if isinstance(split, Registers)
            else ("schedule", "stages"),
            f"the producer needs about {producer.registers} registers and has "
            f"{producer.register_cap}: it keeps coordinates of {loads} loads per stage",
        )


def _register_split(b: Budget, s: WgmmaWs | WgmmaPersistent) -> Iterator[Violation]:
    split = s.registers
    if not isinstance(split, Registers):
        return
    for role, value in (("producer", split.producer), ("consumer", split.consumer)):
        if value not in b.arch.setmaxnreg:
            r = b.arch.setmaxnreg
            yield Violation(
                ("schedule", "registers", role),
                f"{value}; setmaxnreg takes multiples of {r.step} from {r.start} to {r.stop - 1}",
            )
    producer = b.role("producer")
    cuts = isinstance(s, WgmmaPersistent) and s.scheduler == "wrap"
    if cuts and producer.registers > split.producer:
        yield Violation(
            ("schedule", "registers", "producer"),
            f"{split.producer}; a producer of cut tiles needs about {producer.registers}: 24 were "
            "seen to spill",
        )
    if split.producer > split.consumer:
        yield Violation(
            ("schedule", "registers", "producer"),
            f"{split.producer} for the producer and {split.consumer} for a consumer: setmaxnreg "
            "takes registers from the producer, so it cannot keep more (ptxas C7406)",
        )
    consumers = s.consumers
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
