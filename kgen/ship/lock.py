"""kgen.lock: what a shipped folder is made from, and the digest of every file in it.

The shipped files are a function of this record and of kgen's templates alone, so the folder can be
checked, repaired and rendered anew without anything else. docs/shipping.md describes the format.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kgen.records import Record, dump_record, load_record
from kgen.ship.evidence import Evidence

LOCK_NAME = "kgen.lock"
SCHEMA = 1
Part = Literal["cmake", "python", "torch"]
Extent = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[float, Field(gt=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# These stand in file names and in code, so a lock that was tampered with must not reach further.
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+$")]


def _plain_file(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", "..", LOCK_NAME):
        raise PydanticCustomError("file_name", "no name of a file beside the lock")
    return name


FileName = Annotated[str, AfterValidator(_plain_file)]


class Interval(Record):
    """Speed over a baseline: median of the rounds and 95 % bootstrap interval."""

    baseline: str
    median: Positive
    low: Positive
    high: Positive


class Row(Record):
    """The kernel to use at one problem, and the source that was ranked.

    ratio is None where there is no interval; `how` may say what the choice rests on then.
    """

    m: Extent
    n: Extent
    k: Extent
    kernel: str
    source_digest: str
    ratio: Interval | None = None
    how: str = ""


class Table(Record):
    """A dispatch table: kernels that compute the same, and which of them is best where.

    gpu, driver and toolkit name what the rows were ranked on, empty without a measurement, and kgen
    the version that ranked them.
    """

    name: Word
    kgen: str
    gpu: str = ""
    driver: str = ""
    toolkit: str = ""
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]


class LockedKernel(Record):
    """One kernel: its resolved spec, and what is known about the source that it renders to."""

    name: Word
    label: Label  # of the spec file, as the header comment names it
    spec: dict[str, Any]
    source_digest: str
    evidence: Evidence


class Lock(Record):
    """The whole of kgen.lock.

    files   name to sha256 of the text with LF line ends
    digest  sha256 of the lock's own text with this field empty; empty before it is written
    """

    schema_version: Literal[1] = SCHEMA
    kgen: str
    name: Word
    parts: tuple[Part, ...]
    kernels: Annotated[tuple[LockedKernel, ...], Field(min_length=1)]
    tables: tuple[Table, ...]
    files: dict[FileName, Digest] = Field(default_factory=dict)
    digest: str = ""

    def with_files(self, texts: dict[str, str]) -> Lock:
        """The same with the digests of these texts, and of itself."""
        digests = {name: digest(text) for name, text in sorted(texts.items())}
        filled = self.model_copy(update={"files": digests})
        return filled.model_copy(update={"digest": filled.own_digest})

    @property
    def own_digest(self) -> str:
        """What `digest` must be."""
        return digest(dump_record(self.model_copy(update={"digest": ""})))


def digest(text: str) -> str:
    """sha256 of a text's UTF-8 bytes, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_lock(folder: Path) -> Lock:
    """The lock of a shipped folder.

    Raises  KgenError naming the file and the field, for a newer schema, broken JSON, a wrong or
        unknown field
    """
    return load_record(folder / LOCK_NAME, Lock, "a lock of shipped kernels", SCHEMA)


def dump_lock(lock: Lock) -> str:
    """The text of kgen.lock."""
    return dump_record(lock)
