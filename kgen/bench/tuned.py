"""The best that cuBLASLt can do on a problem: of the candidates that its heuristic names, those
that compute the product, and of them the fastest.
"""

from __future__ import annotations

import numpy as np

from kgen.bench import cublaslt
from kgen.bench.baselines import TUNED, Launcher, computes
from kgen.bench.device import Buffers, BufferSet
from kgen.bench.protocol import Bench, Contestant, Settings, measure
from kgen.errors import DeviceError
from kgen.verify.numbers import Array, Numerics, array_module, poisoned, to_float32

CANDIDATES = 8  # asked for; the heuristic may name fewer
# They run in turn, so that a board that warms up favours none.
TRIAL = Settings(windows=(10,), rounds=3, cooldown_s=0.05, warmup=2)


def tuned_on(
    numerics: Numerics, buffers: Buffers, exact: BufferSet, product: Array, bench: Bench
) -> Contestant:
    """The fastest candidate, on every buffer set.

    exact    operands whose product is exact; product: that product (M, N), as the gates have it
    Raises   DeviceError if no candidate computes it, or cuBLASLt refuses the problem, or there are
             block scales, which it is not asked for
    """
    if numerics.block_k:
        raise DeviceError("candidates with block scales are not looked for")
    task = cublaslt.Product(numerics, exact.left, exact.right, exact.d.view)
    named = task.candidates(CANDIDATES)
    right = [x for x in named if _computes(task, x, exact, product, numerics, bench)]
    if not right:
        raise DeviceError(f"none of cuBLASLt's {len(named)} candidates computes the product")

    def launchers(candidate: object) -> tuple[Launcher, ...]:
        sets = ((x.left, x.right, x.d.view) for x in buffers.sets)
        return tuple(task.launcher(candidate, *x) for x in sets)

    rivals = [Contestant(str(place), launchers(x)) for place, x in enumerate(right)]
    trial = measure(rivals[0], rivals[1:], TRIAL, bench)
    (window,) = TRIAL.windows
    best = min(rivals, key=lambda rival: float(np.median(trial.times(rival.name, window))))
    place = next(i for i, x in enumerate(named) if x is right[int(best.name)])
    note = f"{computes(numerics)}; candidate {place + 1} of {len(named)}"
    return Contestant(TUNED, best.launchers, note)


def _computes(
    task: cublaslt.Product,
    candidate: object,
    exact: BufferSet,
    product: Array,
    numerics: Numerics,
    bench: Bench,
) -> bool:
    """Whether a candidate runs and its every element is the exact one."""
    exact.d.view[...] = poisoned((1,), numerics.output, array_module(product))
    try:
        task.launcher(candidate, exact.left, exact.right, exact.d.view)()
    except DeviceError:
        return False  # it is named, but does not take these matrices
    bench.synchronize()
    return bool((to_float32(exact.d.view, numerics.output) == product).all())
