"""Whole sweeps: real compilations, real child processes, and a GPU that exists in name only.

Kernels hang, die, read wild or do not compile; sweeps are interrupted and started again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes
from conftest import F32, ROOT, V6, changed
from sweep_fakes import ABORTS, HANGS, ILLEGAL, WRONG

from kgen.build import cache, toolchain
from kgen.emu.report import Coverage, Finding, Report, judge
from kgen.errors import DeviceError, EmulatorError, KgenError, ToolchainError
from kgen.render import Rendered
from kgen.sweep import built, emulated, session, winners
from kgen.sweep.candidate import Candidate, Job, Outcome, prepare
from kgen.sweep.child import Child, Stopped
from kgen.sweep.gpus import find_gpus
from kgen.sweep.lanes import Work
from kgen.sweep.listing import rows_of
from kgen.sweep.load import Sweep, load_sweep
from kgen.sweep.progress import Estimate, PlainWatch
from kgen.sweep.queries import cells_of
from kgen.sweep.session import Session
from kgen.sweep.space import Point, points_of
from kgen.sweep.store import Store
from kgen.sweep.watch import Watch
from kgen.verify.emulator import EmulatedCase
from kgen.verify.shapes import Shape

PROBLEMS = "[[512, 512, 128], {name: large, m: 1024, n: 1024, k: 128}]"
AT_ONCE = 3.0  # seconds; it takes half of one, and more where other work keeps the cores busy
QUICK = "finals: {keep: 2, rounds: 3, cooldown_s: 0}\ntimeouts: {screen_s: 2, finals_s: 5}\n"


@pytest.fixture
def sweep_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A sweep over raster groups of a small f32 kernel; what runs is logged."""
    head = V6.split("verify:")[0]
    text = changed(F32 | {"n: 256": "n: 64", "stages: 3": "stages: 2"}, head)
    (tmp_path / "base.yaml").write_text(text)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FAKE_BUS", f"0000:{os.getpid() % 256:02x}:00.0")

    def load(groups: list[int], rest: str = QUICK) -> Sweep:
        axes = f"axes: {{schedule.raster.group: {groups}}}"
        file = tmp_path / "tiny.sweep.yaml"
        file.write_text(f"base: base.yaml\n{axes}\nproblems: {PROBLEMS}\n{rest}")
        return load_sweep(file)

    return load


class Steps(Watch):
    """Counts what a session says."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.totals: dict[str, int] = {}
        self.notes: list[str] = []

    def phase(self, name: str, total: int) -> None:
        self.totals[name] = total
        self.counts[name] = Counter()

    def step(self, status: str) -> None:
        list(self.counts.values())[-1][status] += 1

    def note(self, text: str) -> None:
        self.notes.append(text)


def run(sweep: Sweep, results: Path, **options: Any) -> Steps:
    """One start on the imaginary GPU."""
    watch = Steps()
    options = {"on": "gpu", "work": sweep_fakes.WORK} | options
    assert Session(sweep, results, watch=watch, **options).run() == "done"
    return watch


def statuses(results: Path, name: str = "tiny") -> dict[int, str]:
    """Raster group to status."""
    with Store.read(results) as store:
        return {c.axes["schedule.raster.group"]: c.status for c in cells_of(store, name)}


def logged(tmp_path: Path) -> list[str]:
    """What ran in children since the last call, process numbers left out."""
    log = tmp_path / "log"
    lines = [line.split(" ", 1)[1] for line in log.read_text().splitlines()] if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


# --- kernels that do harm


def test_each_misbehaving_kernel_gets_its_own_status_and_a_restart_repeats_nothing(
    sweep_of, tmp_path: Path, monkeypatch
) -> None:
    """A hang, a dead process, an illegal access, wrong values, a compile error; two good ones."""
    broken = 3

    def planted(point: Point) -> Candidate:
        found = prepare(point)
        if point.values["schedule.raster.group"] != broken:
            return found
        source = found.rendered.source + "#error planted\n"
        return replace(found, rendered=Rendered(found.rendered.name, source, ""))

    monkeypatch.setattr(built, "prepare", planted)
    sweep = sweep_of([1, HANGS, ABORTS, ILLEGAL, WRONG, broken, 2])
    first = run(sweep, tmp_path / "r.sqlite")
    assert statuses(tmp_path / "r.sqlite") == {
        1: "timed",
        HANGS: "hung",
        ABORTS: "crashed",
        ILLEGAL: "crashed",
        WRONG: "wrong",
        broken: "compile_failed",
        2: "timed",
    }
    with Store.read(tmp_path / "r.sqlite") as store:
        reasons = {
            c.axes["schedule.raster.group"]: c.reason for c in cells_of(store, "tiny") if c.reason
        }
    assert "no answer in 2 s; its process was stopped" in reasons[HANGS]
    assert "its process died: SIGABRT" in reasons[ABORTS]
    assert "cudaErrorIllegalAddress" in reasons[ILLEGAL]
    assert "#error directive: planted" in reasons[broken]
    assert set(reasons) == {HANGS, ABORTS, ILLEGAL, WRONG, broken}
    assert first.counts["compile"] == {"built": 6, "compile_failed": 1}
    ran = logged(tmp_path)
    assert len([x for x in ran if x.startswith("screen")]) == 4 + 2 * 2
    again = run(sweep, tmp_path / "r.sqlite")
    assert logged(tmp_path) == ["facts"], "nothing but the question which GPU is there"
    assert (again.totals["screen"], again.totals["finals"]) == (0, 0)


def test_a_retry_does_exactly_the_failed_work_again(sweep_of, tmp_path: Path) -> None:
    sweep = sweep_of([1, WRONG])
    run(sweep, tmp_path / "r.sqlite")
    logged(tmp_path)
    run(sweep, tmp_path / "r.sqlite", retry=("wrong",))
    screens = [x for x in logged(tmp_path) if x.startswith("screen")]
    name = next(p.loaded.spec.name for p in points_of(sweep)[1:] if p.loaded)
    assert screens == [f"screen {name} (512, 512, 128)"]
    assert not list(tmp_path.glob("r.sqlite?*")), "the results file stands alone"


def test_what_changed_is_run_again_and_nothing_else(sweep_of, tmp_path: Path, monkeypatch) -> None:
    """A changed template: one kernel's code differs. A changed driver: all timings do."""
    sweep = sweep_of([1, 2])
    run(sweep, tmp_path / "r.sqlite")
    logged(tmp_path)

    def changed_template(point: Point) -> Candidate:
        found = prepare(point)
        if point.values["schedule.raster.group"] == 1:
            return found
        source = found.rendered.source + "// a changed template\n"
        return replace(found, rendered=Rendered(found.rendered.name, source, ""))

    monkeypatch.setattr(built, "prepare", changed_template)
    run(sweep, tmp_path / "r.sqlite")
    name = next(p.loaded.spec.name for p in points_of(sweep)[1:] if p.loaded)
    kernels = [x.split()[1] for x in logged(tmp_path) if x.split()[0] in ("screen", "finals")]
    assert kernels == [name] * 4
    newer = Work(newer_driver, *list(vars(sweep_fakes.WORK).values())[1:])
    run(sweep, tmp_path / "r.sqlite", work=newer)
    assert len([x for x in logged(tmp_path) if x.startswith("screen")]) == 4
    run(sweep, tmp_path / "r.sqlite")
    assert logged(tmp_path) == ["facts"], "the older driver's results are still there"


def newer_driver() -> Outcome:
    """The imaginary GPU after an update."""
    found = sweep_fakes.facts()
    return replace(found, value=found.value | {"driver": "4.5.6"})


def test_new_axis_values_run_the_new_points_only(sweep_of, tmp_path: Path) -> None:
    run(sweep_of([1]), tmp_path / "r.sqlite")
    logged(tmp_path)
    run(sweep_of([1, 2]), tmp_path / "r.sqlite")
    assert len([x for x in logged(tmp_path) if x.startswith("screen")]) == 2
    assert statuses(tmp_path / "r.sqlite") == {1: "timed", 2: "timed"}


def test_a_narrower_start_forgets_no_finished_work(sweep_of, tmp_path: Path) -> None:
    sweep, results = sweep_of([1, 2, 4]), tmp_path / "r.sqlite"
    run(sweep, results)
    before = winners(results)
    assert len(before) == 2 and {w.stage for w in before} == {"final"}
    ended = statuses(results)
    run(sweep.within(1, None), results)
    assert statuses(results) == ended
    assert winners(results) == before
    now = iter([0.0] + [1e9] * 1000)
    late = Session(sweep.within(None, 1.0), results, on="none", clock=lambda: next(now))
    assert late.run() == "out of time"
    assert winners(results) == before


def test_work_on_another_base_is_not_that_of_a_point(sweep_of, tmp_path: Path) -> None:
    sweep, results = sweep_of([1, 2]), tmp_path / "r.sqlite"
    run(sweep, results)
    base = sweep.path.with_name("base.yaml")
    base.write_text(changed({"n: 64": "n: 128"}, base.read_text()))
    run(load_sweep(sweep.path).within(1, None), results)
    assert sorted(statuses(results).values()) == ["pending", "timed"]


# --- interruption, in a process of its own


def start(tmp_path: Path, sweep: Sweep, **environment: str) -> subprocess.Popen:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    return subprocess.Popen(
        [sys.executable, ROOT / "tests" / "sweep_fakes.py", sweep.path, tmp_path / "r.sqlite"],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def interrupt(child: subprocess.Popen) -> float:
    """Ctrl-C; seconds until everything is gone."""
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=20)
    assert child.returncode == 130, output
    return time.monotonic() - began


def wait_for(condition: Any, what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no sign of {what} in {seconds} s"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Processes below one, from /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found += [int(status.parent.name), *children_of(int(status.parent.name))]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_in_a_hung_kernel_answers_at_once(sweep_of, tmp_path: Path) -> None:
    """The restart repeats nothing that was recorded, and does the rest."""
    sweep = sweep_of([1, HANGS, 2], QUICK.replace("screen_s: 2", "screen_s: 100"))
    child = start(tmp_path, sweep)
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and log.read_text().count("screen") == 2, "the second kernel")
    below = children_of(child.pid)
    assert below
    assert interrupt(child) < AT_ONCE
    wait_for(lambda: not any(map(alive, below)), "the end of every child", 3)
    assert statuses(tmp_path / "r.sqlite")[1] == "screened"
    logged(tmp_path)
    run(sweep_of([1, HANGS, 2]), tmp_path / "r.sqlite")
    screens = Counter(x.split(" ", 1)[1] for x in logged(tmp_path) if x.startswith("screen"))
    name = next(p.loaded.spec.name for p in points_of(sweep) if p.loaded)
    assert f"{name} (512, 512, 128)" not in screens and max(screens.values()) == 1
    assert statuses(tmp_path / "r.sqlite") == {1: "timed", HANGS: "hung", 2: "timed"}


def test_ctrl_c_while_compiling_answers_at_once(sweep_of, tmp_path: Path) -> None:
    sweep = sweep_of(list(range(1, 33)))
    home = toolchain.home().parent
    child = start(tmp_path, sweep, KGEN_CACHE=str(tmp_path / "cold"), KGEN_TOOLCHAIN_DIR=str(home))

    def done() -> int:
        if not (tmp_path / "r.sqlite").exists():
            return 0
        try:
            with Store.read(tmp_path / "r.sqlite") as store:
                return len(store.rows("SELECT * FROM build"))
        except KgenError:  # it is just being made
            return 0

    wait_for(lambda: done() >= 3, "three builds")
    below = children_of(child.pid)
    assert below
    assert interrupt(child) < AT_ONCE
    wait_for(lambda: not any(map(alive, below)), "the end of every compiler", 3)
    assert 3 <= done() < 32
    with Store.read(tmp_path / "r.sqlite") as store:
        assert [r["outcome"] for r in store.rows("SELECT * FROM start")] == ["interrupted"]
    assert not list(tmp_path.glob("r.sqlite?*")), "the results file stands alone"


def test_two_sweeps_at_once_on_one_file(sweep_of, tmp_path: Path) -> None:
    """The second is told who is there; the first goes on and loses nothing."""
    sweep = sweep_of([1, HANGS], QUICK.replace("screen_s: 2", "screen_s: 100"))
    child = start(tmp_path, sweep)
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and "screen" in log.read_text(), "the first kernel")
    with pytest.raises(KgenError, match=rf"in use by another kgen sweep \(process {child.pid}\)"):
        run(sweep, tmp_path / "r.sqlite")
    with pytest.raises(DeviceError, match=rf"timing on it \(process {child.pid}\)"):
        run(sweep, tmp_path / "other.sqlite")
    assert child.poll() is None
    interrupt(child)


# --- machines that lack something


def test_built_here_and_timed_where_no_compiler_is(sweep_of, tmp_path: Path, monkeypatch) -> None:
    """Cache and results file are carried; nothing is compiled, and the lost stay lost."""
    here, there = tmp_path / "here", tmp_path / "there"
    home = toolchain.home().parent
    monkeypatch.setenv("KGEN_CACHE", str(here))
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(home))
    sweep = sweep_of([1, 2])
    built_there = run(sweep, tmp_path / "r.sqlite", build_only=True)
    assert statuses(tmp_path / "r.sqlite") == {1: "built", 2: "built"} and not logged(tmp_path)
    assert built_there.counts["compile"] == {"built": 2}
    shutil.copytree(here / "artifacts", there / "artifacts")
    monkeypatch.setenv("KGEN_CACHE", str(there))
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path / "no toolchain"))
    assert toolchain.status().state == "missing"
    run(sweep, tmp_path / "r.sqlite")
    assert statuses(tmp_path / "r.sqlite") == {1: "timed", 2: "timed"}
    best = winners(tmp_path / "r.sqlite")
    assert [w.stage for w in best] == ["final", "final"]
    assert cache.root() == there


def test_no_compiler_and_no_cache_is_this_machines_fault(
    sweep_of, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path / "none"))
    with pytest.raises(ToolchainError, match="run: kgen toolchain install"):
        run(sweep_of([1]), tmp_path / "r.sqlite")
    assert statuses(tmp_path / "r.sqlite") == {1: "pending"}
    with Store.read(tmp_path / "r.sqlite") as store:
        assert store.rows("SELECT outcome FROM start")[0][0].startswith("failed: ")


def no_gpu() -> Outcome:
    """What a machine without one answers."""
    return Outcome("none", "no usable GPU: this machine has none")


def test_without_a_gpu_kernels_are_emulated_and_ranked(sweep_of, tmp_path: Path) -> None:
    """The real emulator in a child process, and the static order."""
    sweep = sweep_of([1], QUICK + "rank: {static: [ring_bytes]}\n")
    watch = run(sweep, tmp_path / "r.sqlite", on="auto", work=Work(no_gpu))
    assert statuses(tmp_path / "r.sqlite") == {1: "emulated"}
    assert any("this machine has none; kernels are checked" in text for text in watch.notes)
    best = winners(tmp_path / "r.sqlite")[0]
    assert (best.stage, best.ratio) == ("static", None)
    again = run(sweep, tmp_path / "r.sqlite", on="emulator")
    assert again.totals["emulate"] == 0
    with pytest.raises(DeviceError, match="this machine has none"):
        run(sweep, tmp_path / "r.sqlite", work=Work(no_gpu))


UNKNOWN = 3  # a raster group


def misbehave(job: Job, schedules: tuple[str, ...]) -> Outcome:
    """An emulator that hangs, dies, fails or finds something, by raster group."""
    group = sweep_fakes.group(job)
    if group == HANGS:
        time.sleep(1000)
    if group == ABORTS:
        os.abort()
    if group == ILLEGAL:
        raise RuntimeError("a fault of the emulator's own")
    if group == WRONG:
        return Outcome("emulator_finding", "error: 512x64x128: a race in line 12")
    if group == UNKNOWN:
        raise EmulatorError("no such instruction: foo.sync")
    return Outcome("emulated")


def test_in_the_emulator_too_each_gets_its_own_status(sweep_of, tmp_path: Path) -> None:
    sweep = sweep_of([1, HANGS, ABORTS, ILLEGAL, WRONG, UNKNOWN, 2], "timeouts: {emulate_s: 3}\n")
    run(sweep, tmp_path / "r.sqlite", on="emulator", emulate=misbehave)
    assert statuses(tmp_path / "r.sqlite") == {
        1: "emulated",
        HANGS: "hung",
        ABORTS: "crashed",
        ILLEGAL: "crashed",
        WRONG: "emulator_finding",
        UNKNOWN: "built",
        2: "emulated",
    }
    with Store.read(tmp_path / "r.sqlite") as store:
        rows = rows_of(store, "tiny")
    assert {r["rank"] for r in rows if r["status"] == "emulated"} == {1, 2}
    assert {r["rank"] for r in rows if r["status"] == "built"} == {3}
    assert {r["rank"] for r in rows if r["status"] not in ("emulated", "built")} == {None}
    reasons = {r["reason"] for r in rows if r["status"] == "built"}
    assert reasons == {"not known to the emulator: no such instruction: foo.sync"}


def test_what_the_emulator_does_not_model_is_no_finding() -> None:
    """A case that stopped at an unmodelled instruction left no D to compare."""
    unmodelled = Finding("unmodelled", "incomplete", "no model of foo.sync")
    race = Finding("trap", "error", "trap")

    def judged(*findings: Finding, wrong: int = 0) -> Outcome:
        report = Report("k", ("late",), list(findings), {}, Coverage(), [])
        return emulated._judged(
            [EmulatedCase(Shape(8, 8, 8, 8, 8, 8, "small"), report, wrong, "D")], judge([report])
        )

    assert judged(unmodelled, wrong=64).status == "built"
    assert "no model of foo.sync" in judged(unmodelled, wrong=64).reason
    assert judged(wrong=64).status == "emulator_finding"
    assert judged(race, unmodelled).status == "emulator_finding"
    assert judged().status == "emulated"


def test_kernels_that_the_emulator_does_not_cover_stay_built(sweep_of, tmp_path: Path) -> None:
    sweep = sweep_of([1])
    base = ROOT / "specs/blackwell/bf16.yaml"
    sweep.path.write_text(changed({"base: base.yaml": f"base: {base}"}, sweep.text))
    sweep = load_sweep(sweep.path)
    watch = run(sweep, tmp_path / "r.sqlite", on="auto", work=Work(no_gpu))
    assert statuses(tmp_path / "r.sqlite") == {1: "built"}
    assert any("1 of 1 kernels are not emulated" in text for text in watch.notes)
    with pytest.raises(DeviceError, match="does not cover tcgen05"):
        run(sweep, tmp_path / "r.sqlite", on="emulator")


def test_a_budget_of_time_stops_between_pieces_and_is_resumed(sweep_of, tmp_path: Path) -> None:
    sweep = sweep_of([1, 2, 4])
    now = iter([0.0] * 2 + [1e9] * 1000)
    session = Session(
        sweep.within(None, 1.0), tmp_path / "r.sqlite", "none", clock=lambda: next(now)
    )
    assert session.run() == "out of time"
    assert "pending" in statuses(tmp_path / "r.sqlite").values()
    run(sweep, tmp_path / "r.sqlite", on="none")
    assert set(statuses(tmp_path / "r.sqlite").values()) == {"built"}


@pytest.mark.parametrize("on", ["none", "emulator"])
def test_a_budget_that_ends_while_the_last_piece_runs_is_kept(
    sweep_of, tmp_path: Path, on: str
) -> None:
    """Two compiles, then as many runs of the emulator, begin in time and end after it."""
    begun = 1 + 2 * (1 + (on == "emulator"))  # the session's own look at the clock, one for each
    now = iter([0.0] * begun + [1e9] * 1000)
    sweep = sweep_of([1, 2]).within(None, 1.0)
    options = {"on": on, "emulate": misbehave, "clock": lambda: next(now)}
    assert Session(sweep, tmp_path / "r.sqlite", **options).run() == "done"
    wanted = "emulated" if on == "emulator" else "built"
    assert set(statuses(tmp_path / "r.sqlite").values()) == {wanted}


def test_a_screen_cut_short_has_seen_every_problem_and_leaves_time_to_the_finals(
    sweep_of, tmp_path: Path, monkeypatch
) -> None:
    """A clock that every screen moves by 12 of 60 seconds, of which the finals keep 24."""
    monkeypatch.setattr(session, "VISIT", 1)
    budget = "budget: {minutes: 1, finals_share: 0.4}\nscreen: {reference_every: 1}\n"
    sweep = sweep_of([1, 2, 4, 8], QUICK + budget)
    log = tmp_path / "log"

    def clock() -> float:
        return 12.0 * log.read_text().count("screen ") if log.exists() else 0.0

    options = {"on": "gpu", "work": sweep_fakes.WORK}
    outcome = Session(sweep, tmp_path / "r.sqlite", clock=clock, **options).run()
    assert outcome == "out of time"
    ran = [line.split(" ", 2)[0] for line in logged(tmp_path)]
    assert ran.count("screen") == 3 and ran.count("finals") == 2, "one final for each problem"
    after = run(sweep, tmp_path / "r.sqlite")
    assert after.totals["screen"] == 5, "the next start screens the rest"
    assert set(statuses(tmp_path / "r.sqlite").values()) <= {"screened", "timed"}


# --- children and GPUs


def slow_start() -> Outcome:
    """A process that is never ready."""
    return Outcome("none", "the driver is gone")


def sleep(seconds: float) -> Outcome:
    """Some work."""
    time.sleep(seconds)
    return Outcome("slept", value=os.getpid())


def ready() -> Outcome:
    """A process that can begin."""
    return Outcome("gpu", value={"pid": os.getpid()})


def test_a_child_that_hangs_is_replaced() -> None:
    child = Child((ready, "gpu"))
    try:
        first = child.call(sleep, 0.0, timeout=10).value
        assert child.call(sleep, 0.0, timeout=10).value == first
        began = time.monotonic()
        assert child.call(sleep, 100.0, timeout=0.5).status == "hung"
        assert time.monotonic() - began < 5
        assert child.call(sleep, 0.0, timeout=10).value != first
        wait_for(lambda: not alive(first), "the end of the hung process", 3)
    finally:
        child.close()
    with pytest.raises(Stopped):
        child.call(sleep, 0.0, timeout=1)


def test_a_child_that_cannot_begin_is_the_machines_fault() -> None:
    child = Child((slow_start, "gpu"))
    with pytest.raises(DeviceError, match="the driver is gone"):
        child.call(sleep, 0.0, timeout=10)


def test_a_closed_child_lets_go_of_whoever_waits() -> None:
    import threading

    child = Child((ready, "gpu"))
    child.start()
    seen: list[BaseException] = []

    def wait() -> None:
        try:
            child.call(sleep, 100.0, timeout=100)
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    began = time.monotonic()
    child.close()
    thread.join(5)
    assert time.monotonic() - began < 2 and isinstance(seen[0], Stopped)


def two_gpus() -> Outcome:
    """Two devices; which one a process owns is in its environment."""
    found = sweep_fakes.facts()
    owned = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    name = "Another GPU" if owned == "2" else found.value["name"]
    bus = f"{os.environ['FAKE_BUS'][:-1]}{owned}"
    return replace(found, value=found.value | {"devices": 3, "pci_bus_id": bus, "name": name})


def test_every_gpu_of_a_kind_gets_its_own_process_and_lock(sweep_of, monkeypatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with ExitStack() as locks:
        gpus = find_gpus(replace(sweep_fakes.WORK, facts=two_gpus), locks)
        try:
            assert len(gpus.children) == 2
            assert gpus.notes == (
                "GPU 2 is left out: it is Another GPU, and the others are Imaginary H200: "
                "times do not compare",
            )
            assert len({c.call(sleep, 0.0, timeout=10).value for c in gpus.children}) == 2
        finally:
            for child in gpus.children:
                child.close()


def test_an_estimate_waits_until_it_means_something() -> None:
    now = 0.0
    estimate = Estimate(100, lambda: now)
    for _ in range(4):
        now += 2
        estimate.step()
    assert str(estimate) == "4/100"
    now += 2
    estimate.step()
    assert str(estimate) == "5/100, about 3 min left"


def test_plain_progress_is_a_line_now_and_then(capsys) -> None:
    now = 0.0
    watch = PlainWatch(sys.stdout, lambda: now)
    watch.phase("screen", 30)
    for _ in range(30):
        now += 1
        watch.step("screened")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "screen: 30 to do" and len(lines) == 4
    assert lines[1] == "screen: 10/30, about 20 s left: 10 screened"
    assert lines[-1] == "screen: 30/30 in 30 s: 30 screened"
