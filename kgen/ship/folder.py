"""Writing a shipped folder: whole files, the lock last, and nothing of anybody else's touched."""

from __future__ import annotations

from pathlib import Path

from kgen.errors import KgenError
from kgen.files import make_folder, write_whole
from kgen.ship.lock import LOCK_NAME, Lock, digest, dump_lock, load_lock
from kgen.ship.package import texts


def write(lock: Lock, folder: Path) -> dict[str, str]:
    """Write everything that a lock describes; file name to `written`, `unchanged` or `removed`.

    A file of an earlier shipment that the new one lacks is removed, unless it was edited.
    Raises  KgenError, before anything is written, if the folder is not empty and holds no lock, or
        a file that the earlier shipment did not bring has the name of one of this; OSError if the
        folder cannot be written
    """
    files = texts(lock)
    old = _earlier(folder)
    known = set(old.files) | {LOCK_NAME} if old else set()
    for name in (*files, LOCK_NAME):
        path = folder / name
        if path.is_symlink():
            raise KgenError(f"{path}: a symbolic link; kgen does not write through it")
        if path.exists() and name not in known:
            raise KgenError(f"{path}: not of an earlier shipment; move it away, or ship elsewhere")
    make_folder(folder)
    states = {name: _put(folder / name, text) for name, text in files.items()}
    for name in sorted(set(old.files) - set(files) if old else ()):
        states[name] = _remove(folder / name, old.files[name] if old else "")
    states[LOCK_NAME] = _put(folder / LOCK_NAME, dump_lock(lock.with_files(files)))
    return states


def _earlier(folder: Path) -> Lock | None:
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    if not (folder / LOCK_NAME).exists():
        raise KgenError(
            f"{folder}: not empty, and holds no {LOCK_NAME}; ship into a folder of its own"
        )
    return load_lock(folder)


def _put(path: Path, text: str) -> str:
    if path.is_file() and path.read_bytes() == text.encode():
        return "unchanged"
    write_whole(path, text.encode())
    return "written"


def _remove(path: Path, shipped: str) -> str:
    """Remove a file that is as it was shipped; an edited one is somebody's now."""
    if not path.is_file():
        return "removed"
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    if digest(text) != shipped:
        return "kept, because it was edited"
    path.unlink()
    return "removed"
