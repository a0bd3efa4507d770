"""Screens and finals: drift, throttling, and who is blamed for what. No GPU, no compiler."""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sweep_fakes
from conftest import F32, V6, changed
from hypothesis import given
from hypothesis import strategies as st
from strict_cupy import strict_cupy
from sweep_fakes import ABORTS, HANGS, HANGS_IN_FINALS, ILLEGAL, WRONG, facts, torch_us, us_of

from kgen.bench.baselines import TUNED
from kgen.bench.protocol import Bench, Contestant, Measurement, Settings, measure
from kgen.bench.sampler import Sample, Sampler
from kgen.errors import DeviceError
from kgen.sweep import benches, device
from kgen.sweep.candidate import Built, Job, Outcome, prepare
from kgen.sweep.child import START_SECONDS
from kgen.sweep.drift import reference_at
from kgen.sweep.lanes import Block, Event, Final, Lanes, Work
from kgen.sweep.load import load_sweep
from kgen.sweep.problems import Problem
from kgen.sweep.record import Recorder
from kgen.sweep.space import points_of
from kgen.sweep.store import Store
from kgen.sweep.watch import Watch

READINGS = json.loads(Path(__file__).with_name("h200_windows.json").read_text())["readings"]
KERNEL = READINGS[0]["contestant"]
SMALL, LARGE = Problem(256, 256, 128, "small"), Problem(512, 512, 128, "large")
SCREEN, FINAL = Settings((10,), 3, 0.0, 3), Settings((30,), 5, 0.0, 5)

# --- drift


def test_the_reference_at_a_moment_lies_between_its_timings() -> None:
    readings = [(10.0, 100.0), (20.0, 110.0)]
    assert [reference_at(t, readings) for t in (5, 10, 15, 20, 30)] == [100, 100, 105, 110, 110]
    assert reference_at(99, [(1.0, 7.0)]) == 7


@given(
    st.floats(0.8, 1.2),
    st.floats(-0.02, 0.02),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_a_board_that_slows_down_evenly_changes_no_ratio(speed, slope, moments) -> None:
    """Reference and kernel slow down together; the corrected ratio is the kernel's own."""

    def torch(t: float) -> float:
        return 100 * (1 + slope * t)

    readings = [(0.0, torch(0)), (1.0, torch(1))]
    for t in moments:
        assert reference_at(t, readings) / (torch(t) / speed) == pytest.approx(speed)


# --- throttling, on the windows of h200_windows.json, which says where they are from


def replay(windows: tuple[int, ...]) -> Measurement:
    """The protocol on those windows: same times, same sensors, no board."""
    rows = [row for row in READINGS if row["window"] in windows]
    names = [row["contestant"] for row in rows if row["round"] == 0][: len({*_names(rows)})]
    left = iter(rows)
    samples = iter([row[when] for row in rows for when in ("before", "after")])
    launched: list[str] = []

    def elapsed(body: Callable[[], None]) -> float:
        body()
        row = next(left)
        assert launched[-1] == row["contestant"], "the trace was taken in another order"
        return row["seconds_per_launch"] * row["window"]

    def sample() -> Sample:
        found = next(samples)
        return Sample(**found | {"throttle": tuple(found["throttle"])})

    contestants = [Contestant(x, (lambda x=x: launched.append(x),)) for x in names]
    bench = Bench(elapsed, lambda: None, lambda seconds: None, Sampler(sample))
    rounds = 1 + max(row["round"] for row in rows)
    return measure(contestants[0], contestants[1:], Settings(windows, rounds, 3.0), bench)


def _names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["contestant"] for row in rows]


def of(name: str, window: int) -> list[dict[str, Any]]:
    """Readings of one contestant in windows of one length, by round."""
    found = [r for r in READINGS if (r["contestant"], r["window"]) == (name, window)]
    return sorted(found, key=lambda row: row["round"])


def test_throttling_is_found() -> None:
    """Long windows end on a lower clock; they are kept, and the notes say so."""
    found = replay((30, 100))
    assert len(found.readings) == len(READINGS), "no window is ever dropped"
    fastest = max(row[when]["sm_mhz"] for row in READINGS for when in ("before", "after"))
    slowest = min(row["after"]["sm_mhz"] for row in of("torch.mm", 100))
    assert slowest < 0.9 * fastest, "a trace without throttling shows nothing: record another"
    wanted = f"torch.mm, 100 launches: the SM clock fell to {slowest:.0f} of {fastest:.0f} MHz"
    assert wanted in found.notes
    capped = [r for r in READINGS if "power cap" in (*_reasons(r, "before"), *_reasons(r, "after"))]
    assert (
        f"the driver reported power cap in {len(capped)} of {len(READINGS)} windows" in found.notes
    )
    for window in (30, 100):
        own, torch = (
            [r["seconds_per_launch"] for r in of(x, window)] for x in (KERNEL, "torch.mm")
        )
        ratios = [theirs / ours for ours, theirs in zip(own, torch, strict=True)]
        assert found.ratio("torch.mm", window).median == pytest.approx(statistics.median(ratios))


def _reasons(row: dict[str, Any], when: str) -> list[str]:
    return row[when]["throttle"]


@pytest.mark.parametrize("window", [30, 100])
def test_a_final_keeps_clocks_interval_and_notes(window: int) -> None:
    """What the results file gets of a final: nothing is dropped, whatever the clock did."""
    found, rows = replay((window,)), of(KERNEL, window)
    record = device.final_records(found, 1, (8192, 8192, 8192), {})[0]
    (timed,) = record["timed"]["windows"]
    micro = [1e6 * row["seconds_per_launch"] for row in rows]
    assert timed["timings"][0]["rounds_us"] == pytest.approx(micro)
    assert record["sm_mhz"] == statistics.median(row["after"]["sm_mhz"] for row in rows)
    assert record["low"] <= record["ratio"] <= record["high"]
    assert [r["baseline"] for r in timed["ratios"]] == ["torch.mm", "torch.mm, f16 accumulation"]
    assert (record["reference"], record["ratio"]) == ("torch.mm", timed["ratios"][0]["median"])
    assert record["trace"] == [
        [row[when]["sm_mhz"], row[when]["power_w"], row[when]["throttle"]]
        for row in rows
        for when in ("before", "after")
    ]
    assert record["notes"] == list(found.notes)


def baselines(record: dict[str, Any]) -> list[str]:
    """What a final's record compares with, in order."""
    return [ratio["baseline"] for ratio in record["timed"]["windows"][0]["ratios"]]


def test_kernels_of_one_final_are_paired_with_torch_by_round() -> None:
    """A second finalist that equals torch.mm in every round is undecided, never faster."""
    found = replay((30,))
    same = device.final_records(found, 2, (8192, 8192, 8192), {})
    assert [baselines(r) for r in same] == [["torch.mm, f16 accumulation"]] * 2
    pairs = zip(of("torch.mm, f16 accumulation", 30), of("torch.mm", 30), strict=True)
    ratios = [x["seconds_per_launch"] / y["seconds_per_launch"] for x, y in pairs]
    assert same[1]["ratio"] == pytest.approx(statistics.median(ratios))


# --- lanes: a child that runs its work in this process


class Inline:
    """Stands in for a process: a hang and a death are told by raster group, as the fakes do."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.patience: dict[str, float] = {}
        self.closed = False

    def call(self, work: Callable[..., Outcome], *arguments: Any, timeout: float) -> Outcome:
        name = work.__name__
        jobs = arguments[0] if name == "finals" else arguments[:1]
        groups = {sweep_fakes.group(job) for job in jobs}
        self.calls.append(f"{name} {sorted(groups)}")
        self.patience[name] = timeout
        if (name == "screen" and HANGS in groups) or (
            name == "finals" and HANGS_IN_FINALS in groups
        ):
            return Outcome("hung", "no answer")
        if name == "screen" and ABORTS in groups:
            return Outcome("crashed", "SIGABRT", poisoned=True)
        return work(*arguments)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def kernels(tmp_path: Path) -> Callable[..., list[Built]]:
    """Kernels with these raster groups, as if they had been built."""
    (tmp_path / "base.yaml").write_text(changed(F32, V6))

    def make(*groups: int) -> list[Built]:
        file = tmp_path / "k.sweep.yaml"
        axes = f"axes: {{schedule.raster.group: {list(groups)}}}"
        file.write_text(f"base: base.yaml\n{axes}\nproblems: [[512, 512, 128]]\n")
        points = points_of(load_sweep(file))
        return [Built(prepare(p), tmp_path / "none.cubin", 90, "nvrtc test") for p in points]

    return make


def lanes_of(work: Work = sweep_fakes.WORK, **options: Any) -> tuple[Lanes, Inline]:
    """One lane on an inline child."""
    child = Inline()
    lanes = Lanes([child], work, SCREEN, FINAL, 60.0, 60.0, **options)  # type: ignore[list-item]
    return lanes, child


def recorded(path: Path, events: Any, watch: Watch | None = None) -> list[dict[str, Any]]:
    """Rows that a recorder makes of events."""
    with Store.open(path) as store:
        gpu = facts().value
        recorder = Recorder(store, gpu, SCREEN, FINAL, watch or Watch())
        store.put_device(recorder._device, gpu)
        seen: set[str] = set()

        def with_kernels() -> Any:
            for event in events:
                if event.kernel and event.kernel.source not in seen:
                    seen.add(event.kernel.source)
                    candidate = event.kernel.candidate
                    store.put_kernel(
                        candidate.source,
                        name=candidate.plan.name,
                        target="sm_90a",
                        spec="",
                        spec_digest="",
                        figures={},
                        points=("k", []),
                    )
                yield event

        recorder.take(with_kernels())
        rows = store.rows("SELECT run.*, name FROM run JOIN kernel ON kernel = source_digest")
        return [dict(row) for row in rows]


def test_each_kernel_of_a_screen_gets_its_own_status(kernels, tmp_path: Path) -> None:
    """Without processes: one that hangs, dies, reads wild or is wrong harms no other."""
    built = kernels(1, HANGS, ABORTS, ILLEGAL, WRONG, 2)
    lanes, _ = lanes_of()
    blocks = [Block(SMALL, "l", tuple(built[:3])), Block(SMALL, "l", tuple(built[3:]))]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks))
    status = {r["kernel"]: r["status"] for r in rows}
    wanted = ["screened", "hung", "crashed", "crashed", "wrong", "screened"]
    assert [status[b.source] for b in built] == wanted
    good = next(r for r in rows if r["kernel"] == built[0].source)
    want = torch_us(SMALL.size) / us_of(built[0].job, SMALL.size)
    assert good["ratio"] == pytest.approx(want)
    assert all(r["reason"] for r in rows if r["status"] != "screened")


def test_a_new_process_makes_its_buffers_in_the_time_of_torch(kernels, tmp_path: Path) -> None:
    """After a hang torch.mm comes before the next kernel, and both sides of the hang are corrected
    by it."""
    lanes, child = lanes_of()
    blocks = [Block(SMALL, "l", tuple(kernels(1, HANGS, 2)))]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks))
    assert child.calls == [
        *("reference [1]", "screen [1]", f"screen [{HANGS}]"),
        *("reference [1]", "screen [2]", "reference [2]"),
    ]
    assert child.patience == {"reference": START_SECONDS, "screen": 60.0}
    readings = {r["status"]: json.loads(r["detail"]).get("reference_readings") for r in rows}
    assert readings == {"screened": 2, "hung": None}


def test_a_kernel_that_did_harm_is_not_tried_on_the_next_problem(kernels, tmp_path: Path) -> None:
    built = kernels(1, HANGS)
    lanes, child = lanes_of()
    blocks = [Block(p, "l", tuple(built)) for p in (SMALL, LARGE)]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks))
    assert child.calls.count(f"screen [{HANGS}]") == 1 and child.calls.count("screen [1]") == 2
    assert sorted((r["status"], r["m"]) for r in rows) == [
        *(("hung", 256), ("screened", 256), ("screened", 512)),
    ]


def test_the_reference_is_timed_around_every_block_and_corrects_it(
    kernels, tmp_path: Path, monkeypatch
) -> None:
    """The reference slows down from 100 to 120 us while kernels stay at 100: the ratio rises."""
    clock = iter(range(100))
    torch = iter([100.0, 120.0, 140.0])

    def reference(*_: Any) -> Outcome:
        return Outcome("reference", value={"at": float(next(clock)), "us": next(torch)})

    def screen(*_: Any) -> Outcome:
        return sweep_fakes.screened(100.0, at=float(next(clock)))

    monkeypatch.setenv("FAKE_REFERENCE", "torch._int_mm")
    lanes, child = lanes_of(Work(facts, reference, screen))
    built = kernels(1, 2, 3, 4)
    blocks = [Block(SMALL, "l", tuple(built[:2])), Block(SMALL, "l", tuple(built[2:]))]
    watch, best = Watch(), list[str]()
    watch.best = lambda problem, text: best.append(text)  # type: ignore[method-assign]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks), watch)
    ratio = {r["kernel"]: r["ratio"] for r in rows}
    assert best and all(" of torch._int_mm, " in text for text in best)
    # Moments: torch 0, kernels 1 and 2, torch 3, kernels 4 and 5, torch 6.
    wanted = [1 + 20 / 300, 1 + 40 / 300, 1.2 + 20 / 300, 1.2 + 40 / 300]
    assert [ratio[b.source] for b in built] == pytest.approx(wanted)
    assert [c.split()[0] for c in child.calls] == [
        *("reference", "screen", "screen", "reference", "screen", "screen", "reference"),
    ]
    assert {json.loads(r["detail"])["reference_readings"] for r in rows} == {2}


def test_a_problem_whose_reference_fails_marks_no_kernel(kernels, tmp_path: Path) -> None:
    """Not enough memory, say: the problem is left out with a note, the next one goes on."""

    def reference(job: Job, size: Any, settings: Any) -> Outcome:
        if size == LARGE.size:
            return Outcome("no_memory", "not enough GPU memory", poisoned=True)
        return sweep_fakes.reference(job, size, settings)

    notes: list[str] = []
    watch = Watch()
    watch.note = notes.append  # type: ignore[method-assign]
    lanes, _ = lanes_of(Work(facts, reference, sweep_fakes.screen))
    built = kernels(1, 2)
    blocks = [Block(p, "l", (b,)) for p in (LARGE, SMALL) for b in built]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks), watch)
    assert [(r["status"], r["m"]) for r in rows] == [("screened", 256)] * 2
    assert notes == ["large: torch could not be timed: not enough GPU memory"]


def test_a_kernel_that_is_unfit_for_one_problem_may_win_another(kernels, tmp_path: Path) -> None:
    def screen(job: Job, size: Any, settings: Any) -> Outcome:
        if size == SMALL.size:
            return Outcome("infeasible", "the launch is refused: too_many_tiles")
        return sweep_fakes.screen(job, size, settings)

    lanes, _ = lanes_of(Work(facts, sweep_fakes.reference, screen))
    blocks = [Block(p, "l", tuple(kernels(1))) for p in (SMALL, LARGE)]
    rows = recorded(tmp_path / "r.sqlite", lanes.screen(blocks))
    assert [(r["status"], r["m"]) for r in rows] == [("infeasible", 256), ("screened", 512)]


def test_finals_that_hang_are_tried_one_by_one(kernels, tmp_path: Path) -> None:
    """Only the kernel that hangs alone is called so; it is left out of the next problem's."""
    built = kernels(1, HANGS_IN_FINALS, 2)
    lanes, child = lanes_of()
    sources = frozenset(b.source for b in built)
    finals = [Final(p, tuple(built), sources) for p in (SMALL, LARGE)]
    rows = recorded(tmp_path / "r.sqlite", lanes.finals(finals))
    timed = sorted((r["m"], r["status"]) for r in rows if r["stage"] == "final")
    assert timed == [(256, "hung"), (256, "timed"), (256, "timed"), (512, "timed"), (512, "timed")]
    assert child.calls.count("verify [1]") == 1
    assert child.calls[-1] == "finals [1, 2]"
    assert all(r["low"] <= r["ratio"] <= r["high"] for r in rows if r["status"] == "timed")


def test_a_kernel_that_fails_a_derived_shape_reaches_no_final(kernels, tmp_path: Path) -> None:
    built = kernels(1, 2)

    def verify(job: Job) -> Outcome:
        bad = sweep_fakes.group(job) == 2
        return Outcome("wrong", "129x257x72: exact") if bad else Outcome("verified")

    lanes, child = lanes_of(Work(facts, verify=verify, finals=sweep_fakes.finals))
    sources = frozenset(b.source for b in built)
    rows = recorded(tmp_path / "r.sqlite", lanes.finals([Final(SMALL, tuple(built), sources)]))
    assert sorted((r["stage"], r["status"]) for r in rows) == [
        *(("final", "timed"), ("verify", "verified"), ("verify", "wrong")),
    ]
    assert child.calls[-1] == "finals [1]"


def test_no_new_work_begins_when_time_is_up(kernels) -> None:
    left = iter([False] * 4 + [True] * 100)
    lanes, child = lanes_of(out_of_time=lambda: next(left))
    events = list(lanes.screen([Block(SMALL, "l", tuple(kernels(1, 2, 3, 4, 5)))]))
    assert 0 < sum(not e.again for e in events) < 5
    assert child.calls[-1].startswith("reference"), "what was timed is still corrected"


def test_finals_begin_when_the_screen_is_over(kernels) -> None:
    """The end of the screen's share stops screens and nothing else."""
    left = iter([False] * 2 + [True] * 100)
    lanes, child = lanes_of(screen_is_over=lambda: next(left))
    built = kernels(1, 2, 3)
    screened = list(lanes.screen([Block(SMALL, "l", (b,)) for b in built]))
    assert [e.kernel for e in screened if not e.again] == built[:2]
    finals = list(lanes.finals([Final(SMALL, tuple(built[:2]), frozenset())]))
    assert [e.outcome.status for e in finals] == ["timed", "timed"]
    assert child.calls[-1] == "finals [1, 2]"


def test_time_that_ends_with_the_last_piece_of_work_is_not_missed(kernels) -> None:
    """Both ends of time come while the last screen and the last final run; nobody asks again."""
    asked: list[str] = []

    def over(stage: str, last: int) -> Callable[[], bool]:
        def ask() -> bool:
            if sum(call.startswith(stage) for call in child.calls) >= last:
                asked.append(stage)
            return bool(asked)

        return ask

    lanes, child = lanes_of(screen_is_over=over("screen", 2), out_of_time=over("finals", 1))
    built = kernels(1, 2)
    screened = list(lanes.screen([Block(SMALL, "l", (b,)) for b in built]))
    assert sum(not e.again for e in screened) == 2
    finals = list(lanes.finals([Final(SMALL, tuple(built), frozenset())]))
    assert [e.outcome.status for e in finals] == ["timed", "timed"]
    assert not asked


def test_a_gpu_that_is_lost_stops_the_sweep_and_blames_nobody(kernels) -> None:
    """A process that cannot start again is the machine's fault."""

    class Lost(Inline):
        def call(self, work: Any, *arguments: Any, timeout: float) -> Outcome:
            if work.__name__ == "screen":
                raise DeviceError("no usable GPU: cudaErrorNoDevice")
            return super().call(work, *arguments, timeout=timeout)

    lanes = Lanes([Lost()], sweep_fakes.WORK, SCREEN, FINAL, 60.0, 60.0)  # type: ignore[list-item]
    events: list[Event] = []
    with pytest.raises(DeviceError, match="no usable GPU"):
        events.extend(lanes.screen([Block(SMALL, "l", tuple(kernels(1)))]))
    assert not events and all(child.closed for child in lanes.children)  # type: ignore[attr-defined]


# --- what runs in the process of a GPU, on the strict stand-in for cupy


class Simulated:
    """A loaded kernel that multiplies the memory it is given. slip: it leaves one row out."""

    slip = False
    stray = False  # it writes behind its output

    def __init__(self, plan: Any, path: Path) -> None:
        self.plan = plan

    def prepare(self, x: Any) -> Callable[[], None]:
        def matrix(address: int, rows: int, cols: int, ld: int) -> np.ndarray:
            size = (rows - 1) * ld + cols
            raw = (ctypes.c_uint16 * size).from_address(address)
            flat = np.ctypeslib.as_array(raw).view("float16")
            shape, strides = (rows, cols), (2 * ld, 2)
            return np.lib.stride_tricks.as_strided(flat, shape, strides)

        def launch() -> None:
            a, b = matrix(x.a, x.m, x.k, x.lda), matrix(x.b, x.n, x.k, x.ldb)
            rows = x.m - 1 if self.slip else x.m
            d = matrix(x.d, rows, x.n, x.ldd)
            d[...] = (a.astype("float32") @ b.astype("float32").T)[:rows].astype("float16")
            if self.stray:
                matrix(x.d, x.m + 1, x.n, x.ldd)[x.m, 3] = 1

        return launch


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device module on the CPU; its clock counts launches."""
    pytest.importorskip("torch", reason="torch is not installed: nothing to time against")
    module: Any = strict_cupy()
    module.free_bytes = 60
    runtime = SimpleNamespace(
        getDeviceProperties=lambda device: {"l2CacheSize": 1},
        memGetInfo=lambda: (module.free_bytes, 100),
    )
    synchronized = SimpleNamespace(id=0, synchronize=lambda: None)
    module.cuda = SimpleNamespace(Device=lambda: synchronized, runtime=runtime)
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    module.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", module)

    def elapsed(body: Callable[[], None]) -> float:
        body()
        return 1e-3

    bench = Bench(elapsed, lambda: None, lambda s: None, Sampler(missing="no clocks here"))
    monkeypatch.setattr(device, "device_bench", lambda: bench)
    monkeypatch.setattr(device, "Kernel", Simulated)
    device._machine.cache_clear()
    benches._benches.clear()
    yield device
    device._machine.cache_clear()
    benches._benches.clear()


def test_a_screen_checks_values_before_it_times_them(gpu, kernels, monkeypatch) -> None:
    job = kernels(1)[0].job
    settings = Settings((10,), 3, 0.0, 1)
    assert gpu.reference(job, SMALL.size, settings).value["us"] == pytest.approx(100)
    (shared,) = benches._benches.values()
    shared.baselines[0] = replace(shared.baselines[0], name="torch._int_mm")
    right = gpu.screen(job, SMALL.size, settings)
    assert (right.status, right.value["us"]) == ("screened", pytest.approx(100)), right.reason
    assert right.value["reference"] == "torch._int_mm"
    assert list(benches._benches.values()) == [shared], (
        "buffers and operands are made once per problem"
    )
    assert "measured without a pause" in " ".join(right.value["notes"])
    monkeypatch.setattr(Simulated, "slip", True)
    wrong = gpu.screen(job, SMALL.size, settings)
    assert wrong.status == "wrong" and wrong.value is None and not wrong.poisoned
    assert wrong.reason.startswith("unwritten: FAILED, 65536 checked, 256 failed")


def test_gates_judge_only_what_is_not_right_bit_by_bit(gpu, kernels, monkeypatch) -> None:
    """A right kernel costs one comparison; a write behind the output is found by it, too."""
    job, settings = kernels(1)[0].job, Settings((10,), 3, 0.0, 1)
    judged = []

    def judge(*arguments: Any, **options: Any) -> Any:
        judged.append(arguments)
        return real(*arguments, **options)

    real = device.judge
    monkeypatch.setattr(device, "judge", judge)
    assert gpu.screen(job, SMALL.size, settings).status == "screened" and not judged
    monkeypatch.setattr(Simulated, "stray", True)
    found = gpu.screen(job, SMALL.size, settings)
    assert found.status == "wrong" and len(judged) == 1
    assert found.reason.startswith("guard")


def test_a_zero_of_the_other_sign_is_right(gpu, kernels, monkeypatch) -> None:
    job, settings = kernels(1)[0].job, Settings((10,), 3, 0.0, 1)
    gpu.reference(job, SMALL.size, settings)
    (bench,) = benches._benches.values()
    zeros = bench.wanted == 0
    assert bool(zeros.any()), "no product is zero: this test shows nothing"
    bench.wanted[zeros] = 0x8000
    assert gpu.screen(job, SMALL.size, settings).status == "screened"


def test_buffers_of_all_problems_are_kept_while_memory_lasts(gpu, kernels) -> None:
    job = kernels(1)[0].job
    settings = Settings((10,), 3, 0.0, 1)
    for problem in (SMALL, LARGE, SMALL):
        gpu.reference(job, problem.size, settings)
    assert [size for size, _ in benches._benches] == [SMALL.size, LARGE.size]
    sys.modules["cupy"].free_bytes = 40  # type: ignore[attr-defined]
    third = Problem(256, 512, 128, "third")
    gpu.reference(job, third.size, settings)
    assert [size for size, _ in benches._benches] == [third.size]


@pytest.mark.parametrize(
    ("error", "status", "poisoned"),
    [
        (RuntimeError("cudaErrorIllegalAddress"), "crashed", True),
        (type("OutOfMemoryError", (MemoryError,), {})("8 GiB"), "no_memory", True),
    ],
)
def test_errors_of_cuda_cost_the_process(
    gpu, kernels, monkeypatch, error, status, poisoned
) -> None:
    def fail(self: Any, x: Any) -> None:
        raise error

    monkeypatch.setattr(Simulated, "prepare", fail)
    outcome = gpu.screen(kernels(1)[0].job, SMALL.size, Settings((10,), 3, 0.0, 1))
    assert (outcome.status, outcome.poisoned) == (status, poisoned)
    assert str(error) in outcome.reason


def test_a_refused_launch_is_no_crash(gpu, kernels, monkeypatch) -> None:
    from kgen.errors import LaunchError

    def refuse(self: Any, x: Any) -> None:
        raise LaunchError("k: too_many_tiles: more tiles than a grid can have", "too_many_tiles")

    monkeypatch.setattr(Simulated, "prepare", refuse)
    outcome = gpu.screen(kernels(1)[0].job, SMALL.size, Settings((10,), 3, 0.0, 1))
    assert (outcome.status, outcome.poisoned) == ("infeasible", False)


def test_finals_time_all_finalists_with_the_baselines(gpu, kernels) -> None:
    built = kernels(1, 2)
    settings = Settings((5,), 3, 0.0, 1)
    outcome = gpu.finals([b.job for b in built], SMALL.size, settings)
    assert outcome.status == "timed", outcome.reason
    wanted = ["torch.mm", "torch.mm, f16 accumulation"]
    assert [baselines(r) for r in outcome.value] == [wanted] * 2
    assert all(r["low"] == r["ratio"] == r["high"] == 1 for r in outcome.value)
    notes = " ".join(outcome.value[0]["notes"])
    assert "cuBLASLt's candidates were not timed: DeviceError: this torch" in notes


def test_cublaslts_best_is_one_more_baseline(gpu, kernels, monkeypatch) -> None:
    """It is looked for once per problem, with the exact operands of the screen."""
    asked = []

    def tuned_on(numerics: Any, buffers: Any, exact: Any, product: Any, bench: Any) -> Contestant:
        asked.append(exact.left.shape + exact.right.shape + product.shape)
        return Contestant(TUNED, (lambda: None,), "best of 3")

    monkeypatch.setattr(benches, "tuned_on", tuned_on)
    jobs = [b.job for b in kernels(1, 2)]
    for _ in range(2):
        record = gpu.finals(jobs, SMALL.size, Settings((5,), 3, 0.0, 1)).value[0]
    assert asked == [(256, 128, 256, 128, 256, 256)]
    assert baselines(record) == ["torch.mm", "torch.mm, f16 accumulation", TUNED]
