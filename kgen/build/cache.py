"""Content-addressed store of build results; knows bytes and digests, nothing of compilers.

One entry is a folder: the artefact, log.txt, and report.json with the digests of both. It is
written beside the store and renamed into place, so a reader sees all of it or nothing. A cache
can be carried to another machine: no key and no report holds a clock, a host or a path.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.errors import ToolchainError

SCHEMA = 2  # part of every key; raise it when the meaning or layout of an entry changes


@dataclass(frozen=True)
class Entry:
    """One stored build: the artefact's file, the compiler's log, and the report kept with them."""

    path: Path
    log: str
    report: dict[str, Any]


def root() -> Path:
    """kgen's cache folder: KGEN_CACHE, else XDG_CACHE_HOME/kgen, else ~/.cache/kgen."""
    if chosen := os.environ.get("KGEN_CACHE"):
        return Path(chosen).absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).absolute() / "kgen"
    try:
        return Path.home() / ".cache" / "kgen"
    except RuntimeError as error:
        raise ToolchainError(
            "no home folder is known on this machine; set KGEN_CACHE to a folder for kgen's cache"
        ) from error


def key(**parts: str | tuple[str, ...]) -> str:
    """sha256 over the schema version and every named part (source, target, flags, compiler ...)."""
    text = json.dumps({"schema": SCHEMA, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load(entry_key: str) -> Entry | None:
    """The entry of that key, or None; an entry whose digests do not fit is removed and is None."""
    folder = _folder(entry_key)
    if not folder.is_dir():
        return None
    try:
        stored = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        path = folder / stored["file"]
        log = (folder / "log.txt").read_bytes()
        intact = (
            stored["schema"] == SCHEMA
            and stored["key"] == entry_key
            and stored["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
            and stored["log_sha256"] == hashlib.sha256(log).hexdigest()
        )
        if intact:
            return Entry(path, log.decode(), dict(stored["report"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    _discard(folder)
    return None


def store(entry_key: str, file: str, data: bytes, log: str, report: dict[str, Any]) -> Entry:
    """Put a build into the store; if another process stored the same key first, keep that one.

    Raises  ToolchainError if the cache folder cannot be written
    """
    folder = _folder(entry_key)
    draft = folder.parent / f".draft-{uuid.uuid4().hex}"
    log_bytes = log.encode()
    stored = {
        "schema": SCHEMA,
        "key": entry_key,
        "file": file,
        "sha256": hashlib.sha256(data).hexdigest(),
        "log_sha256": hashlib.sha256(log_bytes).hexdigest(),
        "report": report,
    }
    try:
        draft.mkdir(parents=True)
        (draft / file).write_bytes(data)
        (draft / "log.txt").write_bytes(log_bytes)
        (draft / "report.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        # Two tries: the first may meet a corrupt entry, which load() removes.
        for _ in range(2):
            if _renamed(draft, folder):
                return Entry(folder / file, log, report)
            if entry := load(entry_key):
                return entry
        raise OSError(errno.EEXIST, "a broken entry cannot be replaced", str(folder))
    except OSError as error:
        raise ToolchainError(
            f"{root()}: the cache cannot be written: {error}; set KGEN_CACHE to another folder"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _folder(entry_key: str) -> Path:
    return root() / "artifacts" / entry_key[:2] / entry_key


def _renamed(draft: Path, folder: Path) -> bool:
    try:
        os.rename(draft, folder)
        return True
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise


def _discard(folder: Path) -> None:
    """Move a broken entry aside before deleting it, so that no reader meets it half deleted."""
    aside = folder.parent / f".broken-{uuid.uuid4().hex}"
    try:
        os.rename(folder, aside)
    except OSError:
        return  # another process was faster, or the cache is read-only
    shutil.rmtree(aside, ignore_errors=True)
