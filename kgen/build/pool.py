"""Client side of the NVRTC workers: start, ask, time out, kill, start again.

Threads may ask at once; each busy worker serves one request, and idle ones are reused.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import itertools
import json
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.build import process
from kgen.build.process import Compiled
from kgen.build.toolchain import INSTALL_COMMAND, Toolchain
from kgen.errors import CompileError, ToolchainError

_SCRIPT = Path(__file__).with_name("worker.py")
_START_SECONDS = 120.0  # a cold disk reads 60 MB of NVRTC first
_ids = itertools.count(1)


class Worker:
    """One process of the toolchain's Python that runs NVRTC.

    Raises  ToolchainError if it does not start, or loads an NVRTC other than the toolchain's
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by abandon()
        self._buffer = b""
        try:
            self._child = subprocess.Popen(
                # -I: no user site, no PYTHON* variables, no script folder; -B: write no bytecode
                [toolchain.python, "-I", "-B", _SCRIPT, toolchain.toolkit],
                env=process.scrubbed_env(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,  # nothing unsent that a forked child could send again
                start_new_session=True,
            )
        except OSError as error:
            self._stderr.close()
            raise ToolchainError(
                f"the compiler process does not start: {error}; run: {INSTALL_COMMAND}"
            ) from error
        _started.add(self)
        try:
            self._greet(toolchain)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def request(
        self, source: str, name: str, flags: Sequence[str], emit: str, timeout: float
    ) -> Compiled:
        """Compile one source text. On any error this worker is closed and must not be used again.

        Units   timeout in seconds
        Raises  CompileError if the process dies or does not answer in time
        """
        number = next(_ids)
        message = {"id": number, "source": source, "name": name, "flags": list(flags), "emit": emit}
        try:
            reply = self._exchange(message, timeout)
            if reply.get("id") != number:
                raise CompileError(f"{name}: the compiler process answered another request")
        except TimeoutError as error:
            self.close()
            raise CompileError(
                f"{name}: the compiler did not finish in {timeout:g} s and was stopped"
            ) from error
        except (OSError, EOFError, ValueError) as error:
            said = self._last_words()
            self.close()
            raise CompileError(
                f"{name}: the compiler process died while compiling it ({self._death()})", said
            ) from error
        except BaseException:
            self.close()
            raise
        data = base64.b64decode(reply["data"])
        return Compiled(reply["ok"], reply["log"], data, reply["seconds"])

    def close(self) -> None:
        """End the process and reap it; safe to call twice."""
        process.kill_group(self._child)
        self.abandon()

    def abandon(self) -> None:
        """Close this side's files only: in a forked child the process belongs to the parent."""
        for stream in (self._child.stdin, self._child.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def alive(self) -> bool:
        return self._child.poll() is None

    def _greet(self, toolchain: Toolchain) -> None:
        try:
            hello = self._read_line(_START_SECONDS)
        except (TimeoutError, EOFError, OSError, ValueError) as error:
            raise ToolchainError(
                f"the compiler process does not answer; run: {INSTALL_COMMAND}\n"
                f"{self._last_words()}"
            ) from error
        if not hello.get("ready"):
            raise ToolchainError(
                f"the compiler process does not work: {hello.get('error')}; run: {INSTALL_COMMAND}"
            )
        inside = toolchain.toolkit.resolve()
        for library in hello["libraries"]:
            if not Path(library).resolve().is_relative_to(inside):
                raise ToolchainError(
                    f"the compiler process loaded {library}, which is not in {inside}"
                )
        if not hello["libraries"] or not toolchain.release.startswith(hello["nvrtc"] + "."):
            raise ToolchainError(
                f"the compiler process reports NVRTC {hello['nvrtc']} from {hello['libraries']}, "
                f"not {toolchain.release}; run: {INSTALL_COMMAND}"
            )

    def _exchange(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        assert self._child.stdin is not None
        unsent = memoryview(json.dumps(message).encode() + b"\n")
        while unsent:
            unsent = unsent[self._child.stdin.write(unsent) :]
        return self._read_line(timeout)

    def _read_line(self, timeout: float) -> dict[str, Any]:
        assert self._child.stdout is not None
        handle = self._child.stdout.fileno()
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                chunk = os.read(handle, 1 << 20)
                if not chunk:
                    raise EOFError
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-4000:]

    def _death(self) -> str:
        status = self._child.returncode
        return f"signal {-status}" if status < 0 else f"exit status {status}"


_lock = threading.Lock()
_idle: dict[Toolchain, list[Worker]] = {}
_started: weakref.WeakSet[Worker] = weakref.WeakSet()  # idle and busy, for the fork handler


def compile_text(
    toolchain: Toolchain, source: str, name: str, flags: Sequence[str], emit: str, timeout: float
) -> Compiled:
    """Compile through an idle worker, or a new one. See Worker.request for what it raises."""
    worker = _take(toolchain) or Worker(toolchain)
    answer = worker.request(source, name, flags, emit, timeout)
    with _lock:
        _idle.setdefault(toolchain, []).append(worker)
    return answer


def close_all() -> None:
    """End every idle worker; busy ones belong to the thread that asked."""
    with _lock:
        workers = [worker for group in _idle.values() for worker in group]
        _idle.clear()
    for worker in workers:
        worker.close()


def interrupt() -> None:
    """Kill every worker, busy ones too: a thread that waits for one gets CompileError at once."""
    for worker in list(_started):
        if worker.alive():  # a reaped one's number may belong to somebody else
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)


def _take(toolchain: Toolchain) -> Worker | None:
    with _lock:
        idle = _idle.get(toolchain, [])
        while idle:
            worker = idle.pop()
            if worker.alive():
                return worker
            worker.close()
    return None


def _forget_after_fork() -> None:
    """A forked child must neither share its parent's workers nor keep their pipes open."""
    global _lock
    _lock = threading.Lock()
    for worker in list(_started):
        worker.abandon()
    _started.clear()
    _idle.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_after_fork)
