"""What a run over all shapes in the emulator found, as one JSON file per kernel.

`kgen verify --on emulator --record DIR` writes it; `kgen ship` reads it as evidence.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kgen._version import __version__
from kgen.files import make_folder, write_whole
from kgen.records import Record, dump_record, load_record
from kgen.verify.emulator import EmulatedCase

SCHEMA = 1
Count = Annotated[int, Field(ge=0)]


class EmulatorRecord(Record):
    """One kernel under every schedule. runs: cases times schedules.

    named_shapes_left_out  shapes under the spec's `verify` that were not run
    """

    schema_version: Literal[1] = SCHEMA
    kernel: str
    source_digest: str
    kgen: str
    emulated_on: datetime.date
    verdict: Literal["clean", "review", "incomplete", "error"]
    shapes: tuple[str, ...]
    right: Count
    runs: Count
    schedules: tuple[str, ...]
    named_shapes_left_out: Count = 0


def emulator_record(
    kernel: str, source_digest: str, verdict: str, cases: Iterable[EmulatedCase], left_out: int = 0
) -> EmulatorRecord:
    """The record of the cases of one kernel; `verdict` is that over all of them.

    left_out  shapes that the spec names and no case is of
    """
    cases = list(cases)
    schedules = dict.fromkeys(s for case in cases for s in case.report.schedules)
    return EmulatorRecord(
        kernel=kernel,
        source_digest=source_digest,
        kgen=__version__,
        emulated_on=datetime.date.today(),
        verdict=verdict,  # type: ignore[arg-type]
        shapes=tuple(case.shape.label for case in cases),
        right=sum(case.passed for case in cases),
        runs=sum(len(case.report.schedules) for case in cases),
        schedules=tuple(schedules),
        named_shapes_left_out=left_out,
    )


def save_emulator_record(record: EmulatorRecord, folder: Path) -> Path:
    """Write a record as `<kernel>.json` and return the path."""
    make_folder(folder)
    path = folder / f"{record.kernel}.json"
    write_whole(path, dump_record(record).encode())
    return path


def load_emulator_records(folder: Path) -> tuple[EmulatorRecord, ...]:
    """Every record of a folder, by kernel. Raises KgenError as load_record does."""
    found = [
        load_record(path, EmulatorRecord, "an emulator record", SCHEMA)
        for path in sorted(folder.glob("*.json"))
    ]
    return tuple(sorted(found, key=lambda record: record.kernel))
