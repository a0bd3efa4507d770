"""Does a budget fit, and if not, what would: every fix shown has passed the same check."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Budget
from kgen.budget.wgmma import register_pool, wgmma_budget
from kgen.errors import BudgetError
from kgen.spec import KernelSpec, LoadedSpec, Violation
from kgen.spec.model import Registers
from kgen.spec.rules import SLAB_M
from kgen.spec.rules import violations as rule_violations


def budget(loaded: LoadedSpec) -> Budget:
    """The budget of a spec, every `auto` resolved.

    Raises BudgetError with every limit that the spec exceeds, each with its sum and tested fixes.
    """
    result = wgmma_budget(loaded.spec)
    broken = violations(result)
    if broken:
        fixed = [Violation(v.path, v.what, v.table, fixes(loaded.spec, v)) for v in broken]
        raise BudgetError(loaded.diagnose(fixed))
    return result


def violations(result: Budget) -> list[Violation]:
    """Every hardware limit that a budget exceeds."""
    return [*_threads(result), *_smem(result), *_registers(result), *_boxes(result)]


def _threads(b: Budget) -> Iterator[Violation]:
    if b.threads > b.arch.threads_per_cta:
        consumers = b.spec.schedule.consumers
        yield Violation(
            ("schedule", "consumers"),
            f"{consumers} consumer warpgroups and the producer are {b.threads} threads; "
            f"a CTA has at most {b.arch.threads_per_cta}",
        )


def _smem(b: Budget) -> Iterator[Violation]:
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
            f"{b.spec.gemm.accumulator} accumulators of {b.spec.schedule.consumers} consumers "
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
    producer, split = b.role("producer"), b.spec.schedule.registers
    if b.spec.schedule.stages == 1 and producer.registers > producer.register_cap:
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
    return f"{SLAB_M} x {b.spec.schedule.tile.n}{per_register} / {b.arch.warpgroup_threads} threads"


def _register_split(b: Budget) -> Iterator[Violation]:
    split = b.spec.schedule.registers
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
    consumers = b.spec.schedule.consumers
    asked, pool = (
        split.producer + consumers * split.consumer,
        register_pool(b.spec, b.arch, b.threads),
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


def fixes(spec: KernelSpec, broken: Violation) -> tuple[str, ...]:
    """Single changes, in the order a person would try them, after which `spec` fits whole."""
    found = []
    for text, changed in _candidates(spec, broken):
        if rule_violations(changed):
            continue
        after = wgmma_budget(changed)
        if not violations(after):
            found.append(
                f"{text:<38}  {after.smem.total} bytes of shared memory, "
                f"{after.role('consumer').registers} registers"
            )
    return tuple(found[:3])


def _candidates(spec: KernelSpec, broken: Violation) -> Iterator[tuple[str, KernelSpec]]:
    s = spec.schedule

    def change(**fields: object) -> KernelSpec:
        return spec.model_copy(update={"schedule": s.model_copy(update=fields)})

    def tile(**fields: object) -> object:
        return s.tile.model_copy(update=fields)

    field = broken.path[-1]
    if field == "accumulator" and spec.gemm.accumulator == "f32":
        gemm = spec.gemm.model_copy(update={"accumulator": "f16"})
        yield "gemm.accumulator: f16", spec.model_copy(update={"gemm": gemm})
    if field == "stages" and isinstance(s.stages, int):
        deepest = next((n for n in range(s.stages - 1, 0, -1) if _fits(change(stages=n))), None)
        if deepest:
            yield f"schedule.stages: {deepest}", change(stages=deepest)
    if field == "registers":
        yield "schedule.registers: auto", change(registers="auto")
    if s.smem_limit and field in ("smem_limit", "stages"):
        yield "no schedule.smem_limit", change(smem_limit=None)
    if s.epilogue.store_buffers > 1:
        one = s.epilogue.model_copy(update={"store_buffers": 1})
        yield "schedule.epilogue.store_buffers: 1", change(epilogue=one)
    for consumers in range(s.consumers - 1, 0, -1):
        m = consumers * SLAB_M
        text = f"schedule.tile.m: {m} with consumers: {consumers}"
        yield text, change(tile=tile(m=m), consumers=consumers)
    for n in range(s.tile.n - 64, 0, -64):
        yield f"schedule.tile.n: {n}", change(tile=tile(n=n))
    if field == "stages":
        for k in (s.tile.k // 2, s.tile.k // 4):
            yield f"schedule.tile.k: {k}", change(tile=tile(k=k))


def _fits(spec: KernelSpec) -> bool:
    return not rule_violations(spec) and not violations(wgmma_budget(spec))
