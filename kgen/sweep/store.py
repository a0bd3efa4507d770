"""The results file: opening it, one row per piece of work.

Writes each row as soon as it is known; an interruption loses the piece that was under way and
nothing else.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen._version import __version__
from kgen.sweep.database import StoreError, answered, connect, disconnect
from kgen.sweep.keys import Key


@dataclass(frozen=True)
class Run:
    """One row of `run`: see kgen.sweep.schema for units."""

    kernel: str
    stage: str
    toolchain: str
    status: str
    reason: str = ""
    problem: tuple[int, int, int] | None = None
    device: str | None = None
    us: float | None = None
    reference_us: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    sm_mhz: float | None = None
    power_w: float | None = None
    detail: dict[str, Any] | None = None
    seconds: float = 0.0


# Of a JSON value: its type, or what it must hold at least under each key.
Shape = type | dict[str, "Shape"]


def _fits(value: Any, shape: Shape) -> bool:
    if isinstance(shape, type):
        return isinstance(value, shape)
    return isinstance(value, dict) and all(
        key in value and _fits(value[key], inner) for key, inner in shape.items()
    )


def now() -> str:
    """The time as the tables hold it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Store:
    """An open results file. Use `Store.open` to write, `Store.read` to look."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        connection.row_factory = sqlite3.Row

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a results file for writing, and make it if it is not there.

        Raises  StoreError for another kind of file, or a newer kgen's
        """
        return cls(path, connect(path, writing=True))

    @classmethod
    def read(cls, path: Path) -> Store:
        """Open a results file to look at, also while a sweep writes it. Raises StoreError."""
        if not path.is_file():
            raise StoreError(f"{path}: no such results file; `kgen sweep` writes one")
        return cls(path, connect(path, writing=False))

    def close(self) -> None:
        """Close it; the file alone can then be carried."""
        disconnect(self._connection)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """What a SELECT finds."""
        with answered(self.path):
            return self._connection.execute(query, values).fetchall()

    def parsed(self, row: sqlite3.Row, column: str, shape: Shape) -> Any:
        """What a column with JSON holds. Raises StoreError if it is not of the shape."""
        try:
            value = json.loads(row[column])
        except (TypeError, ValueError, RecursionError) as error:
            raise StoreError(f"{self.path}: damaged: {column}: not JSON: {error}") from error
        if not _fits(value, shape):
            raise StoreError(f"{self.path}: damaged: {column}: not what kgen writes there")
        return value

    @contextmanager
    def together(self) -> Iterator[None]:
        """Everything written inside is there or not there; inside another such block, with that."""
        if self._connection.in_transaction:
            yield
            return
        with answered(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _put(self, table: str, **values: Any) -> None:
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        with answered(self.path):
            self._connection.execute(
                f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})",
                tuple(values.values()),
            )

    def begin(self, sweep: str, digest: str, file: str, settings: dict[str, Any]) -> int:
        """A new start; returns its id."""
        self._put(
            "start",
            sweep=sweep,
            digest=digest,
            file=file,
            settings=json.dumps(settings, default=str),
            kgen=__version__,
            began=now(),
        )
        return int(self.rows("SELECT max(id) FROM start")[0][0])

    def end(self, start: int, outcome: str) -> None:
        """How a start ended."""
        with answered(self.path):
            self._connection.execute(
                "UPDATE start SET ended = ?, outcome = ? WHERE id = ?", (now(), outcome, start)
            )

    def put_setting(self, start: int, name: str, value: str) -> None:
        """Something that a start learned about itself only later."""
        with answered(self.path):
            self._connection.execute(
                "UPDATE start SET settings = json_set(settings, '$.' || ?, ?) WHERE id = ?",
                (name, value, start),
            )

    def forget(self, status: str) -> int:
        """Drop every build and run that ended so, so that it is done again; returns how many."""
        with self.together():
            gone = 0
            for table in ("build", "run"):
                query = f"DELETE FROM {table} WHERE status = ?"
                gone += self._connection.execute(query, (status,)).rowcount
            return gone

    def kernels_of(self, sweep: str) -> dict[str, str]:
        """Names of the kernels that a sweep's points have, and the digests of their sources."""
        rows = self.rows(
            "SELECT name, source_digest FROM point JOIN kernel ON kernel = source_digest"
            " WHERE sweep = ?",
            sweep,
        )
        return {row["name"]: row["source_digest"] for row in rows}

    def replace_space(
        self, sweep: str, points: list[dict[str, Any]], problems: list[tuple[str, int, int, int]]
    ) -> None:
        """The points and problems of the latest start; those of an older one are forgotten.

        Kernels, builds and runs stay, whichever point they came from.
        """
        with self.together():
            self._connection.execute("DELETE FROM point WHERE sweep = ?", (sweep,))
            self._connection.execute("DELETE FROM problem WHERE sweep = ?", (sweep,))
            for point in points:
                self._put("point", sweep=sweep, **point)
            for name, m, n, k in problems:
                self._put("problem", sweep=sweep, name=name, m=m, n=n, k=k)

    def put_kernel(
        self,
        digest: str,
        *,
        name: str,
        target: str,
        spec: str,
        spec_digest: str,
        figures: dict[str, float],
        points: tuple[str, list[int]],
    ) -> None:
        """A kernel and the points (sweep, numbers) that it is the kernel of.

        The spec that a digest was first seen with stays.
        """
        sweep, numbers = points
        with self.together():
            self._connection.execute(
                "INSERT INTO kernel VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (source_digest) DO UPDATE SET figures = excluded.figures",
                (digest, name, target, spec, spec_digest, json.dumps(figures, sort_keys=True)),
            )
            self._connection.executemany(
                "UPDATE point SET kernel = ? WHERE sweep = ? AND number = ?",
                [(digest, sweep, number) for number in numbers],
            )

    def put_build(self, key: Key, **values: Any) -> None:
        """The outcome of one compilation."""
        with self.together():
            self._put_parts(key)
            self._put("build", key=key.digest, at=now(), **values)

    def put_run(self, key: Key, run: Run) -> None:
        """The outcome of one piece of work; the same key again replaces it."""
        m, n, k = run.problem or (None, None, None)
        with self.together():
            self._put_parts(key)
            self._put(
                "run",
                key=key.digest,
                kernel=run.kernel,
                stage=run.stage,
                m=m,
                n=n,
                k=k,
                device=run.device,
                toolchain=run.toolchain,
                status=run.status,
                reason=run.reason,
                us=run.us,
                reference_us=run.reference_us,
                ratio=run.ratio,
                low=run.low,
                high=run.high,
                sm_mhz=run.sm_mhz,
                power_w=run.power_w,
                detail=json.dumps(run.detail or {}, sort_keys=True),
                seconds=run.seconds,
                at=now(),
            )

    def put_device(self, identity: str, facts: dict[str, Any]) -> None:
        """A GPU and what is known of it."""
        self._put("device", id=identity, facts=json.dumps(facts, sort_keys=True))

    def _put_parts(self, key: Key) -> None:
        for part, value in key.parts:
            self._put("key_part", key=key.digest, part=part, value=value)
