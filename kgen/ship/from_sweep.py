"""The winners of a sweep, as this package ships them: specs, rows of tables, evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgen.errors import KgenError
from kgen.plan import lower
from kgen.render import render
from kgen.ship.evidence import Measured, measured
from kgen.ship.lock import Interval
from kgen.ship.winners import Machine, Winner
from kgen.spec import LoadedSpec, parse_spec
from kgen.sweep.queries import only_sweep
from kgen.sweep.store import Store
from kgen.sweep.winners import Winner as Swept
from kgen.sweep.winners import finals_of, winners


@dataclass(frozen=True)
class Shipment:
    """What a sweep gives to ship. runs  finals and checks of its kernels, as evidence"""

    specs: tuple[LoadedSpec, ...]
    winners: tuple[Winner, ...]
    runs: tuple[Measured, ...]


def shipment(results: Path, sweep: str | None = None) -> Shipment:
    """The best kernel of every problem in a sweep's results file.

    sweep  may be left out where the file holds one
    Raises  KgenError if the file has no winner, or this kgen renders another source than the one
            that won; StoreError for a file that is none; VerifyError as `evidence.measured`
    """
    with Store.read(results) as store:
        name = sweep or only_sweep(store)
    best = winners(results, name)
    if not best:
        raise KgenError(
            f"{results}: no kernel of {name} has been built, so there is nothing to ship"
        )
    specs = {w.source_digest: parse_spec(w.spec_text, f"{name}.sweep.yaml") for w in best}
    _require_current(results, specs.items())
    return Shipment(
        tuple(specs.values()),
        tuple(_winner(w, specs[w.source_digest]) for w in best),
        tuple(measured(result) for result in finals_of(results, name)),
    )


def _require_current(results: Path, specs: Iterable[tuple[str, LoadedSpec]]) -> None:
    for digest, loaded in specs:
        now = render(lower(loaded)).digest
        if now != digest:
            raise KgenError(
                f"{results}: {loaded.spec.name} won with source {digest}, and this kgen renders "
                f"{now} of its spec\n    fix: kgen sweep again; only what changed is run"
            )


def _winner(swept: Swept, loaded: LoadedSpec) -> Winner:
    gpu, release = swept.gpu, swept.toolchain.split()[1]
    machine = Machine(gpu["name"], gpu["driver"], release) if gpu else Machine()
    ratio, how = None, "static figures, never timed"
    if swept.ratio is not None and swept.low is not None and swept.high is not None:
        ratio = Interval(
            baseline=swept.reference, median=swept.ratio, low=swept.low, high=swept.high
        )
        how = ""
    elif swept.ratio is not None:
        how = f"screened: {swept.ratio:.3f} of {swept.reference}"
    return Winner(loaded, swept.source_digest, (swept.m, swept.n, swept.k), ratio, machine, how)
