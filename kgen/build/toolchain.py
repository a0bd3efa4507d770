"""The private compiler environment: a venv under the cache folder, pinned by toolchain.lock.

kgen never imports it. Its folder is named by the lock file's digest and the machine, so a changed
pin gives a new environment and the old one stays usable by an older kgen.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kgen.build import cache, process
from kgen.errors import ToolchainError

LOCK_FILE = Path(__file__).with_name("toolchain.lock")
INSTALL_COMMAND = "kgen toolchain install"
_MARKER = "installed.json"  # written last: a folder without it is an interrupted installation
# pip settings that would send the wheels elsewhere or change which ones are chosen. The index,
# proxy and certificate settings of the user stay.
_PIP_DROPPED = frozenset(
    f"PIP_{option}"
    for option in (
        *("USER", "TARGET", "PREFIX", "ROOT", "CONSTRAINT", "BUILD_CONSTRAINT", "REQUIREMENT"),
        *("PYTHON", "NO_BINARY", "PLATFORM", "DRY_RUN", "REPORT", "EDITABLE", "QUIET"),
    )
)


@dataclass(frozen=True)
class Lock:
    """What toolchain.lock pins.

    Units   download_bytes: all wheels of one machine type; installed_bytes: on disk, about
    """

    digest: str
    pins: dict[str, str]
    download_bytes: dict[str, int]
    installed_bytes: int

    @property
    def release(self) -> str:
        """The compiler release, for example 13.5.37."""
        return self.pins["nvidia-cuda-nvcc"]

    def identity(self, compiler: str) -> str:
        """Name of "nvrtc" or "nvcc" of this lock file in cache keys; needs nothing installed."""
        return f"{compiler} {self.release} lock {self.digest}"


@dataclass(frozen=True)
class Toolchain:
    """An installed environment: `home` is the venv, `toolkit` its folder of bin, include, lib."""

    home: Path
    python: Path
    toolkit: Path

    @property
    def release(self) -> str:
        return lock().release

    @property
    def nvcc(self) -> Path:
        return self.toolkit / "bin" / "nvcc"

    @property
    def nvdisasm(self) -> Path:
        return self.toolkit / "bin" / "nvdisasm"


@dataclass(frozen=True)
class Status:
    """What `status` found: state is "installed", "missing", "broken" or "unsupported"."""

    state: str
    home: Path
    release: str
    digest: str
    download_bytes: int
    installed_bytes: int
    problem: str = ""
    pins: dict[str, str] = field(default_factory=dict)


@functools.cache
def lock() -> Lock:
    """toolchain.lock, parsed. The digest covers pins and hashes, not comments."""
    pins: dict[str, str] = {}
    sizes: dict[str, int] = {}
    installed = 0
    digest = hashlib.sha256()
    for line in LOCK_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            if match := re.match(r"# download_bytes (\w+) (\d+)", line):
                sizes[match[1]] = int(match[2])
            elif match := re.match(r"# installed_bytes (\d+)", line):
                installed = int(match[1])
            continue
        digest.update(line.strip().encode() + b"\n")
        if match := re.match(r"([\w-]+)==([\w.]+)", line):
            pins[match[1]] = match[2]
    return Lock(digest.hexdigest()[:12], pins, sizes, installed)


def home() -> Path:
    """The venv: <digest>-<machine> in KGEN_TOOLCHAIN_DIR, else in the cache's toolchain folder."""
    chosen = os.environ.get("KGEN_TOOLCHAIN_DIR")
    parent = Path(chosen).absolute() if chosen else cache.root() / "toolchain"
    return parent / f"{lock().digest}-{platform.machine()}"


def status() -> Status:
    """State of the environment on this machine; changes nothing."""
    pinned = lock()
    state, problem = "installed", ""
    if platform.machine() not in pinned.download_bytes or sys.platform != "linux":
        state, problem = "unsupported", _unsupported()
    elif not (home() / _MARKER).is_file():
        state, problem = "missing", f"no compilers in {home()}"
    else:
        try:
            _read(home())
        except ToolchainError as error:
            state, problem = "broken", str(error)
    return Status(
        state,
        home(),
        pinned.release,
        pinned.digest,
        pinned.download_bytes.get(platform.machine(), 0),
        pinned.installed_bytes,
        problem,
        dict(pinned.pins),
    )


def locate() -> Toolchain:
    """The installed environment.

    Raises  ToolchainError, naming the command that mends it, if it is missing or damaged
    """
    found = status()
    if found.state == "installed":
        return _read(found.home)
    if found.state == "unsupported":
        raise ToolchainError(found.problem)
    raise ToolchainError(f"{found.problem}; run: {INSTALL_COMMAND}")


def install(progress: Callable[[str], None] = print) -> Toolchain:
    """Make the environment if it is not there; quick when it is.

    Two installers at once are safe: the second waits for the first and then finds its work.
    progress gets one plain line per step, the first of which says what is downloaded and how much.

    Raises  ToolchainError with pip's last lines if a wheel cannot be had, or the result fails
    """
    found = status()
    if found.state == "unsupported":
        raise ToolchainError(found.problem)
    if found.state == "installed":
        progress(f"toolchain {found.release}: already installed in {found.home}")
        return _read(found.home)
    try:
        with _exclusive(found.home.with_name(found.home.name + ".lock"), progress):
            if status().state != "installed":
                _build(found, progress)
            return _read(found.home)
    except OSError as error:
        raise ToolchainError(
            f"{found.home}: the toolchain cannot be installed: {error}; "
            "set KGEN_TOOLCHAIN_DIR or KGEN_CACHE to a folder with room"
        ) from error


def _build(plan: Status, progress: Callable[[str], None]) -> None:
    progress(
        f"toolchain {plan.release}: downloading {len(plan.pins)} wheels, "
        f"{plan.download_bytes / 1e6:.0f} MB, from pip's package index into {plan.home} "
        f"({plan.installed_bytes / 1e6:.0f} MB on disk)"
    )
    if shutil.disk_usage(plan.home.parent).free < plan.installed_bytes + plan.download_bytes:
        raise OSError("not enough free disk space")
    shutil.rmtree(plan.home, ignore_errors=True)
    # Not VIRTUAL_ENV's pip: the venv module gives the environment its own, from this Python.
    env = {k: v for k, v in process.scrubbed_env().items() if k not in _PIP_DROPPED}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    python = plan.home / "bin" / "python"
    pip = [python, "-I", "-m", "pip", "install", "--no-input", "--progress-bar=off"]
    pins = ["--require-hashes", "--no-deps", "--only-binary=:all:", "-r", LOCK_FILE]
    try:
        _step([sys.executable, "-I", "-m", "venv", plan.home], env, "creating the venv", progress)
        _step([*pip, *pins], env, "pip", progress)
        _prove(plan.home)
        site = _site_packages(plan.home)
        marker = {"digest": plan.digest, "site": str(site.relative_to(plan.home))}
        draft = plan.home / (_MARKER + ".draft")
        draft.write_text(json.dumps(marker) + "\n", encoding="utf-8")
        draft.rename(plan.home / _MARKER)
    except BaseException:
        shutil.rmtree(plan.home, ignore_errors=True)
        raise
    progress(f"toolchain {plan.release}: installed")


def _step(command: list, env: dict[str, str], what: str, progress: Callable[[str], None]) -> None:
    def show(line: str) -> None:
        words = line.split()
        if words and words[0] in ("Downloading", "Using", "Installing"):
            progress("  " + " ".join(words)[:160])

    done = process.run(command, env=env, timeout=None, on_line=show)
    if done.status:
        lines = [line for line in done.output.splitlines() if not line.startswith("WARNING")]
        tail = "\n".join("    " + line for line in lines[-12:])
        hint = ""
        if "ensurepip" in done.output:
            hint = "\n    fix: install the venv module of this Python (Debian: python3-venv)"
        raise ToolchainError(f"the toolchain cannot be installed: {what} failed\n{tail}{hint}")


def _prove(venv: Path) -> None:
    """Let a worker compile one empty kernel before the marker says that all is well."""
    from kgen.build import pool  # pool needs this module's Toolchain

    worker = pool.Worker(_describe(venv, _site_packages(venv)))
    try:
        source = 'extern "C" __global__ void probe() {}'
        answer = worker.request(source, "probe", ["--gpu-architecture=sm_90a"], "cubin", 120.0)
        if not answer.ok:
            raise ToolchainError(f"the new toolchain does not compile:\n{answer.log}")
    finally:
        worker.close()


def _site_packages(venv: Path) -> Path:
    found = sorted(venv.glob("lib/python3*/site-packages"))
    if not found:
        raise ToolchainError(f"{venv}: no site-packages folder")
    return found[0]


def _read(venv: Path) -> Toolchain:
    """The environment a marker describes, after checking that its main files are still there."""
    try:
        marker = json.loads((venv / _MARKER).read_text(encoding="utf-8"))
        found = _describe(venv, venv / marker["site"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ToolchainError(f"{venv}: unreadable toolchain marker: {error}") from error
    # venv/bin/python is a link to the Python that made it, which may have been removed since.
    for needed in (found.python, found.nvcc, found.nvdisasm, found.toolkit / "lib"):
        if not needed.exists():
            raise ToolchainError(f"the toolchain is damaged: {needed} is missing")
    return found


def _describe(venv: Path, site: Path) -> Toolchain:
    return Toolchain(venv, venv / "bin" / "python", site / "nvidia" / "cu13")


def _unsupported() -> str:
    machines = " or ".join(sorted(lock().download_bytes))
    return (
        f"kgen's toolchain needs Linux on {machines}, this is {platform.system()} on "
        f"{platform.machine()}; use --toolchain with the path of an installed CUDA toolkit"
    )


@contextmanager
def _exclusive(path: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file; the kernel frees it when its holder ends, however that happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("toolchain: waiting for another kgen that is installing it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
