"""Is a shipped folder still what was shipped? By digests alone, or fully, against the templates.

With digests alone a drift has no diff: what the file was is not in the folder, only in its history.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kgen._version import __version__
from kgen.check import MARK, Drift, DriftKind, shell_command, text_diff
from kgen.files import files_below, read_regular
from kgen.ship.lock import LOCK_NAME, Lock, digest, dump_lock, load_lock
from kgen.ship.package import texts

_SUFFIXES = (".cu", ".h", ".cpp", ".py", ".txt")


def check_shipped(folder: Path, digests_only: bool = False) -> list[Drift]:
    """Every drift of a shipped folder, in path order.

    digests_only  compare with the digests in the lock, whatever kgen and templates are installed;
        otherwise with what this kgen renders from the lock, too
    Raises  KgenError if the lock cannot be read, or holds a spec that this kgen refuses
    """
    lock = load_lock(folder)
    if digests_only:
        found = [d for name in lock.files for d in _by_digest(folder, name, lock)]
    else:
        found = list(_fully(folder, lock))
    found += [*_lock_itself(folder, lock), *_orphans(folder, lock)]
    return sorted(found, key=lambda drift: str(drift.path))


def _by_digest(folder: Path, name: str, lock: Lock) -> Iterator[Drift]:
    path = folder / name
    repair = shell_command("git", "checkout", "--", path)
    if not path.is_file():
        yield Drift(path, "missing", f"{LOCK_NAME} lists it", repair)
        return
    raw = path.read_bytes()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        yield Drift(path, "unreadable", "not UTF-8 text", repair)
        return
    if digest(text) == lock.files[name]:
        return
    if digest(text.replace("\r\n", "\n")) == lock.files[name]:
        yield _line_endings(path, repair)
        return
    what = "changed by hand or by a formatter since it was shipped"
    yield Drift(path, "edited", what, f"{repair}, or {_ship(folder)}")


def _line_endings(path: Path, repair: str) -> Drift:
    what = "only the line endings differ (CRLF); a checkout converted them"
    renormalize = shell_command("git", "add", "--renormalize", path)
    return Drift(path, "line endings", what, f"{renormalize}, or {repair}")


def _ship(folder: Path) -> str:
    return shell_command("kgen", "ship", "--to", folder)


def _fully(folder: Path, lock: Lock) -> Iterator[Drift]:
    """Disk against digests says edited, digests against this kgen's rendering says stale."""
    expected = texts(lock)
    for name, text in expected.items():
        yield from _compare(folder, name, text, lock)
    for name in sorted(set(lock.files) - set(expected)):
        what = f"{LOCK_NAME} lists it, and this kgen renders no such file"
        kind: DriftKind = "stale" if (folder / name).is_file() else "missing"
        yield Drift(folder / name, kind, what, _ship(folder))


def _compare(folder: Path, name: str, text: str, lock: Lock) -> Iterator[Drift]:
    path, repair = folder / name, _ship(folder)
    if not path.is_file():
        yield Drift(path, "missing", f"{LOCK_NAME} lists it", repair)
        return
    try:
        actual = path.read_bytes().decode()
    except UnicodeDecodeError:
        yield Drift(path, "unreadable", "not UTF-8 text", repair)
        return
    plain = actual.replace("\r\n", "\n")
    if plain == text:
        if plain != actual:
            yield _line_endings(path, repair)
        return
    if digest(plain) != lock.files.get(name):
        what = "changed by hand or by a formatter since it was shipped"
        yield Drift(path, "edited", what, repair, text_diff(plain, text, path))
        return
    what = "kgen's templates or rules have changed since it was shipped"
    if lock.kgen != __version__:
        what = f"shipped by kgen {lock.kgen}, and this is kgen {__version__}"
    yield Drift(path, "stale", what, repair, text_diff(plain, text, path))


def _lock_itself(folder: Path, lock: Lock) -> Iterator[Drift]:
    """The lock's own text, which kgen writes in one way only, and its digest of itself."""
    path, canonical = folder / LOCK_NAME, dump_lock(lock)
    actual = path.read_bytes().decode()
    plain = actual.replace("\r\n", "\n")
    repair = shell_command("git", "checkout", "--", path)
    if lock.digest != lock.own_digest:
        what = "changed by hand, or by a merge: it does not have the digest that it names"
        yield Drift(path, "edited", what, f"{repair}, or ship from the specs again")
    elif plain != canonical:
        diff = text_diff(plain, canonical, path)
        yield Drift(path, "edited", "not as kgen writes it", _ship(folder), diff)
    elif plain != actual:
        yield _line_endings(path, _ship(folder))


def _orphans(folder: Path, lock: Lock) -> Iterator[Drift]:
    for path in sorted(files_below(folder)):
        name = path.relative_to(folder).as_posix()
        if name in lock.files or path.suffix not in _SUFFIXES or not path.is_file():
            continue
        if MARK in read_regular(path, 200).decode("utf-8", "replace"):
            yield Drift(path, "orphan", f"{LOCK_NAME} does not list it", shell_command("rm", path))
