"""The command line: exit codes, JSON, and a text instead of a traceback for everything wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.bench.tables import BEGIN, END, LADDER_BEGIN, LADDER_END
from kgen.check import current_digests
from kgen.cli.main import main

V6_SPEC = Path(__file__).resolve().parents[2] / "specs" / "hopper" / "v6.yaml"


@pytest.fixture
def kgen(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder: `kgen("render", "x.yaml")` gives code, out, err."""
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
def project(tmp_path, v6):
    """`specs/hopper/x.yaml` in the folder that `kgen` runs in."""
    spec = tmp_path / "specs" / "hopper" / "x.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text(v6())
    return spec


# --- good answers ---------------------------------------------------------------------------------


def test_render_then_check_is_clean(kgen, project):
    code, out, err = kgen("render", "specs")
    assert (code, err) == (0, "")
    assert out == "generated/hopper/sample.cu  written\ngenerated/hopper/sample.h  written\n"
    code, out, err = kgen("render", "specs")
    assert out == "generated/hopper/sample.cu  unchanged\ngenerated/hopper/sample.h  unchanged\n"
    assert kgen("check") == (0, "1 specs, every generated file is up to date\n", "")


def test_render_into_a_named_folder(kgen, project):
    code, _, _ = kgen("render", "specs/hopper/x.yaml", "-o", "out")
    assert code == 0
    assert sorted(os.listdir("out")) == ["sample.cu", "sample.h"]


def test_check_says_no_with_diff_and_repair(kgen, project):
    kgen("render", "specs")
    path = Path("generated/hopper/sample.cu")
    path.write_text(path.read_text().replace("kStages = 3", "kStages = 4"))
    code, out, _ = kgen("check")
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == (
        "generated/hopper/sample.cu: edited: "
        "changed by hand or by a formatter since it was generated"
    )
    assert "    -constexpr int kStages = 4;          // depth of the A/B ring" in lines
    assert "    repair: kgen render specs/hopper/x.yaml" in lines
    code, out, _ = kgen("check", "--json")
    assert code == 1
    (row,) = json.loads(out)
    assert (row["kind"], row["repair"]) == ("edited", "kgen render specs/hopper/x.yaml")


def test_the_repair_that_check_prints_repairs(kgen, project):
    kgen("render", "specs")
    Path("generated/hopper/sample.h").unlink()
    code, out, _ = kgen("check", "--json")
    assert code == 1
    command = json.loads(out)[0]["repair"].split()
    assert command[0] == "kgen"
    assert kgen(*command[1:])[0] == 0
    assert kgen("check")[0] == 0


def test_reports_parse_as_json(kgen, project):
    for command in (
        ["render", "specs", "--json"],
        ["check", "--json"],
        ["explain", "specs/hopper/x.yaml", "--json"],
        ["schema"],
    ):
        code, out, _ = kgen(*command)
        assert code == 0
        json.loads(out)


def test_schema_goes_to_a_file(kgen):
    assert kgen("schema", "-o", "s.json")[:2] == (0, "")
    assert json.loads(Path("s.json").read_text())["title"] == "kgen kernel spec"


def test_new_then_explain(kgen):
    code, out, err = kgen("new", "mine.yaml")
    assert (code, out, err) == (0, "", "mine.yaml written; next: kgen explain mine.yaml\n")
    code, out, _ = kgen("explain", "mine.yaml")
    assert code == 0
    assert out.startswith("mine   sm_90a (H100, H200)   spec ")


def test_new_lists_the_shipped_specs(kgen):
    code, out, _ = kgen("new", "--list")
    assert code == 0
    rows = [re.fullmatch(r"(\S+)(  +)(\S.*)", line) for line in out.splitlines()]
    assert all(rows), out
    columns = {row.start(3) for row in rows if row}
    assert columns == {max(len(row[1]) for row in rows if row) + 2}
    names = {row[1]: row[3] for row in rows if row}
    assert names["hopper/v6"] == "Hopper V6: four consumer warpgroups on a 256 x 256 tile."


def test_version(kgen):
    code, out, _ = kgen("--version")
    assert code == 0
    assert re.fullmatch(r"kgen \d+\.\d+\.\d+\n", out)


def test_doctor_tries_every_ability(kgen):
    code, out, _ = kgen("doctor", "--json")
    assert code == 0
    rows = {row["what"]: row for row in json.loads(out)}
    assert rows["render, check, explain"]["works"] is True
    assert rows["render, check, explain"]["detail"].startswith("v6.yaml renders, source ")
    assert all(row["detail"] for row in rows.values())


# --- the question was wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["render", "no.yaml"], "no.yaml: no such spec file or folder\n"),
        (["explain", "no.yaml"], "no.yaml: No such file or directory\n"),
        (["explain", "."], ".: Is a directory\n"),
        (["build", "no.yaml"], "no.yaml: No such file or directory\n"),
        (["check"], "specs: no such folder of specs; name it with --specs\n"),
        (["check", "generatde"], "generatde: no such folder of generated files\n"),
        (["check", V6_SPEC], f"{V6_SPEC}: no such folder of generated files\n"),
        (["check", "none", "--digests"], "none: no such folder of generated files\n"),
        (["new"], "name the file to write, or use --list\n"),
        (["new", "x.txt"], "x.txt: a spec file ends in .yaml\n"),
        (["new", "no/x.yaml"], "no/x.yaml: No such file or directory\n"),
        (["schema", "-o", "no/x.json"], "no/x.json: No such file or directory\n"),
        (
            ["build", V6_SPEC, "--compiler", "gcc"],
            "--compiler: gcc is not one of nvrtc, nvcc\n",
        ),
        (
            ["build", V6_SPEC, "--emit", "exe"],
            "--emit: exe is not one of cubin, ptx, so\n",
        ),
    ],
)
def test_a_wrong_question_exits_2_with_its_text(kgen, arguments, text):
    assert kgen(*arguments) == (2, "", text)


@pytest.mark.parametrize("arguments", [["frob"], ["render"], ["--bogus"], ["explain", "a", "b"]])
def test_wrong_flags_exit_2(kgen, arguments):
    code, out, err = kgen(*arguments)
    assert (code, out) == (2, "")
    assert "Error" in err
    assert "Traceback" not in err


def test_a_bad_spec_exits_2_and_shows_the_line(kgen, project, v6):
    project.write_text(v6({"stages: 3": "stages: 4"}))
    for command in ("render", "explain", "build"):
        code, out, err = kgen(command, "specs/hopper/x.yaml")
        assert (code, out) == (2, "")
        assert err.startswith(
            "specs/hopper/x.yaml:12:11: schedule.stages: 4 stages do not fit in sm_90a shared "
            "memory\n    12 |   stages: 4\n"
        )
    assert not Path("generated").exists()


def test_nothing_is_written_when_one_of_several_specs_is_bad(kgen, project, v6):
    (project.parent / "y.yaml").write_text(v6({"stages: 3": "stage: 3"}))
    assert kgen("render", "specs")[0] == 2
    assert not Path("generated").exists()


@pytest.mark.parametrize("target", ["file", "file/sub"])
def test_an_output_that_is_no_folder_exits_2(kgen, project, target):
    Path("file").write_text("")
    code, out, err = kgen("render", "specs", "-o", target)
    assert (code, out) == (2, "")
    assert err == f"{target}: not a folder\n"


def test_new_does_not_overwrite(kgen):
    Path("x.yaml").write_text("mine")
    assert kgen("new", "x.yaml") == (
        2,
        "",
        "x.yaml exists; kgen does not overwrite a spec\n",
    )
    assert Path("x.yaml").read_text() == "mine"


@pytest.mark.parametrize("stem", ["3d", "int", "a b", "x__y", "-x", "é"])
def test_new_refuses_a_stem_that_is_no_name(kgen, stem):
    code, _, err = kgen("new", "--", f"{stem}.yaml")
    assert code == 2
    assert err.startswith(f"{stem}.yaml:")
    assert ": name: " in err
    assert not Path(f"{stem}.yaml").exists()


# --- this machine cannot --------------------------------------------------------------------------


def test_a_missing_toolchain_exits_3(kgen):
    code, out, err = kgen("build", V6_SPEC, "--compiler", "nvcc", "--toolchain", "/no/where")
    assert (code, out) == (3, "")
    assert "/no/where" in err
    assert "Traceback" not in err


def test_a_missing_gpu_library_exits_3(kgen, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = kgen("verify", V6_SPEC, "--on", "gpu")
    assert (code, out) == (3, "")
    assert "cupy is not installed" in err


# --- as a process ---------------------------------------------------------------------------------


def test_a_process_exits_with_the_code_and_no_traceback(tmp_path):
    bad = tmp_path / "x.yaml"
    bad.write_bytes(b"\xff\xfe")
    done = subprocess.run(
        [sys.executable, "-m", "kgen.cli.main", "explain", str(bad)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == f"{bad}:1:1: byte 0 is not UTF-8\n"


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m kgen.cli.main explain {V6_SPEC} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_check_names_what_was_recorded_of_earlier_sources(kgen, project):
    """A remark: exit code 0."""
    kgen("render", "specs")
    digest = current_digests(Path("specs"))["sample"]
    record = Path("benchmarks/gpu_tests.json")
    record.parent.mkdir()
    for tested, stale in ((digest, []), ("1" * 12, ["sample was tested as source 111111111111"])):
        record.write_text(json.dumps({"date": "2026-11-30", "sources": {"sample": tested}}))
        code, out, err = kgen("check")
        assert (code, err) == (0, "")
        assert out.splitlines()[1:] == [f"{record}: stale test: {what}" for what in stale]
        rows = [{"path": str(record), "kind": "stale test", "what": what} for what in stale]
        assert json.loads(kgen("check", "--json")[1]) == rows
    record.write_text(json.dumps({"sources": {"sample": digest, "gone": "2" * 12}}))
    assert "gone was tested as source 222222222222" in kgen("check")[1]


@pytest.mark.parametrize("text", ["{", "[]", '{"sources": 1}', "{}"])
def test_check_refuses_what_is_no_record_of_tests(kgen, project, text):
    kgen("render", "specs")
    record = Path("benchmarks/gpu_tests.json")
    record.parent.mkdir()
    record.write_text(text)
    code, out, err = kgen("check")
    assert (code, out) == (2, "")
    assert err.startswith(f"{record}: not a record of GPU tests: ")


def test_results_write_the_tables_and_the_chart(kgen, project, tmp_path):
    (tmp_path / "results").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text(f"{LADDER_BEGIN}\n{LADDER_END}\n{BEGIN}\n{END}\n")
    code, out, err = kgen("results", "results", "--update", readme, "--chart", "c.svg")
    assert (code, out) == (0, "")
    assert err == f"{readme}: rewritten\nc.svg: written\n"
    assert (tmp_path / "c.svg").read_text().startswith("<svg ")
    assert "what it adds" in readme.read_text()
    assert kgen("results", "results", "--chart", "no/c.svg")[0] == 2
