"""From specs and records to a lock, and from an earlier lock to the one that this kgen makes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from kgen._version import __version__
from kgen.bench.results import Result
from kgen.errors import KgenError
from kgen.plan import lower
from kgen.render import render
from kgen.ship.evidence import Evidence, Measured, gather, measured
from kgen.ship.lock import Lock, LockedKernel, Part, Table
from kgen.ship.package import load_kernel, takes_operands_alone
from kgen.ship.winners import Winner, from_results, table_name, tables_of
from kgen.spec import LoadedSpec
from kgen.spec.names import check_name
from kgen.verify.record import EmulatorRecord

PARTS: tuple[Part, ...] = ("cmake", "python", "torch")


@dataclass(frozen=True)
class Records:
    """What was recorded about sources, of any digest; only that of the shipped ones counts.

    results  also rank kernels, where no winners are given; runs are evidence alone
    """

    results: tuple[Result, ...] = ()
    emulated: tuple[EmulatorRecord, ...] = ()
    runs: tuple[Measured, ...] = ()

    def measured(self, name: str, digest: str) -> list[Measured]:
        """Every run of one source. Raises VerifyError as evidence.measured does."""
        own = [r for r in self.results if (r.kernel, r.source_digest) == (name, digest)]
        return [*map(measured, own), *self.runs]

    def stale(self, name: str, digest: str) -> list[str]:
        """The digests of other sources of a kernel that something is recorded about."""
        found = [(r.kernel, r.source_digest) for r in (*self.results, *self.emulated, *self.runs)]
        return sorted({d for kernel, d in found if kernel == name and d != digest})


def make_lock(
    specs: Iterable[LoadedSpec],
    name: str,
    parts: Iterable[Part],
    records: Records | None,
    winners: Iterable[Winner] | None = None,
    gpu: str | None = None,
) -> Lock:
    """The lock of a new shipment: evidence from records, tables from winners.

    records  None: nothing is looked for and nothing is built, so there is no evidence
    winners  default: those that the result files name; their specs must be among `specs`. One that
        takes scales is shipped and has no row, for a table passes on A, B and D alone
    gpu      whose results rank, where there are several

    Raises  KgenError for a bad name, two kernels of one name, a winner that is not shipped;
        VerifyError and CompileError as evidence.gather does
    """
    specs = list(specs)
    _check_names(name, specs)
    kernels, digests = [], []
    for loaded in specs:
        plan = lower(loaded)
        rendered = render(plan)
        if takes_operands_alone(plan):
            digests.append((loaded, rendered.digest))
        evidence = Evidence()
        if records is not None:
            runs = records.measured(plan.name, rendered.digest)
            evidence = gather(plan, rendered, runs, records.emulated)
        kernels.append(_locked(loaded, rendered.digest, evidence))
    if winners is None:
        winners = from_results(digests, records.results, gpu) if records is not None else ()
    tables = tables_of(w for w in winners if takes_operands_alone(lower(w.spec)))
    _check_tables(tables, kernels)
    return Lock(
        kgen=__version__,
        name=name,
        parts=tuple(sorted(set(parts))),
        kernels=tuple(sorted(kernels, key=lambda k: k.name)),
        tables=tables,
    )


def _check_names(name: str, specs: list[LoadedSpec]) -> None:
    try:
        check_name(name)
    except PydanticCustomError as error:
        raise KgenError(f"--name: {error.message()}") from None
    labels: dict[str, str] = {name.casefold(): "--name"}
    for loaded in specs:
        kernel = loaded.spec.name
        other = labels.setdefault(kernel.casefold(), loaded.label)
        if other is not loaded.label:
            raise KgenError(
                f"{loaded.label}: name: {kernel} is also the name of {other} "
                "(names that differ only in case collide on some file systems)"
            )


def _check_tables(tables: tuple[Table, ...], kernels: list[LockedKernel]) -> None:
    names = {k.name for k in kernels}
    for table in tables:
        if table.name in names:
            raise KgenError(f"{table.name} is a kernel's name and a dispatch table's; rename it")
        for row in table.rows:
            if row.kernel not in names:
                size = f"{row.m} x {row.n} x {row.k}"
                raise KgenError(f"{row.kernel} won at {size} and is not among the shipped specs")


def _locked(loaded: LoadedSpec, digest: str, evidence: Evidence) -> LockedKernel:
    return LockedKernel(
        name=loaded.spec.name,
        label=re.sub(r"[^A-Za-z0-9._/-]", "_", loaded.label),
        spec=loaded.tree.data,
        source_digest=digest,
        evidence=evidence,
    )


def remake(old: Lock) -> Lock:
    """The lock that this kgen makes of an earlier one.

    A kernel whose source has changed since loses what was recorded about it. Rows keep their
    choice, as the best guess there is, and name the source that was ranked.
    Raises  KgenError for a lock that was changed since kgen wrote it
    """
    if old.digest != old.own_digest:
        raise KgenError(
            "kgen.lock was changed by hand, or by a merge, so nothing is made from it\n"
            "    fix: git checkout -- kgen.lock, or ship from the specs again"
        )
    kernels = tuple(_renewed(kernel) for kernel in old.kernels)
    return old.model_copy(
        update={"kgen": __version__, "kernels": kernels, "files": {}, "digest": ""}
    )


def _renewed(kernel: LockedKernel) -> LockedKernel:
    loaded = load_kernel(kernel)
    plan = lower(loaded)
    rendered = render(plan)
    if rendered.digest == kernel.source_digest:
        return kernel
    return _locked(loaded, rendered.digest, gather(plan, rendered, (), ()))


def untabled(lock: Lock) -> dict[str, str]:
    """Kernels that no dispatch table can choose, by name, and why."""
    tables = {table.name for table in lock.tables}
    found = {}
    for kernel in lock.kernels:
        loaded = load_kernel(kernel)
        if not takes_operands_alone(lower(loaded)):
            found[kernel.name] = "it takes scales, which a table does not pass on"
        elif table_name(loaded) not in tables:
            found[kernel.name] = "nothing of its problem was timed"
    return found
