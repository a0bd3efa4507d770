"""Child processes of the build layer: a scrubbed environment, and no survivor after Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Variables that make a compiler, a linker or Python pick up files other than the ones named on
# the command line. A system toolkit must never be found by accident, so all of them go.
_DROPPED = frozenset(
    {
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "COMPILER_PATH",
        "GCC_EXEC_PREFIX",
        "VIRTUAL_ENV",
        "CICC_PATH",
        "NVVMIR_LIBRARY_DIR",
    }
)
_DROPPED_PREFIXES = ("CUDA_", "NVCC_", "NVRTC_", "PYTHON")


@dataclass(frozen=True)
class Finished:
    """A child that ended: its exit status (negative: the signal that killed it) and its output."""

    status: int
    output: str


@dataclass(frozen=True)
class Compiled:
    """What one compiler run made; data is empty unless ok. seconds: the compiler's own time."""

    ok: bool
    log: str
    data: bytes
    seconds: float


def scrubbed_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a compiler process; PATH stays, for the host compiler's own helpers."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES)
    }
    return kept | dict(extra or {})


def kill_group(child: subprocess.Popen) -> None:
    """Kill a child that leads its own process group, with all it started, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    timeout: float | None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run a command to its end; stdout and stderr together.

    Units   timeout in seconds; None waits for ever
    Raises  TimeoutError after killing the whole process group; OSError if it cannot start
    """
    child = subprocess.Popen(
        [str(part) for part in command],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Its own group: the terminal's Ctrl-C reaches kgen alone, which then kills the group.
        start_new_session=True,
    )
    try:
        if on_line is None:
            output, _ = child.communicate(timeout=timeout)
            return Finished(child.returncode, output)
        lines = []
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line)
            on_line(line.rstrip("\n"))
        return Finished(child.wait(), "".join(lines))
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"no result after {timeout:g} s") from error
    finally:
        if child.poll() is None:
            kill_group(child)
        if child.stdout is not None:
            child.stdout.close()
