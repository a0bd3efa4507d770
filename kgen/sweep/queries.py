"""Questions to a results file: what became of every point, and the best kernel per problem.

Only what belongs to a point's present kernel counts; results of an older template or toolchain stay
in the file and are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kgen.bench.results import RatioRecord, Timed
from kgen.errors import KgenError
from kgen.sweep.figures import static_order
from kgen.sweep.store import Shape, Store, StoreError

FAILED = ("compile_failed", "ptxas_rejected", "emulator_finding", "wrong", "hung", "crashed")
RANKED = ("built", "emulated", "screened", "timed")  # statuses of points that may win
STATUSES = ("infeasible", *FAILED, "pending", *RANKED)
Size = tuple[int, int, int]
_COPIED = (
    *("status", "reason", "us", "reference_us", "ratio", "low", "high"),
    *("sm_mhz", "power_w", "device", "at"),
)


_SETTINGS: Shape = {
    "axes": dict,
    "rank": {"measured": str, "static": list},
    "toolchain": str,
    "device": object,
}
_FACTS: Shape = {"name": str, "driver": str, "libraries": object}
R = TypeVar("R", bound=BaseModel)


def recorded(model: type[R], value: Any) -> R:
    """A record inside a JSON column. Raises StoreError for what is none."""
    try:
        return model.model_validate(value, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        what = ".".join(map(str, (model.__name__, *first["loc"])))
        raise StoreError(f"damaged results file: detail: {what}: {first['msg']}") from error


@dataclass(frozen=True)
class Timing:
    """What is known of one kernel on one problem; a final replaces the screen before it."""

    stage: str
    status: str
    reason: str
    us: float | None
    reference_us: float | None
    ratio: float | None
    low: float | None
    high: float | None
    sm_mhz: float | None
    power_w: float | None
    device: str | None
    detail: dict[str, Any]
    at: str

    def tflops(self, size: Size) -> float | None:
        """Multiply-adds count twice."""
        m, n, k = size
        return 2 * m * n * k / self.us / 1e6 if self.us else None

    @property
    def timed(self) -> Timed | None:
        """The whole record of a final; None of a screen."""
        found = self.detail.get("timed")
        return recorded(Timed, found) if found else None

    @property
    def reference(self) -> str:
        """The baseline that `ratio` is over; files of earlier screens do not name it."""
        return self.detail.get("reference") or next(iter(self.against), "torch")

    @property
    def against(self) -> dict[str, RatioRecord]:
        """Speed over each baseline of a final, the reference first."""
        return {r.baseline: r for r in self.timed.windows[0].ratios} if self.timed else {}


@dataclass(frozen=True)
class Cell:
    """One point of a sweep. status is one of STATUSES; reason says why, with its numbers."""

    sweep: str
    number: int
    axes: dict[str, Any]
    status: str
    rules: tuple[str, ...]
    reason: str
    kernel: str
    source_digest: str
    target: str
    spec: str
    toolchain: str
    figures: dict[str, float]
    timings: dict[Size, Timing]


def sweeps_of(store: Store) -> list[str]:
    """Names of the sweeps in a file."""
    return [row[0] for row in store.rows("SELECT DISTINCT sweep FROM start ORDER BY sweep")]


def settings_of(store: Store, sweep: str) -> dict[str, Any]:
    """What the latest start of a sweep asked for, and how it ended."""
    rows = store.rows("SELECT * FROM start WHERE sweep = ? ORDER BY id DESC LIMIT 1", sweep)
    if not rows:
        known = ", ".join(sweeps_of(store)) or "none"
        raise KgenError(f"{store.path}: no sweep called {sweep}; in this file: {known}")
    row = dict(rows[0])
    return row | {"settings": store.parsed(rows[0], "settings", _SETTINGS)}


def problems_in(store: Store, sweep: str) -> dict[Size, str]:
    """Sizes of a sweep's problems and their names, in the order of the file."""
    rows = store.rows("SELECT * FROM problem WHERE sweep = ? ORDER BY rowid", sweep)
    return {(r["m"], r["n"], r["k"]): r["name"] for r in rows}


def devices_in(store: Store) -> dict[str, dict[str, Any]]:
    """Every GPU of a file, by its id."""
    rows = store.rows("SELECT * FROM device")
    return {row["id"]: store.parsed(row, "facts", _FACTS) for row in rows}


def cells_of(store: Store, sweep: str, stages: tuple[str, ...] = ("screen", "final")) -> list[Cell]:
    """Every point of a sweep with all that is known of it.

    Builds and runs are those of the latest start's toolchain, and of its GPU if it had one.
    stages  whose timings count, the later replacing the earlier
    """
    settings = settings_of(store, sweep)["settings"]
    toolchain, device = settings["toolchain"], settings["device"]
    builds = {
        r["kernel"]: r for r in store.rows("SELECT * FROM build WHERE toolchain = ?", toolchain)
    }
    runs: dict[str, list[Any]] = {}
    for row in store.rows("SELECT * FROM run WHERE toolchain = ? ORDER BY at, rowid", toolchain):
        if device is None or row["device"] in (device, None):
            runs.setdefault(row["kernel"], []).append(row)
    rows = store.rows(
        "SELECT * FROM point LEFT JOIN kernel ON kernel = source_digest"
        " WHERE sweep = ? ORDER BY number",
        sweep,
    )
    sizes = problems_in(store, sweep)
    return [
        _cell(
            store,
            row,
            builds.get(row["kernel"]),
            runs.get(row["kernel"], []),
            set(sizes),
            stages,
        )
        for row in rows
    ]


def _cell(
    store: Store,
    row: Any,
    build: Any,
    mine: list[Any],
    sizes: set[Size],
    stages: tuple[str, ...],
) -> Cell:
    figures = store.parsed(row, "figures", dict) if row["figures"] else {}
    rules = tuple(store.parsed(row, "rules", list))
    if build and build["registers"]:
        figures["registers"] = build["registers"]
    status, reason = ("infeasible", row["reason"]) if rules else _status(build, mine)
    return Cell(
        sweep=row["sweep"],
        number=row["number"],
        axes=store.parsed(row, "axes", dict),
        status=status,
        rules=rules,
        reason=reason,
        kernel=row["name"] or "",
        source_digest=row["kernel"] or "",
        target=row["target"] or "",
        spec=row["spec"] or "",
        toolchain=build["toolchain"] if build else "",
        figures=figures,
        timings=_timings(store, mine, sizes, stages),
    )


def _status(build: Any, runs: list[Any]) -> tuple[str, str]:
    """The worst that happened to a kernel, or else the furthest it got."""
    if build is None:
        return "pending", "not reached: outside the budget of points or time, or never built"
    if build["status"] != "built":
        return build["status"], build["reason"]
    for run in runs:
        if run["status"] in FAILED:
            where = f" at {run['m']}x{run['n']}x{run['k']}" if run["m"] is not None else ""
            return run["status"], f"{run['stage']}{where}: {run['reason']}"
    reached = {run["status"]: run["reason"] for run in runs}
    for status in ("timed", "screened", "emulated", "built"):
        if status in reached:
            return status, reached[status]
    return "built", ""


def _timings(
    store: Store, runs: Iterable[Any], sizes: set[Size], stages: tuple[str, ...]
) -> dict[Size, Timing]:
    found: dict[Size, Timing] = {}
    for stage in stages:
        for r in runs:
            size = (r["m"], r["n"], r["k"])
            if r["stage"] != stage or size not in sizes:
                continue
            found[size] = Timing(
                stage=stage,
                detail=store.parsed(r, "detail", dict),
                **{name: r[name] for name in _COPIED},
            )
    return found


def references(timings: Iterable[Timing | None]) -> str:
    """What these ratios are over, in words: one baseline, or several where layouts differ."""
    return " or ".join(sorted({t.reference for t in timings if t and t.ratio})) or "torch"


def ranked(cells: list[Cell], size: Size, settings: dict[str, Any]) -> list[Cell]:
    """Cells that may win a problem, the best first: finals, screens, then by static figures.

    Of those that no GPU has run, the ones that are right in the emulator come first.

    Each kernel once. A kernel that failed anywhere is not among them.
    """
    rank = settings["rank"]
    unique = {c.source_digest: c for c in reversed(cells) if c.status in RANKED}

    def order(cell: Cell) -> tuple[Any, ...]:
        timing = cell.timings.get(size)
        static = static_order(cell.figures, rank["static"])
        if timing is None or timing.us is None or timing.ratio is None:
            return (2 if cell.status == "emulated" else 3, *static, cell.number)
        speed = timing.ratio if rank["measured"] == "ratio" else 1 / timing.us
        return (0 if timing.stage == "final" else 1, -speed, cell.number)

    return sorted(unique.values(), key=order)


def only_sweep(store: Store) -> str:
    """The one sweep of a file. Raises KgenError where there are none or several."""
    names = sweeps_of(store)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise KgenError(f"{store.path}: holds {len(names)} sweeps ({known}); fix: --sweep NAME")
    return names[0]


def key_parts(store: Store, prefix: str) -> dict[str, dict[str, str]]:
    """Keys that begin with a prefix, or belong to a kernel of that name or digest, and their parts.

    Raises  KgenError if there is none
    """
    rows = store.rows(
        "SELECT key, part, value FROM key_part WHERE substr(key, 1, ?) = ? OR key IN ("
        " SELECT key FROM build JOIN kernel ON kernel = source_digest WHERE ? IN (kernel, name)"
        " UNION SELECT key FROM run JOIN kernel ON kernel = source_digest WHERE ? IN (kernel, name)"
        ") ORDER BY key, part",
        len(prefix),
        prefix,
        prefix,
        prefix,
    )
    if not prefix or not rows:
        raise KgenError(f"{store.path}: no key, kernel or source digest {prefix!r}")
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["key"], {})[row["part"]] = row["value"]
    return found
