"""From a sweep to another repository: winners of an imaginary GPU, real kernels, real files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes
from conftest import F32, V6, changed

from kgen.bench.baselines import TUNED
from kgen.cli.main import main
from kgen.paths import data_folder
from kgen.render import Rendered
from kgen.ship import from_sweep
from kgen.ship.lock import Table, load_lock
from kgen.sweep import load_sweep, winners
from kgen.sweep.session import Session

PROBLEMS = "[[512, 512, 128], {name: large, m: 1024, n: 1024, k: 128}]"
FINALS = "finals: {keep: 1, rounds: 3, cooldown_s: 0}\n"


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a sweep over two raster groups; the results file lies in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAKE_BUS", f"0000:{os.getpid() % 256:02x}:00.0")
    head = V6.split("verify:")[0]
    changes = F32 | {"n: 256": "n: 64", "stages: 3": "stages: 2"}
    Path("base.yaml").write_text(changed(changes, head))
    axes = "axes: {schedule.raster.group: [1, 2]}"
    Path("tiny.sweep.yaml").write_text(f"base: base.yaml\n{axes}\nproblems: {PROBLEMS}\n{FINALS}")

    def run(**options: Any) -> Path:
        results = Path("tiny.sqlite")
        options = {"on": "gpu", "work": sweep_fakes.WORK} | options
        Session(load_sweep("tiny.sweep.yaml"), results, **options).run()
        return results

    return run


@pytest.fixture
def kgen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kgen", *arguments])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


def shipped(folder: str) -> Table:
    """The one dispatch table of a folder."""
    (table,) = load_lock(Path(folder)).tables
    return table


def test_the_winners_of_a_sweep_are_shipped_with_their_finals(swept, kgen) -> None:
    results = swept()
    code, _, err = kgen("ship", "--from-sweep", str(results), "--to", "out")
    assert (code, err) == (0, ""), err
    best = winners(results)
    table = shipped("out")
    rows = {(r.m, r.n, r.k): r for r in table.rows}
    assert (table.gpu, table.driver) == ("Imaginary H200", "1.2.3")
    assert table.toolkit == best[0].toolchain.split()[1]
    for winner in best:
        row = rows.pop((winner.m, winner.n, winner.k))
        assert (row.kernel, row.source_digest) == (winner.kernel, winner.source_digest)
        assert row.ratio and row.ratio.baseline == "torch.mm"
        assert (row.ratio.median, row.ratio.low, row.ratio.high) == pytest.approx(
            (winner.ratio, winner.low, winner.high)
        )
        code_text = Path("out", f"{winner.kernel}.cu").read_text()
        flat = " ".join(line.removeprefix("//").strip() for line in code_text.splitlines()[:80])
        assert "run on Imaginary H200, driver 1.2.3" in flat
        assert "right at 1 problems, 1 of them bit for bit on integers" in flat
        assert f"of the speed of {TUNED}" in flat and "no spill" in flat
    assert not rows
    assert kgen("check", "out")[0] == 0
    assert kgen("ship", "--to", "out")[0] == 0, "the folder is repaired from its lock alone"


def test_a_sweep_that_no_gpu_ran_ships_by_static_figures_and_says_so(swept, kgen) -> None:
    results = swept(on="none")
    code, _, err = kgen("ship", "--from-sweep", str(results), "--to", "out")
    assert code == 0 and "no run on a GPU is recorded" in err
    table = shipped("out")
    assert {(row.ratio, row.how) for row in table.rows} == {(None, "static figures, never timed")}
    assert table.gpu == ""
    code, _, err = kgen("ship", "--from-sweep", str(results), "--to", "no", "--require-evidence")
    assert code == 1 and not Path("no").exists()


def test_a_screen_alone_is_named_in_its_row(swept, kgen) -> None:
    path = Path("tiny.sweep.yaml")
    path.write_text(path.read_text().replace("keep: 1", "keep: 0"))
    assert kgen("ship", "--from-sweep", str(swept()), "--to", "out")[0] == 0
    for row in shipped("out").rows:
        assert row.ratio is None and row.how.startswith("screened: ")
        assert row.how.endswith(" of torch.mm")


@pytest.mark.parametrize("on", ["gpu", "none"])
def test_a_winner_that_takes_scales_is_shipped_without_a_table(swept, kgen, on: str) -> None:
    base = data_folder("specs") / "hopper/fast/e4m3_scaled.yaml"
    axes = "axes: {schedule.raster.group: [4]}"
    Path("tiny.sweep.yaml").write_text(f"base: {base}\n{axes}\nproblems: {PROBLEMS}\n{FINALS}")
    results = swept(on=on)
    code, _, err = kgen("ship", "--from-sweep", str(results), "--to", "out")
    (kernel,) = {winner.kernel for winner in winners(results)}
    assert code == 0, err
    assert f"{kernel}: in no dispatch table: it takes scales, which a table does not pass on" in err
    assert "nothing of its problem was timed" not in err
    lock = load_lock(Path("out"))
    assert not lock.tables and [k.name for k in lock.kernels] == [kernel]
    assert [len(run.timings) > 0 for run in lock.kernels[0].evidence.runs] == [True] * (on == "gpu")
    assert Path("out", f"{kernel}.cu").exists() and kgen("check", "out")[0] == 0


def test_a_screen_names_what_it_was_timed_against(swept, kgen, monkeypatch) -> None:
    """The reference of an fp8 kernel is torch._scaled_mm; the fakes take its name from the host."""
    name = "torch._scaled_mm, fast accumulation"
    monkeypatch.setenv("FAKE_REFERENCE", name)
    path = Path("tiny.sweep.yaml")
    path.write_text(path.read_text().replace("keep: 1", "keep: 0"))
    results = swept()
    assert kgen("ship", "--from-sweep", str(results), "--to", "out")[0] == 0
    for row in shipped("out").rows:
        assert row.how.endswith(f" of {name}")
    for command in (["results", str(results)], ["results", str(results), "--csv"]):
        out = kgen(*command)[1]
        assert name in out and "torch.mm" not in out
    assert {winner.reference for winner in winners(results)} == {name}
    assert kgen("report", str(results), "-o", "r.html")[0] == 0
    page = Path("r.html").read_text()
    assert f"<th>{name}</th>" in page and "torch.mm" not in page


def test_winners_of_an_earlier_template_are_not_shipped(swept, kgen, monkeypatch) -> None:
    results, real = swept(), from_sweep.render

    def other(plan: Any) -> Rendered:
        found = real(plan)
        return Rendered(found.name, found.source + "// a changed template\n", found.header)

    monkeypatch.setattr(from_sweep, "render", other)
    code, _, err = kgen("ship", "--from-sweep", str(results), "--to", "out")
    assert code == 2 and "won with source" in err and "fix: kgen sweep again" in err
    assert not Path("out").exists()


def test_wrong_questions(swept, kgen) -> None:
    results = str(swept(on="none"))
    for arguments, words in (
        (["base.yaml", "--from-sweep", results], "leave the specs out"),
        (["base.yaml", "--sweep", "tiny"], "--sweep goes with --from-sweep"),
        (["--from-sweep", results, "--gpu", "NVIDIA H200"], "leave --gpu out"),
        (["--from-sweep", "gone.sqlite"], "gone.sqlite: no such results file"),
        (["--from-sweep", "base.yaml"], "base.yaml"),
        (["--from-sweep", results, "--sweep", "other"], "no sweep called other"),
    ):
        code, _, err = kgen("ship", "--to", "out", *arguments)
        assert code == 2 and words in err, (arguments, err)
    assert not Path("out").exists()
