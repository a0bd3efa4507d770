"""The SQLite file behind a store: opened, versioned, locked, and its errors in words."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgen.errors import KgenError
from kgen.sweep import schema

BUSY_SECONDS = 30.0  # that a writer waits for another before it gives up


class StoreError(KgenError):
    """A results file cannot be read, or takes nothing more."""


class FullError(StoreError):
    """The disk, not the file, is at fault."""

    exit_code = 3


def connect(path: Path, writing: bool) -> sqlite3.Connection:
    """A connection to a results file of this version; a writer makes the file if it is not there.

    Raises  StoreError for another kind of file, or a newer kgen's; FullError
    """
    with answered(path):
        connection = _open(path, writing)
        try:
            if writing and not connection.execute("PRAGMA schema_version").fetchone()[0]:
                _create(connection)
            _require_ours(path, connection)
            if writing:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def disconnect(connection: sqlite3.Connection) -> None:
    """Close a connection; where no other is open, the results file then stands alone.

    The last writer folds the log into the file and leaves a file without one, which readers need
    not write beside. Where a reader is still there, that is left to the reader.
    """
    with contextlib.suppress(sqlite3.Error):
        if not connection.execute("PRAGMA query_only").fetchone()[0]:
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def _open(path: Path, writing: bool) -> sqlite3.Connection:
    if writing:
        return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    file = Path(os.path.realpath(path))  # its log lies beside it, not beside a link to it
    takes_files = os.access(file.parent, os.W_OK)
    # A reader of a file with a log makes two files beside it. Only where it may write does SQLite
    # take them away again, and what a killed writer left.
    mode = "rw" if takes_files and os.access(file, os.W_OK) else "ro"
    if not takes_files and not file.with_name(f"{file.name}-wal").exists():
        mode = "ro&immutable=1"  # there is no writer either, so nothing can change
    name = f"{file.as_uri()}?mode={mode}"
    connection = sqlite3.connect(name, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN;PRAGMA application_id = {schema.APPLICATION_ID};"
        f"PRAGMA user_version = {schema.VERSION};{schema.TABLES}COMMIT;"
    )


def _require_ours(path: Path, connection: sqlite3.Connection) -> None:
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if kind != schema.APPLICATION_ID:
        raise StoreError(f"{path}: a SQLite file, but none of kgen's results")
    if version > schema.VERSION:
        raise StoreError(
            f"{path}: written by a newer kgen (tables {version}, this one reads {schema.VERSION}); "
            "fix: upgrade kgen, or name another file with --results"
        )


@contextmanager
def answered(path: Path) -> Iterator[None]:
    """SQLite's errors as kgen's, with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        kept = "everything recorded before is kept, and the next start goes on from there"
        if "full" in text or "disk I/O" in text:
            raise FullError(f"{path}: cannot grow: {text}; free space: {kept}") from error
        if "locked" in text:
            raise StoreError(f"{path}: another process keeps it locked ({text}); {kept}") from error
        if "unable to open" in text or "readonly" in text:
            raise StoreError(f"{path}: cannot be opened or written: {text}") from error
        if any(words in text for words in ("not a database", "malformed", "no such")):
            raise StoreError(f"{path}: not a results file, or damaged: {text}") from error
        raise


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file while inside; the kernel frees it when its holder ends, however that is.

    Raises  KgenError, naming the holder's process, if another holds it
    """
    while True:
        with path.open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                holder = handle.read().strip() or "unknown"
                raise KgenError(f"{what} (process {holder})") from None
            if not _same(handle.fileno(), path):
                continue  # its last holder took it away in between
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
