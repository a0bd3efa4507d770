"""The commands around sweeps: what they print, and their exit codes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import F32, ROOT, V6, changed
from sweep_samples import fill

from kgen.cli import sweep_commands
from kgen.cli.main import main
from kgen.errors import KgenError
from kgen.sweep.database import exclusive
from kgen.sweep.figures import figure_text


@pytest.fixture
def kgen(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder: gives code, out, err."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kgen", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(changed(F32, V6))
    file = tmp_path / "tiny.sweep.yaml"
    file.write_text(
        "base: base.yaml\naxes: {schedule.stages: [2, 4, 5]}\nproblems: [[512, 512, 256]]\n"
    )
    return file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    fill(tmp_path / "sample.sqlite", 12)
    return tmp_path / "sample.sqlite"


def test_a_dry_run_explains_and_writes_nothing(kgen, sweep: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    code, out, err = kgen("sweep", sweep, "--dry-run")
    assert (code, err) == (0, "") and set(tmp_path.iterdir()) == before
    assert out.splitlines() == [
        f"{sweep}: 3 points, 2 fit, 2 different kernels, 1 problems",
        "removed by (points that break it; points that break nothing else)",
        "      1       1  schedule.stages: N stages do not fit in sm_90a shared memory",
        "                 e.g. schedule.stages: 5 stages do not fit in sm_90a shared memory",
        "warning: schedule.stages = 5: none of 1 points survives; 1 break: "
        "schedule.stages: N stages do not fit in sm_90a shared memory",
    ]
    code, out, _ = kgen("sweep", sweep, "--dry-run", "--json")
    assert code == 0 and json.loads(out)["fit"] == 2


def test_a_dry_run_shows_its_progress_on_a_terminal(kgen, sweep: Path, monkeypatch) -> None:
    answer = kgen("sweep", sweep, "--dry-run", "--json")[1]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = kgen("sweep", sweep, "--dry-run", "--json")
    assert (code, out) == (0, answer)
    assert re.search(r"points .*3/3 in 0 s +2 fits, 1 infeasible", err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--on", "tpu"], "--on: tpu is not one of auto, gpu, emulator, none"),
        (["--retry", "slow"], "--retry: slow is not one of"),
        (["--results", "none/x.sqlite"], "none/x.sqlite"),
        (["--results", ""], ".: is a folder; results are kept in a file"),
        (["--results", "."], ".: is a folder; results are kept in a file"),
        (["--results", "/"], "/: is a folder; results are kept in a file"),
    ],
)
def test_wrong_options(kgen, sweep: Path, arguments: list[str], words: str) -> None:
    code, out, err = kgen("sweep", sweep, *arguments)
    assert (code, out) == (2, "") and words in err


def test_a_wrong_sweep_file_is_answered_with_its_line(kgen, sweep: Path) -> None:
    sweep.write_text(sweep.read_text().replace("schedule.stages", "schedule.stagse"))
    code, _, err = kgen("sweep", sweep)
    assert code == 2 and "tiny.sweep.yaml:2:8: axes: schedule.stagse: no field of a spec" in err
    code, out, _ = kgen("sweep", sweep, "--json")
    assert json.loads(out)["diagnostics"][0]["line"] == 2


def test_an_empty_space_is_refused_before_a_file_is_made(kgen, sweep: Path, tmp_path: Path) -> None:
    sweep.write_text(sweep.read_text().replace("[2, 4, 5]", "[8, 9]"))
    code, _, err = kgen("sweep", sweep)
    assert code == 2 and "the space is empty: none of 2 points fits" in err
    assert not list(tmp_path.glob("*.sqlite*"))


def test_a_link_to_results_in_use_leads_to_the_same_lock(kgen, sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "tiny.sqlite").symlink_to("real/r.sqlite")
    with exclusive(tmp_path / "real" / "r.sqlite.lock", "in use"):
        code, _, err = kgen("sweep", sweep, "--on", "none")
    assert (
        code == 2 and f"tiny.sqlite is in use by another kgen sweep (process {os.getpid()})" in err
    )


def test_another_files_results_are_not_overwritten(kgen, sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.sqlite").write_text("my notes\n" * 100)
    code, _, err = kgen("sweep", sweep, "--on", "none")
    assert code == 2 and "not a results file, or damaged" in err
    assert (tmp_path / "tiny.sqlite").read_text().startswith("my notes")


def test_results_of_a_sweep(kgen, results: Path) -> None:
    code, out, _ = kgen("results", results)
    assert code == 0 and out.startswith("sample: 12 points") and "4096x4096x4096 (M x N x K" in out
    assert "as these finals chose it; geometric means" in out
    assert " of torch.mm, over 3 problems" in out
    assert " of cuBLASLt, best candidate, over 3 problems" in out
    code, out, _ = kgen("results", results, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and len(rows) == 11 * 3 + 1 and rows[0]["kernel"] == "sample_00000000"
    code, out, _ = kgen("results", "show", results, "--json", "--sweep", "sample")
    assert code == 0 and len(json.loads(out)) == len(rows)
    code, _, err = kgen("results", results, "--sweep", "other")
    assert code == 2 and "no sweep called other; in this file: sample" in err


def test_what_a_key_is_made_of(kgen, results: Path) -> None:
    code, out, _ = kgen("results", "key", results, "sample_00000001")
    assert code == 0 and out.count("toolchain  nvrtc 13.5.37") == 4
    assert "driver     1.2.3" in out and "the display driver" in out
    code, out, _ = kgen("results", "key", results, "sample_00000001", "--json")
    parts = json.loads(out)
    assert {p["stage"] for p in parts.values()} == {"build", "final"}
    code, _, err = kgen("results", "key", results, "nothing")
    assert code == 2 and "no key, kernel or source digest 'nothing'" in err


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_looking_at_results_leaves_no_file_beside_them(kgen, results: Path, journal: str) -> None:
    with contextlib.closing(sqlite3.connect(results)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    for words in ([], ["--csv"], ["--json"]):
        assert kgen("results", results, *words)[0] == 0
    assert kgen("results", "key", results, "sample_00000001")[0] == 0
    assert kgen("report", results)[0] == 0
    assert {p.name for p in results.parent.iterdir()} == {"sample.sqlite", "sample.html"}


def test_results_that_are_not_there(kgen, tmp_path: Path) -> None:
    code, _, err = kgen("results", "none.sqlite")
    assert code == 2 and "no such results file; `kgen sweep` writes one" in err
    code, _, err = kgen("results", "none")
    assert code == 2 and "none: no such folder of results" in err


@pytest.mark.parametrize("option", [["--csv"], ["--sweep", "tiny"]])
def test_options_of_a_sweep_are_refused_for_bench_results(kgen, option: list[str]) -> None:
    code, out, err = kgen("results", ROOT / "benchmarks" / "results", *option)
    assert (code, out) == (2, "") and "--csv and --sweep are for a sweep's results file" in err


def test_bytes_are_shown_whole(kgen, tmp_path: Path) -> None:
    """A ring of 100001 bytes in a static ranking is no 1e+05; what is not whole has five digits."""
    fill(tmp_path / "static.sqlite", 3, timed=False)
    code, out, _ = kgen("results", "static.sqlite")
    assert code == 0 and "ranked by static figures" in out
    assert " 100001 " in out and "e+0" not in out
    assert [figure_text(x) for x in (245760, 1e5, 0.00146484375)] == [
        *("245760", "100000", "0.0014648"),
    ]


def test_the_folder_of_bench_results_still_shows(kgen) -> None:
    folder, specs = ROOT / "benchmarks" / "results", ROOT / "specs"
    plain = kgen("results", folder, "--specs", specs)
    assert plain[0] == 0 and plain == kgen("results", "show", folder, "--specs", specs)


@pytest.mark.parametrize("path", ["", ".", "/", "none.sqlite"])
def test_a_report_of_no_file_is_refused(kgen, path: str) -> None:
    code, out, err = kgen("report", path)
    assert (code, out) == (2, "") and "no such results file" in err


def test_a_report_is_written_whole(kgen, results: Path, tmp_path: Path) -> None:
    code, out, _ = kgen("report", results)
    assert (code, out) == (0, f"{tmp_path / 'sample.html'}\n")
    assert (tmp_path / "sample.html").read_text().startswith("<!doctype html>")
    code, out, _ = kgen("report", results, "-o", "r.html")
    assert code == 0 and (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("options", "minutes"),
    [
        ([], 7.0),
        (["--build-only"], None),
        (["--build-only", "--minutes", "2"], 2.0),
        (["--minutes", "3"], 3.0),
    ],
)
def test_the_minutes_of_a_file_are_the_gpus(
    kgen, sweep: Path, monkeypatch, options: list[str], minutes: float | None
) -> None:
    """A start that only compiles is cut short by its own command alone."""
    sweep.write_text(sweep.read_text() + "budget: {minutes: 7}\n")
    asked = []

    def session(found: Any, *_: Any) -> Any:
        asked.append(found.file.budget.minutes)
        raise KgenError("far enough")

    monkeypatch.setattr(sweep_commands, "_session", session)
    code, _, err = kgen("sweep", sweep, *options)
    assert (code, asked) == (2, [minutes]) and "far enough" in err


@pytest.mark.parametrize("command", [["sweep"], ["results"], ["results", "key"], ["report"]])
def test_help(kgen, command: list[str]) -> None:
    code, out, _ = kgen(*command, "--help")
    assert code == 0 and "Usage:" in out and command[-1] in out


def test_a_missing_library_is_named_with_its_remedy(kgen, sweep: Path, monkeypatch) -> None:
    """Results and reports of others can be read without what sweeps need."""
    for name in [n for n in sys.modules if n.startswith(("kgen.sweep.", "pebble", "simpleeval"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pebble", None)
    monkeypatch.setitem(sys.modules, "simpleeval", None)
    code, _, err = kgen("sweep", sweep)
    assert code == 3 and "pip install pebble simpleeval" in err
    sweep.write_text(sweep.read_text() + "constraints: {few: schedule.stages < 4}\n")
    code, _, err = kgen("sweep", sweep, "--dry-run")
    assert code == 3 and "constraints need simpleeval" in err
    assert kgen("results", "none.sqlite")[0] == 2
