"""What a person would change when a wgmma kernel does not fit, in the order they would try it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kgen.spec import KernelSpec, Violation
from kgen.spec.hopper import TmaPerWarp, TmaTurns, WgmmaPersistent, WgmmaSchedule
from kgen.spec.rules.wgmma import MMA_N, SLAB_M, consumer_m, mma_axes, mma_n, swaps
from kgen.spec.single_role import WgmmaSingle


def wgmma_changes(
    spec: KernelSpec, broken: Violation, fits: Callable[[KernelSpec], bool]
) -> Iterator[tuple[str, KernelSpec]]:
    """Single changes as YAML, with the spec after each; not all of them help."""
    s = spec.schedule
    assert isinstance(s, WgmmaSchedule)

    def change(**fields: object) -> KernelSpec:
        return spec.model_copy(update={"schedule": s.model_copy(update=fields)})

    def tile(**fields: object) -> object:
        return s.tile.model_copy(update=fields)

    field = broken.path[-1]
    if field == "accumulator" and spec.gemm.accumulator == "f32":
        gemm = spec.gemm.model_copy(update={"accumulator": "f16"})
        yield "gemm.accumulator: f16", spec.model_copy(update={"gemm": gemm})
    if field == "stages" and s.stages == 1:
        yield "schedule.stages: 2", change(stages=2)
    if field == "stages" and isinstance(s.stages, int):
        deepest = next((n for n in range(s.stages - 1, 0, -1) if fits(change(stages=n))), None)
        if deepest:
            yield f"schedule.stages: {deepest}", change(stages=deepest)
    if "registers" in broken.path:
        yield "schedule.registers: auto", change(registers="auto")
    if s.smem_limit and field in ("smem_limit", "stages"):
        yield "no schedule.smem_limit", change(smem_limit=None)
    if field == "accumulator" and isinstance(s, WgmmaPersistent) and s.producer == "none":
        yield "schedule.release: previous", change(release="previous")
        yield "schedule.scheduler: round_robin", change(scheduler="round_robin")
    epilogue = None if isinstance(s, WgmmaSingle) else s.epilogue
    if isinstance(epilogue, TmaPerWarp) and epilogue.deferred:
        at_once = epilogue.model_copy(update={"deferred": False})
        yield "schedule.epilogue.deferred: false", change(epilogue=at_once)
    if isinstance(epilogue, TmaTurns | TmaPerWarp) and epilogue.store_buffers > 1:
        one = epilogue.model_copy(update={"store_buffers": 1})
        yield "schedule.epilogue.store_buffers: 1", change(epilogue=one)
    m_axis, n_axis = mma_axes(s)
    for rows in range(consumer_m(s) - SLAB_M, 0, -SLAB_M):
        m = rows * s.consumers
        yield f"schedule.tile.{m_axis}: {m}", change(tile=tile(**{m_axis: m}))
    for consumers in range(s.consumers - 1, 0, -1):
        m = consumers * consumer_m(s)
        text = f"schedule.tile.{m_axis}: {m} with consumers: {consumers}"
        yield text, change(tile=tile(**{m_axis: m}), consumers=consumers)
    step = MMA_N if swaps(s) else 64
    for n in range(mma_n(s) - step, 0, -step):
        yield f"schedule.tile.{n_axis}: {n}", change(tile=tile(**{n_axis: n}))
    if field == "stages":
        for k in (s.tile.k // 2, s.tile.k // 4):
            yield f"schedule.tile.k: {k}", change(tile=tile(k=k))
