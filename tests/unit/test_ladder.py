"""The ladder: what its specs say, and its table and chart: what was measured and what was not."""

from __future__ import annotations

import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kgen.bench.ladder import Rung, ladder_chart, ladder_table, rungs
from kgen.bench.results import Compiler, Gpu, RatioRecord, Result, Timed, Timing, Window
from kgen.bench.tables import BEGIN, END, LADDER_BEGIN, LADDER_END, update_readme
from kgen.errors import KgenError

SPECS = Path(__file__).resolve().parents[2] / "specs" / "hopper"


@pytest.fixture(scope="module")
def ladder() -> tuple[Rung, ...]:
    return rungs(SPECS)


def measured(kernel: str, tflops: float, digest: str = "new", size: int = 8192) -> Result:
    """A result with one window of 30 launches, beside torch.mm at 750 TFLOPS."""

    def timing(name: str, speed: float) -> Timing:
        us = 2 * size**3 / speed / 1e6
        return Timing(name=name, median_us=us, low_us=us, high_us=us, rounds_us=(us,), tflops=speed)

    ratio = tflops / 750
    record = RatioRecord(
        baseline="torch.mm", median=ratio, low=ratio, high=ratio, verdict="slower", rounds=1
    )
    timings = (timing(kernel, tflops), timing("torch.mm", 750.0))
    window = Window(launches=30, timings=timings, ratios=(record,))
    problem = Timed(m=size, n=size, k=size, rounds=1, cooldown_s=3, warmup=1, windows=(window,))
    return Result(
        kernel=kernel,
        source_digest=digest,
        compiler=Compiler(name="nvrtc", version="13.5"),
        gpu=Gpu(name="NVIDIA H200", driver="580"),
        measured_on=datetime.date(2026, 11, 30),
        timings=(problem,),
    )


def row(table: str, rung: str) -> list[str]:
    line = next(line for line in table.split("\n") if line.startswith(f"| {rung} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_rung_opens_with_what_it_adds_and_has_a_name_of_its_own(ladder):
    assert [r.title for r in ladder] == [f"Hopper V{i}" for i in range(7)]
    assert all(r.adds.endswith(".") for r in ladder)
    assert [r.spec.name for r in ladder] == [f"hopper_v{i}" for i in range(7)]
    kinds = [r.spec.schedule.kind for r in ladder]
    assert kinds == ["mma_sync", "wgmma_single", "wgmma_single", *["wgmma_ws"] * 4]


def test_a_rung_without_a_result_says_so(ladder):
    table = ladder_table(ladder, [], {})
    assert table.count("not measured") == 7
    assert "No GPU yet" in table
    assert row(table, "Hopper V5")[2:] == ["128 x 256 x 64", "4", "not measured", "-", "-"]


def test_a_measured_rung_shows_speed_ratio_and_whether_it_is_current(ladder):
    results = [measured("hopper_v0", 267.4), measured("hopper_v4", 636.0, "old")]
    table = ladder_table(ladder, results, {"hopper_v0": "new", "hopper_v4": "new"})
    assert table.startswith("**NVIDIA H200**, 8192^3, windows of 30 launches\n")
    assert row(table, "Hopper V0")[4:] == ["267", "0.357", "current"]
    assert row(table, "Hopper V4")[4:] == ["636", "0.848", "**stale**"]
    assert row(table, "Hopper V1")[4:] == ["not measured", "-", "-"]


def test_another_size_is_not_the_ladders(ladder):
    table = ladder_table(ladder, [measured("hopper_v0", 267.0, size=4096)], {})
    assert row(table, "Hopper V0")[4] == "not measured"


def test_the_chart_has_a_bar_for_what_was_measured_only(ladder):
    results = [measured("hopper_v0", 250.0), measured("hopper_v6", 800.0, "old")]
    digests = {"hopper_v0": "new", "hopper_v6": "new"}
    chart = ladder_chart(ladder, results, digests)
    assert chart == ladder_chart(ladder, results, digests)
    svg = "{http://www.w3.org/2000/svg}"
    tree = ElementTree.fromstring(chart)
    bars = [x for x in tree.iter(f"{svg}rect") if x.get("x")]
    assert [x.get("width") for x in bars] == ["193.8", "620.0"]  # 250 and 800 of 800
    assert [x.get("fill-opacity") for x in bars] == [None, "0.4"]
    texts = [x.text for x in tree.iter(f"{svg}text")]
    assert texts.count("not measured") == 5
    assert {"250", "800 (stale)", "Hopper V3"} <= set(texts)
    assert len([*tree.iter(f"{svg}path")]) == 2


def test_the_chart_of_nothing_is_a_chart(ladder):
    texts = [x.text for x in ElementTree.fromstring(ladder_chart(ladder, [], {})).iter()]
    assert texts.count("not measured") == 7


def test_the_readme_gets_the_ladder_where_it_has_the_markers(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"a\n{LADDER_BEGIN}\nold\n{LADDER_END}\nb\n{BEGIN}\n{END}\nc\n")
    assert update_readme(path, [], {}, "the ladder")
    text = path.read_text()
    assert f"a\n{LADDER_BEGIN}\n\nthe ladder\n\n{LADDER_END}\nb\n" in text
    assert not update_readme(path, [], {}, "the ladder")
    path.write_text(f"{BEGIN}\n{END}\n{LADDER_END}\n{LADDER_BEGIN}\n")
    with pytest.raises(KgenError, match="kgen ladder: begin"):
        update_readme(path, [], {}, "x")
