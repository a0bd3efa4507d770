"""Which kernel is best at which problem, and the dispatch tables that follow from it.

A Winner is all that this package wants to know of a sweep; `from_results` makes winners of the
committed result files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kgen._version import __version__
from kgen.bench.results import Result, Timed
from kgen.errors import KgenError
from kgen.ship.lock import Interval, Row, Table
from kgen.spec import LoadedSpec


@dataclass(frozen=True)
class Machine:
    """What a ranking was measured on; all empty if nothing was."""

    gpu: str = ""
    driver: str = ""
    toolkit: str = ""


@dataclass(frozen=True)
class Winner:
    """The best kernel at one problem.

    shape is M, N, K in elements. ratio is the speed over a baseline with its interval; None where
    the ranking has none, and `how` says in a few words what it rests on: a screen, a static figure.
    """

    spec: LoadedSpec
    source_digest: str
    shape: tuple[int, int, int]
    ratio: Interval | None
    machine: Machine
    how: str = ""


def table_name(spec: LoadedSpec) -> str:
    """`sm_90a_f16_f32acc`: target, types of A, B and D (once if equal), accumulator, majors.

    A major is named only where it is not the usual one, K for both operands.
    """
    gemm = spec.spec.gemm
    types = (gemm.a.dtype, gemm.b.dtype, gemm.d.dtype)
    words = [spec.spec.target, *(types[:1] if len(set(types)) == 1 else types)]
    words.append(f"{gemm.accumulator}acc")
    words += [f"{x}_{o.major}" for x, o in (("a", gemm.a), ("b", gemm.b)) if o.major != "k"]
    return "_".join(words)


def from_results(
    specs: Iterable[tuple[LoadedSpec, str]], results: Iterable[Result], gpu: str | None = None
) -> tuple[Winner, ...]:
    """The fastest of the given kernels at every problem that a result file of its source holds.

    specs  with the digest of the source that each renders to
    gpu    which GPU's results rank; wanted where the results come from several

    Kernels are compared by their speed over the first baseline, which both were timed against in
    the same process; only kernels of one table are compared.
    Raises  KgenError if results come from several GPUs and none is named, or none is from `gpu`
    """
    found = [
        (spec, result)
        for spec, digest in specs
        for result in results
        if (result.kernel, result.source_digest) == (spec.spec.name, digest) and result.timings
    ]
    names = sorted({result.gpu.name for _, result in found})
    if gpu is None and len(names) > 1:
        raise KgenError(f"results come from {', '.join(names)}; name the one that ranks with --gpu")
    if gpu is not None and gpu not in names:
        have = f"; there are results of {', '.join(names)}" if names else ""
        raise KgenError(f"--gpu: no result of {gpu} measured one of these sources{have}")
    best: dict[tuple[str, tuple[int, int, int]], Winner] = {}
    for spec, result in found:
        if result.gpu.name != (gpu or result.gpu.name):
            continue
        for timed in result.timings:
            new = _candidate(spec, result, timed)
            if new is None:
                continue
            key = (table_name(spec), new.shape)
            if key not in best or _rank(new) > _rank(best[key]):
                best[key] = new
    return tuple(best.values())


def _candidate(spec: LoadedSpec, result: Result, timed: Timed) -> Winner | None:
    """How a kernel did at one problem, in its shortest window; None without a baseline."""
    window = min(timed.windows, key=lambda w: w.launches, default=None)
    if window is None or not window.ratios:
        return None
    first = window.ratios[0]
    ratio = Interval(baseline=first.baseline, median=first.median, low=first.low, high=first.high)
    machine = Machine(result.gpu.name, result.gpu.driver, result.gpu.toolkit)
    return Winner(spec, result.source_digest, (timed.m, timed.n, timed.k), ratio, machine)


def _rank(winner: Winner) -> float:
    return winner.ratio.median if winner.ratio else 0.0


def tables_of(winners: Iterable[Winner]) -> tuple[Table, ...]:
    """One dispatch table for each problem that winners compute, rows in order of M, N, K.

    Raises  KgenError if two winners claim one problem, or two different problems have one name
    """
    groups: dict[str, list[Winner]] = {}
    for winner in winners:
        groups.setdefault(table_name(winner.spec), []).append(winner)
    return tuple(_table(name, group) for name, group in sorted(groups.items()))


def _table(name: str, winners: list[Winner]) -> Table:
    if len({w.spec.spec.gemm.model_dump_json() for w in winners}) > 1:
        raise KgenError(f"table {name}: its kernels compute different problems")
    rows = [_row(w) for w in sorted(winners, key=lambda w: w.shape)]
    for one, other in pairwise(rows):
        if (one.m, one.n, one.k) == (other.m, other.n, other.k):
            size = f"{one.m} x {one.n} x {one.k}"
            raise KgenError(f"table {name}: {one.kernel} and {other.kernel} both won at {size}")
    machines = [w.machine for w in winners]
    return Table(
        name=name,
        kgen=__version__,
        gpu=_joined(m.gpu for m in machines),
        driver=_joined(m.driver for m in machines),
        toolkit=_joined(m.toolkit for m in machines),
        rows=tuple(rows),
    )


def _row(winner: Winner) -> Row:
    m, n, k = winner.shape
    return Row(
        m=m,
        n=n,
        k=k,
        kernel=winner.spec.spec.name,
        source_digest=winner.source_digest,
        ratio=winner.ratio,
        how=winner.how,
    )


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted({v for v in values if v}))
