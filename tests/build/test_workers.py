"""Workers that die, hang or are interrupted, and many builds at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from provoke import SLOW, TINY

from kgen.build import pool, toolchain
from kgen.build.compile import compile_source
from kgen.errors import CompileError

ROOT = Path(__file__).parents[2]


def build(source: str = TINY, **options):
    return compile_source(source, name="tiny", target="sm_90a", **options)


def only_worker() -> pool.Worker:
    """The one worker of this process; waits for it to appear."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        alive = [worker for worker in list(pool._started) if worker.alive()]
        if alive:
            assert len(alive) == 1
            return alive[0]
        time.sleep(0.01)
    raise AssertionError("no worker started")


def test_a_killed_worker_is_an_error_and_the_next_request_gets_a_new_one(fresh_workers):
    build()
    victim = only_worker()
    killer = threading.Timer(0.5, os.kill, (victim.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(CompileError, match="died while compiling it .signal 9"):
        build(SLOW)
    killer.join()
    assert build(TINY + "//").data
    assert only_worker() is not victim


def test_an_idle_worker_that_died_is_replaced(fresh_workers):
    build()
    victim = only_worker()
    os.kill(victim.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert build(TINY + "//").data


def test_a_hanging_compilation_is_stopped(fresh_workers):
    build()
    pid = only_worker().pid
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"did not finish in 0\.5 s"):
        build(SLOW, timeout=0.5)
    assert time.monotonic() - start < 5
    assert not Path(f"/proc/{pid}").exists()
    assert build(TINY + "//").data


def test_a_hanging_nvcc_is_stopped_with_its_children(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(CompileError, match=r"did not finish in 3 s"):
        build(SLOW, compiler="nvcc", timeout=3)
    assert running_with(str(toolchain.locate().toolkit) + "/") == []


def running_with(text: str, besides: tuple[int, ...] = ()) -> list[int]:
    """Processes, zombies aside, whose command line holds this text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in command and int(folder.name) not in (os.getpid(), *besides):
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    ("compiler", "number"),
    [
        ("nvrtc", signal.SIGINT),
        ("nvrtc", signal.SIGTERM),
        ("nvrtc", signal.SIGKILL),
        ("nvcc", signal.SIGINT),  # a killed kgen cannot stop its nvcc
    ],
)
def test_an_interrupted_kgen_leaves_no_process_and_no_file(
    fresh_workers, compiler, number, own_cache: Path, tmp_path: Path
):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "slow.cu").write_text(SLOW)
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        f"source = open({str(tmp_path / 'slow.cu')!r}).read()\n"
        f"compile_source(source, name='slow', target='sm_90a', compiler={compiler!r})\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    toolkit = str(toolchain.locate().toolkit)
    child = subprocess.Popen(
        [sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: running_with(toolkit, (child.pid,)) != [])
    time.sleep(1.0)  # well inside the compilation
    child.send_signal(number)
    _, errors = child.communicate(timeout=10)
    assert child.returncode == -number, errors
    wait_until(lambda: running_with(toolkit) == [])
    assert [path for path in own_cache.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def wait_until(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# Many at once


def test_several_processes_build_the_same_sources(own_cache: Path):
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        "for i in range(4):\n"
        "    s = f'extern \"C\" __global__ void k(int* p) {{ *p = {i}; }}'\n"
        "    print(compile_source(s, name='k', target='sm_90a').path)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = {child.communicate(timeout=120)[0] for child in children}
    assert [child.returncode for child in children] == [0] * 4
    assert len(outputs) == 1
    paths = outputs.pop().split()
    assert len(set(paths)) == 4
    entries = [path for path in own_cache.glob("artifacts/*/*") if path.is_dir()]
    assert sorted(str(path.parent) for path in map(Path, paths)) == sorted(map(str, entries))


def test_threads_share_the_workers(fresh_workers):
    results: dict[int, bytes] = {}

    def work(number: int) -> None:
        results[number] = build(TINY.replace("1.f", f"{number}.f")).data

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(set(results.values())) == 6


def test_a_forked_child_uses_its_own_worker(tmp_path: Path):
    script = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        "def build(i):\n"
        "    s = f'extern \"C\" __global__ void k(int* p) {{ *p = {i}; }}'\n"
        "    return compile_source(s, name='k', target='sm_90a').data\n"
        "build(0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    ok = all(build(i) for i in range(1, 6))\n"
        "    os._exit(0 if ok else 1)\n"
        "assert all(build(i) for i in range(11, 16))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_forked_child_does_not_keep_its_parents_worker_alive(tmp_path: Path):
    script = (
        f"import os, signal, sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build import pool\n"
        "from kgen.build.compile import compile_source\n"
        f"compile_source({TINY!r}, name='tiny', target='sm_90a')\n"
        "(worker,) = pool._started\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    time.sleep(60)\n"
        "    os._exit(0)\n"
        "print(worker.pid, child, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    output = tmp_path / "pids"
    with output.open("w") as file:
        subprocess.run([sys.executable, "-c", script], check=False, stdout=file, timeout=60)
    worker, child = map(int, output.read_text().split())
    try:
        wait_until(lambda: worker not in running_with(str(toolchain.locate().toolkit)))
        assert child in running_with("os.fork")
    finally:
        os.kill(child, signal.SIGKILL)
