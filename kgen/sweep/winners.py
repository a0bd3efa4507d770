"""What a sweep hands on: the best kernel of every problem, and its finals as result files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.bench.results import Compiler, Gpu, Result, Timed, Verified
from kgen.sweep.queries import (
    Cell,
    Size,
    cells_of,
    devices_in,
    only_sweep,
    problems_in,
    ranked,
    recorded,
    settings_of,
)
from kgen.sweep.store import Store


@dataclass(frozen=True)
class Winner:
    """The best kernel of one problem, with what a dispatch table must know of it.

    stage "final": ratio is the median over `reference` and low..high its 95 % interval; "screen": a
    quick figure without one; "static": never run on a GPU, ratio is None. gpu holds name, driver
    and more, as measured; empty for a static one.
    """

    m: int
    n: int
    k: int
    problem: str
    kernel: str
    spec_text: str
    source_digest: str
    target: str
    stage: str
    ratio: float | None
    low: float | None
    high: float | None
    us: float | None
    gpu: dict[str, Any]
    toolchain: str
    reference: str


def winners(path: Path, sweep: str | None = None) -> list[Winner]:
    """The best kernel of every problem of a sweep, in the order of its file.

    sweep  may be left out where the file holds one
    Raises  KgenError if the file holds several and none is named; StoreError
    """
    with Store.read(path) as store:
        name = sweep or only_sweep(store)
        settings = settings_of(store, name)["settings"]
        cells, devices = cells_of(store, name), devices_in(store)
        found = []
        for size, label in problems_in(store, name).items():
            best = ranked(cells, size, settings)
            if best:
                found.append(_winner(best[0], size, label, devices))
        return found


def _winner(cell: Cell, size: Size, label: str, devices: dict[str, Any]) -> Winner:
    t = cell.timings.get(size)
    return Winner(
        *size,
        problem=label,
        kernel=cell.kernel,
        spec_text=cell.spec,
        source_digest=cell.source_digest,
        target=cell.target,
        stage=t.stage if t else "static",
        ratio=t.ratio if t else None,
        low=t.low if t else None,
        high=t.high if t else None,
        us=t.us if t else None,
        gpu=devices.get(t.device or "", {}) if t else {},
        toolchain=cell.toolchain,
        reference=t.reference if t else "",
    )


def finals_of(path: Path, sweep: str | None = None) -> list[Result]:
    """Every kernel of a sweep that reached finals, as `kgen bench` would have recorded it.

    Raises  as `winners`
    """
    with Store.read(path) as store:
        name = sweep or only_sweep(store)
        cells, devices = cells_of(store, name), devices_in(store)
        unique = {cell.source_digest: cell for cell in cells}
        found = []
        for cell in unique.values():
            timings = {s: t for s, t in cell.timings.items() if t.timed is not None}
            for device in sorted({t.device or "" for t in timings.values()}):
                mine = [t for t in timings.values() if t.device == device]
                gates = store.rows(
                    "SELECT json_extract(detail, '$.verification') AS detail FROM run"
                    " WHERE kernel = ?"
                    " AND stage = 'verify' AND status = 'verified' AND device = ?"
                    " AND toolchain = ? ORDER BY at DESC LIMIT 1",
                    *(cell.source_digest, device, cell.toolchain),
                )
                found_gates = gates and gates[0]["detail"]
                checked = store.parsed(gates[0], "detail", list) if found_gates else []
                records = tuple(t.timed for t in mine if t.timed is not None)
                latest = max(t.at for t in mine)
                found.append(_result(cell, devices[device], records, checked, latest))
    return found


def _result(
    cell: Cell, gpu: dict[str, Any], timings: tuple[Timed, ...], gates: list[Any], at: str
) -> Result:
    compiler, release = cell.toolchain.split()[:2]
    return Result(
        kernel=cell.kernel,
        source_digest=cell.source_digest,
        compiler=Compiler(name=compiler, version=release),
        gpu=Gpu(
            name=gpu["name"], driver=gpu["driver"], toolkit=release, libraries=gpu["libraries"]
        ),
        measured_on=datetime.datetime.fromisoformat(at).date(),
        timings=timings,
        verification=tuple(recorded(Verified, x) for x in gates),
    )
