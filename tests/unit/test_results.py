"""Result files and the tables made from them."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest

from kgen.bench.protocol import Measurement, Reading, Settings
from kgen.bench.results import (
    Compiler,
    Gpu,
    Result,
    dump_result,
    load_result,
    load_results,
    result_path,
    save_result,
    stale_results,
    timed,
    verified,
)
from kgen.bench.sampler import Sample
from kgen.bench.tables import BEGIN, END, results_table, update_readme
from kgen.errors import KgenError
from kgen.verify.outcome import GateResult, Report

US = {"v6": (1360e-6, 1368e-6, 1374e-6), "torch.mm": (1450e-6, 1440e-6, 1460e-6)}


def measurement() -> Measurement:
    """Three rounds of one window, with clocks."""
    sample = Sample(1595.0, 3201.0, 690.0, 60.0)
    readings = tuple(
        Reading(name, 30, turn, 0, seconds, None, sample)
        for name, times in US.items()
        for turn, seconds in enumerate(times)
    )
    return Measurement(
        "v6", ("torch.mm",), Settings(), readings, ("the driver reported power cap",)
    )


def result(**changes) -> Result:
    """A complete result."""
    report = Report(
        "integers, seed 0",
        (
            GateResult("exact", True, 100, figures={"worst_ratio": 0.0}),
            GateResult("finite", False, 100, 1, cause="x", figures={"max_error": float("inf")}),
        ),
    )
    notes = {"v6": "f16 accumulation", "torch.mm": "f32 accumulation"}
    fields = {
        "kernel": "v6",
        "source_digest": "abc",
        "compiler": Compiler(name="nvrtc", version="13.5"),
        "gpu": Gpu(name="NVIDIA H200", driver="580.1", toolkit="13.5", libraries={"torch": "2.13"}),
        "measured_on": datetime.date(2026, 11, 30),
        "timings": (timed(8192, 8192, 8192, measurement(), notes),),
        "verification": verified("256x256x64", report),
    }
    return Result(**{**fields, **changes})


def test_a_measurement_becomes_a_record() -> None:
    """Medians, ranges, TFLOPS, ratio and clocks by hand."""
    window = result().timings[0].windows[0]
    own, other = window.timings
    assert (own.median_us, own.low_us, own.high_us) == pytest.approx((1368, 1360, 1374))
    assert own.rounds_us == pytest.approx((1360, 1368, 1374))
    assert own.tflops == pytest.approx(2 * 8192**3 / 1368e-6 / 1e12)
    assert (own.sm_mhz, own.power_w) == (1595.0, 690.0)
    assert (own.note, other.note) == ("f16 accumulation", "f32 accumulation")
    ratio = window.ratios[0]
    assert ratio.median == pytest.approx(1460 / 1374)  # of 1450/1360, 1440/1368, 1460/1374
    assert (ratio.low, ratio.high) == pytest.approx((1440 / 1368, 1450 / 1360))
    assert (ratio.verdict, ratio.rounds) == ("faster", 3)


def test_infinite_figures_do_not_reach_json() -> None:
    """A failed gate may have an infinite figure, which JSON cannot hold; the cause stays."""
    exact, finite = result().verification
    assert exact.figures == {"worst_ratio": 0.0}
    assert finite.figures == {} and finite.cause == "x" and not finite.passed


def test_round_trip_is_byte_identical(tmp_path: Path) -> None:
    """Save, load, save: the same bytes, sorted keys, one line end at the end, no left-over
    files.
    """
    path = save_result(result(), tmp_path)
    assert path.name == "v6.nvidia-h200.json"
    first = path.read_bytes()
    loaded = load_result(path)
    assert loaded.timings[0].windows[0].ratios[0].verdict == "faster"
    assert dump_result(loaded).encode() == first
    data = json.loads(first)
    assert list(data) == sorted(data) and first.endswith(b"}\n")
    assert os.listdir(tmp_path) == [path.name]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch) -> None:
    """Interrupted between write and rename: old content, no temporary file."""
    path = save_result(result(), tmp_path)
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_result(result(source_digest="new"), tmp_path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_other_shapes_of_the_same_code_and_day_stay(tmp_path: Path) -> None:
    """Two runs of one day make one file; a shape measured again takes the place of the first."""
    small = timed(64, 64, 64, measurement(), {})
    save_result(result(), tmp_path)
    path = save_result(result(timings=(small,), notes=("later",)), tmp_path)
    found = load_result(path)
    assert [x.m for x in found.timings] == [8192, 64]
    assert found.notes == ("later",) and found.verification == result().verification
    again = load_result(save_result(result(), tmp_path))
    assert [x.m for x in again.timings] == [64, 8192]


@pytest.mark.parametrize(
    "change",
    [
        {"source_digest": "new"},
        {"gpu": Gpu(name="NVIDIA H200", driver="590.1")},
        {"compiler": Compiler(name="nvcc", version="13.5")},
    ],
)
def test_what_was_measured_otherwise_is_replaced(tmp_path: Path, change) -> None:
    save_result(result(), tmp_path)
    small = timed(64, 64, 64, measurement(), {})
    found = load_result(save_result(result(timings=(small,), **change), tmp_path))
    assert [x.m for x in found.timings] == [64]


def test_what_was_found_right_outlives_the_day(tmp_path: Path) -> None:
    """Times of another day would mix boards and clocks; the same code stays right."""
    save_result(result(), tmp_path)
    small = timed(64, 64, 64, measurement(), {})
    later = result(timings=(small,), verification=(), measured_on=datetime.date(2026, 12, 1))
    found = load_result(save_result(later, tmp_path))
    assert [x.m for x in found.timings] == [64]
    assert found.verification == result().verification


def broken(**changes) -> str:
    """The text of a result file with top-level fields changed; None removes one."""
    data = json.loads(dump_result(result()))
    data.update(changes)
    return json.dumps({key: value for key, value in data.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (broken(schema_version=2), "schema 2 is newer than this kgen reads \\(1\\); fix: upgrade"),
        (broken(schema_version=0), "schema_version: Input should be 1"),
        (broken(schema_version=None), "no schema_version"),
        (broken(schema_version=True), "no schema_version"),
        (broken(kernel=None), "kernel: Field required"),
        (broken(kernels="v6"), "kernels: Extra inputs are not permitted"),
        (broken(measured_on="yesterday"), "measured_on: Input should be a valid date"),
        ("[1]", "no schema_version"),
        ('{"schema_version": 1', "not a result file"),
        ("", "not a result file"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    """The file and the field are in the message; a newer file is not half read."""
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(KgenError, match=words) as raised:
        load_result(path)
    assert str(path) in str(raised.value)


def test_a_time_that_is_no_time_is_refused(tmp_path: Path) -> None:
    """NaN, zero and negative times name the field they stand in."""
    good = dump_result(result())
    for bad in ("NaN", "0.0", "-3.5"):
        path = tmp_path / "r.json"
        path.write_text(good.replace('"median_us": 1368.0', f'"median_us": {bad}'))
        with pytest.raises(KgenError, match=r"timings\.0\.windows\.0\.timings\.0\.median_us"):
            load_result(path)


def test_folders_are_read_in_order_and_names_checked(tmp_path: Path) -> None:
    """By kernel and GPU; a copied file under a foreign name would count one result twice."""
    for kernel in ("b", "a"):
        save_result(result(kernel=kernel), tmp_path)
    assert [r.kernel for r in load_results(tmp_path)] == ["a", "b"]
    assert load_results(tmp_path / "none") == ()
    (tmp_path / "copy.json").write_text(dump_result(result()))
    with pytest.raises(KgenError, match=r"fix: rename it to v6\.nvidia-h200\.json"):
        load_results(tmp_path)


def test_file_names_are_plain() -> None:
    """Spaces, slashes and case of the GPU's name do not reach the file system."""
    assert result_path(Path("r"), "k", "NVIDIA H200/MIG 1g").name == "k.nvidia-h200-mig-1g.json"


# --- tables


def test_the_table_shows_numbers_and_what_is_not_alike() -> None:
    """One row per problem, window and baseline, with range, interval and both notes."""
    table = results_table([result()], {"v6": "abc"})
    assert "**NVIDIA H200, driver 580.1, CUDA 13.5, torch 2.13**" in table
    assert (
        "| v6 | 8192 x 8192 x 8192 | 30 | 1368.0 [1360.0..1374.0] | 804 | torch.mm 758 "
        "(f32 accumulation; kernel: f16 accumulation) | 1.063 [1.053..1.066] | current |"
    ) in table
    assert "- v6, 8192 x 8192 x 8192: the driver reported power cap" in table


def test_notes_say_what_they_are_about() -> None:
    """The same note of two problems stays two; one about the whole file stands once."""
    problems = [timed(m, 8192, 8192, measurement(), {}) for m in (64, 128)]
    table = results_table([result(timings=tuple(problems), notes=("all of it",))], {"v6": "abc"})
    assert [line for line in table.splitlines() if line.startswith("- ")] == [
        "- v6: all of it",
        "- v6, 64 x 8192 x 8192: the driver reported power cap",
        "- v6, 128 x 8192 x 8192: the driver reported power cap",
    ]


@pytest.mark.parametrize(
    ("digests", "state"),
    [
        ({"v6": "abc"}, "current"),
        ({"v6": "abd"}, "**stale**: the source has changed since"),
        ({"v7": "abc"}, "**stale**: no longer generated"),
    ],
)
def test_stale_results_are_shown_as_stale(digests: dict[str, str], state: str) -> None:
    """A result whose source is not the current one stays in the table, marked."""
    assert f"| {state} |" in results_table([result()], digests)
    assert bool(stale_results([result()], digests)) == (state != "current")


def test_the_table_does_not_depend_on_the_order_of_files() -> None:
    """Sorted by GPU and kernel; GPUs have tables of their own."""
    other = result(gpu=Gpu(name="NVIDIA B200", driver="580.1"))
    digests = {"v6": "abc"}
    table = results_table([result(), other], digests)
    assert table == results_table([other, result()], digests)
    assert table.index("NVIDIA B200, driver 580.1, CUDA unknown") < table.index("NVIDIA H200")


def test_undecided_is_written_out() -> None:
    """A ratio whose interval holds 1 must not read like a result."""
    problem = result().timings[0]
    ratio = problem.windows[0].ratios[0].model_copy(update={"low": 0.99, "verdict": "undecided"})
    window = problem.windows[0].model_copy(update={"ratios": (ratio,)})
    table = results_table(
        [result(timings=(problem.model_copy(update={"windows": (window,)}),))], {}
    )
    assert "1.063 [0.990..1.066] undecided" in table


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_readme_is_updated_between_its_markers(tmp_path: Path, newline: str) -> None:
    """Only the part between the markers changes, line ends stay, a second run does nothing."""
    readme = tmp_path / "README.md"
    readme.write_bytes(newline.join(["# kgen", BEGIN, "outdated", END, "tail", ""]).encode())
    assert update_readme(readme, [result()], {"v6": "abc"})
    text = readme.read_bytes().decode()
    assert text.startswith(f"# kgen{newline}{BEGIN}{newline}")
    assert text.endswith(f"{END}{newline}tail{newline}")
    assert "outdated" not in text and "| v6 |" in text
    assert text.count("\n") == text.count(newline)
    assert not update_readme(readme, [result()], {"v6": "abc"})
    assert update_readme(readme, [result()], {"v6": "other"})


def test_no_results_is_said(tmp_path: Path) -> None:
    """An empty table has a sentence, not nothing."""
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}\n")
    assert update_readme(readme, [], {})
    assert "No results recorded yet." in readme.read_text()


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    """Missing, repeated or swapped markers are an error and nothing is written."""
    readme = tmp_path / "README.md"
    readme.write_text(text)
    with pytest.raises(KgenError, match="wants one line"):
        update_readme(readme, [result()], {})
    assert readme.read_text() == text
