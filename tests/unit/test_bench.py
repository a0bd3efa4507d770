"""Timing protocol and statistics, on a simulated board whose clock falls when it is worked hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.bench.baselines import as_tensor, torch_mm, torch_mm_f16, torch_mm_tf32
from kgen.bench.protocol import Bench, Contestant, Measurement, Settings, measure
from kgen.bench.sampler import Sample, Sampler, nvml_sampler, throttle_reasons
from kgen.bench.statistics import mean_ratio, median_ratio
from kgen.errors import KgenError
from kgen.verify.numbers import from_float32, to_float32

COOL_MHZ, HOT_MHZ = 1980.0, 1400.0


@dataclass
class Board:
    """A GPU with a heat budget: launches heat it, sleep cools it, and heat lowers the clock.

    A launch of `work` takes work / clock; `heat` per launch is the contestant's own, so a frugal
    kernel holds a higher clock in a long window.
    """

    heat: float = 0.0
    log: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clock(self) -> float:
        """MHz now."""
        return COOL_MHZ - (COOL_MHZ - HOT_MHZ) * min(1.0, self.heat)

    def contestant(self, name: str, work: float, heat: float, buffers: int = 2) -> Contestant:
        """A kernel of `work` clocks per launch in millions, on several buffers."""

        def launcher(buffer: int) -> Callable[[], None]:
            def launch() -> None:
                self.log.append(f"{name}{buffer}")
                self.seconds += work / self.clock
                self.heat += heat

            return launch

        return Contestant(name, tuple(launcher(i) for i in range(buffers)), f"note of {name}")

    def sleep(self, seconds: float) -> None:
        """Rest."""
        self.log.append(f"sleep {seconds:g}")
        self.heat = max(0.0, self.heat - seconds)

    def elapsed(self, body: Callable[[], None]) -> float:
        """Seconds of what body launches."""
        self.log.append("start")
        before = self.seconds
        body()
        self.log.append("stop")
        return self.seconds - before

    def sample(self) -> Sample:
        """The clock, and the power cap as its reason once it is below 90 %."""
        capped = ("power cap",) if self.clock < 0.9 * COOL_MHZ else ()
        return Sample(self.clock, 3201.0, 700.0, 60.0, capped)

    def bench(self, sampled: bool = True) -> Bench:
        """The callables of the protocol."""
        sampler = Sampler(self.sample) if sampled else Sampler(missing="no NVML here")
        return Bench(self.elapsed, lambda: self.log.append("sync"), self.sleep, sampler)


def run(
    settings: Settings, heat: tuple[float, float] = (0.001, 0.001)
) -> tuple[Measurement, Board]:
    """A candidate that needs 5 % less work than its baseline, with the heat of a launch of each."""
    board = Board()
    candidate = board.contestant("ours", 950.0, heat[0])
    baseline = board.contestant("cublas", 1000.0, heat[1])
    return measure(candidate, [baseline], settings, board.bench()), board


# --- statistics


def test_three_rounds_give_their_range() -> None:
    """With three pairs the interval of the median is the range: 7 of 27 resamples have the
    lowest.
    """
    ratio = median_ratio([1.0, 1.0, 1.0], [1.05, 1.07, 1.06])
    assert (ratio.median, ratio.low, ratio.high, ratio.rounds) == (1.06, 1.05, 1.07, 3)
    assert ratio.verdict == "faster" and str(ratio) == "1.060 [1.050..1.070]"


def test_a_ratio_pairs_the_times_of_one_round() -> None:
    """A slow round slows both; unpaired medians would call this undecided."""
    candidate, baseline = [1.0, 2.0, 4.0, 1.5], [1.1, 2.2, 4.4, 1.65]
    assert median_ratio(candidate, baseline).low == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("baseline", "verdict"),
    [
        ([1.02, 1.03, 1.01], "faster"),
        ([0.98, 0.99, 0.97], "slower"),
        ([1.10, 1.05, 0.999], "undecided"),
        ([1.0, 1.0, 1.0], "undecided"),
    ],
)
def test_verdicts(baseline: list[float], verdict: str) -> None:
    """An interval that contains 1 decides nothing, whatever the median says."""
    ratio = median_ratio([1.0, 1.0, 1.0], baseline)
    assert ratio.verdict == verdict
    assert ("undecided" in str(ratio)) == (verdict == "undecided")


def test_the_interval_covers_the_true_median() -> None:
    """In repeated experiments of 12 rounds with 2 % noise, at least 9 of 10 intervals hold 1.05."""
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(60):
        ratio = median_ratio([1.0] * 12, (1.05 + 0.02 * rng.standard_normal(12)).tolist())
        hits += ratio.low <= 1.05 <= ratio.high
    assert hits >= 54


@given(st.lists(st.tuples(*[st.floats(0.5, 2.0)] * 2), min_size=3, max_size=9))
def test_the_interval_holds_the_median_and_is_reproducible(
    pairs: list[tuple[float, float]],
) -> None:
    """Low <= median <= high, within the ratios seen, the same twice."""
    candidate, baseline = zip(*pairs, strict=True)
    ratio = median_ratio(candidate, baseline)
    seen = [b / c for c, b in pairs]
    assert min(seen) <= ratio.low <= ratio.median <= ratio.high <= max(seen)
    assert ratio == median_ratio(candidate, baseline)


def test_a_mean_over_problems_is_geometric_and_of_one_is_its_ratio() -> None:
    """Twice as fast and half as fast is no gain; one problem brings its own median."""
    fast, slow = ([1.0] * 5, [2.0] * 5), ([2.0] * 5, [1.0] * 5)
    assert mean_ratio([fast, slow]).median == pytest.approx(1.0)
    one = ([1.0, 1.1, 0.9, 1.0, 1.05], [1.2, 1.2, 1.25, 1.1, 1.2])
    mean, single = mean_ratio([one]), median_ratio(*one)
    assert mean.median == pytest.approx(single.median)
    assert (mean.low, mean.high) == pytest.approx((single.low, single.high))


def test_a_mean_over_problems_is_surer_than_each_of_them() -> None:
    """Independent noise of eight problems averages out: the interval narrows, and holds 1.05."""
    rng = np.random.default_rng(1)
    pairs = [([1.0] * 7, (1.05 + 0.02 * rng.standard_normal(7)).tolist()) for _ in range(8)]
    mean = mean_ratio(pairs)
    widths = [r.high - r.low for r in (median_ratio(*pair) for pair in pairs)]
    assert mean.low < 1.05 < mean.high and mean.high - mean.low < np.median(widths)
    with pytest.raises(KgenError, match="at least one"):
        mean_ratio([])


@pytest.mark.parametrize(
    ("candidate", "baseline", "words"),
    [
        ([1.0], [1.0], "a single run is not a result"),
        ([], [], "0 round"),
        ([1.0] * 3, [1.0] * 4, "needs pairs"),
        ([1.0, 0.0, 1.0], [1.0] * 3, "positive"),
        ([1.0, float("nan"), 1.0], [1.0] * 3, "finite"),
    ],
)
def test_ratios_that_say_nothing_are_refused(candidate, baseline, words: str) -> None:
    """Too few rounds, unequal counts, times that are not times."""
    with pytest.raises(KgenError, match=words):
        median_ratio(candidate, baseline)


# --- protocol


def test_every_reading_is_rest_warmup_window() -> None:
    """The same rest for candidate and baseline, order turned every round, buffers in turn."""
    _, board = run(Settings(windows=(4,), rounds=3, cooldown_s=3, warmup=1))
    readings = " ".join(board.log).split("sync ")[1:]
    ours = "sleep 3 ours0 start ours1 ours0 ours1 ours0 stop"
    theirs = "sleep 3 cublas0 start cublas1 cublas0 cublas1 cublas0 stop"
    expected = [ours, theirs, theirs, ours, ours, theirs]
    assert [reading.strip() for reading in readings] == expected


def test_measurements_keep_every_reading_and_its_clocks() -> None:
    """Windows x rounds x contestants readings, each with samples; times come back by round."""
    result, _ = run(Settings(windows=(30, 100), rounds=3))
    assert len(result.readings) == 2 * 3 * 2
    assert all(r.before and r.after and r.after.sm_mhz < r.before.sm_mhz for r in result.readings)
    assert [r.order for r in result.readings if r.contestant == "ours"] == [0, 1, 0] * 2
    for window in (30, 100):
        assert len(result.times("ours", window)) == 3
        assert result.times("cublas", window)[0] == pytest.approx(1000 / COOL_MHZ, rel=0.05)
        assert result.ratio("cublas", window).median == pytest.approx(1000 / 950, rel=1e-6)
    assert result.notes == () and not result.undecided


def test_a_frugal_kernel_gains_in_the_long_window() -> None:
    """The ranking depends on the window, so each window has its own ratio, and throttling is
    said.
    """
    settings = Settings(windows=(30, 100), rounds=3)
    result, _ = run(settings, heat=(0.008, 0.0))
    short, long = (result.ratio("cublas", window) for window in (30, 100))
    assert short.verdict == "faster"
    assert long.verdict == "slower" and short.median > 1 > long.median
    assert "the driver reported power cap in 3 of 12 windows" in result.notes
    assert any(note.startswith("ours, 100 launches: the SM clock fell to") for note in result.notes)


def test_no_rest_flips_the_ranking_and_is_said() -> None:
    """Without a pause the board stays hot from whoever ran before, and rounds stop agreeing."""
    rested, _ = run(Settings(windows=(100,), rounds=3), heat=(0.004, 0.004))
    tired, _ = run(Settings(windows=(100,), rounds=3, cooldown_s=0), heat=(0.004, 0.004))
    assert rested.ratio("cublas", 100).verdict == "faster" and rested.notes == (
        "the driver reported power cap in 6 of 6 windows",
        "cublas, 100 launches: the SM clock fell to 1736 of 1980 MHz",
        "ours, 100 launches: the SM clock fell to 1736 of 1980 MHz",
    )
    assert tired.ratio("cublas", 100).high - tired.ratio("cublas", 100).low > 0.02
    assert "measured without a pause" in tired.notes[0]
    assert any("rounds differ by" in note for note in tired.notes)


def test_missing_clocks_are_a_note_and_not_a_failure() -> None:
    """Without NVML the times stand, and the result says that there are no clocks."""
    board = Board()
    result = measure(
        board.contestant("ours", 1.0, 0.0),
        [board.contestant("cublas", 1.0, 0.0)],
        Settings(),
        board.bench(sampled=False),
    )
    assert result.notes == ("no NVML here",)
    assert all(r.after is None for r in result.readings)
    assert result.undecided, "equal kernels cannot be told apart"


def test_progress_sees_every_reading() -> None:
    """The caller can draw a bar."""
    board, seen = Board(), []
    result = measure(board.contestant("a", 1, 0), [], Settings(), board.bench(), seen.append)
    assert tuple(seen) == result.readings and not result.undecided


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rounds": 2}, "--rounds 2: at least 3"),
        ({"windows": ()}, "--window"),
        ({"windows": (30, 30)}, "different positive"),
        ({"windows": (0,)}, "different positive"),
        ({"cooldown_s": -1}, "cannot be negative"),
    ],
)
def test_settings_that_measure_nothing_are_refused(change: dict, words: str) -> None:
    """The text names the flag."""
    with pytest.raises(KgenError, match=words):
        Settings(**change)


def test_contestants_must_differ_and_launch() -> None:
    """Two of one name would be mixed up; none to launch would time nothing; a dead timer is
    said.
    """
    board = Board()
    one = board.contestant("one", 1.0, 0.0)
    with pytest.raises(KgenError, match="different names"):
        measure(one, [one], Settings(), board.bench())
    with pytest.raises(KgenError, match="two has nothing to launch"):
        measure(one, [Contestant("two", ())], Settings(), board.bench())
    with pytest.raises(KgenError, match="the timer gave 0"):
        measure(board.contestant("idle", 0.0, 0.0), [], Settings(), board.bench())


# --- sampler and baselines


def test_throttle_reasons_name_what_slows_a_kernel() -> None:
    """Idle (bit 0) and clock settings (bit 1) are no reason."""
    assert throttle_reasons(0x3) == ()
    assert throttle_reasons(0x4 | 0x40 | 0x1) == ("power cap", "thermal limit (hardware)")


def test_a_machine_without_nvml_gives_a_reason() -> None:
    """No exception, no sample, one sentence."""
    sampler = nvml_sampler("ffff:ff:ff.f")
    assert sampler.missing.startswith("clocks and power were not read: ")
    assert sampler.read() is None


@pytest.mark.parametrize(
    ("launcher", "name"),
    [
        (torch_mm, "f16"),
        (torch_mm, "bf16"),
        (torch_mm_f16, "f16"),
        (torch_mm_f16, "bf16"),
        (torch_mm_tf32, "tf32"),
    ],
)
def test_torch_baseline_computes_the_product(launcher, name: str) -> None:
    """d = a @ b.T into the caller's memory; the global switches are left as they were."""
    torch = pytest.importorskip("torch", reason="torch is not installed: no baseline to test")
    rng = np.random.default_rng(0)
    a, b = (from_float32(rng.integers(-3, 4, s).astype("float32"), name) for s in ((4, 8), (5, 8)))
    d = from_float32(np.full((4, 5), np.nan, "float32"), name)
    switches = torch.backends.cuda.matmul
    before = switches.allow_fp16_accumulation, switches.allow_tf32
    launcher(a, b, d, (name, name, name))()
    assert (switches.allow_fp16_accumulation, switches.allow_tf32) == before
    expected = to_float32(a, name) @ to_float32(b, name).T
    assert np.array_equal(to_float32(d, name), expected)


def test_unknown_format_has_no_tensor() -> None:
    """The text lists what there is."""
    pytest.importorskip("torch", reason="torch is not installed: no tensors to make")
    with pytest.raises(KgenError, match="no torch type for 'e2m1'"):
        as_tensor(np.zeros(1, "uint8"), "e2m1")
