"""Files as kgen reads and writes them: regular files, bounded reads, writes of all or nothing.

Everything here raises OSError that carries the path; the command line turns it into a text.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def read_regular(path: Path, most: int) -> bytes:
    """The first `most` bytes of a regular file and one more, if there are more.

    Raises  OSError for a folder, a device, a pipe or what is no file name; none of them can hang
    """
    try:
        # Opening a pipe waits for its writer without O_NONBLOCK.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # half a character, or a NUL
        raise OSError(errno.EINVAL, "not a file name", ascii(str(path))) from error
    with open(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most + 1)


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, in no order. Raises OSError for a folder that cannot be read."""

    def refuse(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in names)


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place in one step: an interruption or a full disk leaves the old one, or none.

    The folder must exist. A link is replaced, not followed; a device or a pipe is written to.
    """
    if path.exists() and not path.is_file():
        with _named(path), path.open("wb") as file:
            file.write(content)
        return
    partial = path.with_name(f".{path.name[:100]}.{os.getpid()}.partial")
    try:
        with _named(path):
            partial.unlink(missing_ok=True)
            with partial.open("xb") as file:  # "x" does not follow a link that waits there
                file.write(content)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not exist yet. Raises FileExistsError; a failure leaves no file."""
    file = path.open("xb")
    try:
        with _named(path), file:
            file.write(content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """A folder and those above it. Raises OSError "not a folder" where a file is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder)) from error


def require_folder(folder: Path) -> None:
    """Raises OSError where no folder is: "not a folder", or why it cannot be looked at."""
    if not stat.S_ISDIR(folder.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(folder))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An OSError from inside names `path`: a full disk names nothing, a partial file misleads."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
