"""The command line where the machine says no: full disks, signals, locked and odd files."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen.cli.main import main
from kgen.files import read_regular, write_new, write_whole

V6_SPEC = Path(__file__).resolve().parents[2] / "specs" / "hopper" / "v6.yaml"
KGEN = [sys.executable, "-m", "kgen.cli.main"]


def process(*arguments: object, **options) -> subprocess.CompletedProcess:
    words = [*KGEN, *map(str, arguments)]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60, **options)


@pytest.fixture
def kgen(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr(sys, "argv", ["kgen", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return run


# --- files ----------------------------------------------------------------------------------------


def test_names_and_kinds_of_files_that_no_system_takes_are_texts(kgen, v6):
    long = "n" * 300
    os.mkfifo("pipe.yaml")
    Path("x.yaml").write_text(v6())
    assert kgen("render", long) == (2, "", f"{long}: File name too long\n")
    assert kgen("explain", "/dev/zero") == (2, "", "/dev/zero: not a regular file\n")
    assert kgen("explain", "pipe.yaml") == (2, "", "pipe.yaml: not a regular file\n")
    assert kgen("render", ".") == (2, "", "pipe.yaml: not a regular file\n")
    code, _, err = kgen("render", "x.yaml", "-o", long)
    assert (code, err) == (2, f"{long}/sample.cu: File name too long\n")
    assert kgen("schema", "-o", "x.yaml/s")[0] == 2
    assert kgen("check", long)[0] == 2


def test_emulate_names_a_file_that_it_cannot_read_or_write_once(kgen):
    Path("x.ptx").write_text(".version 8.0")
    Path("x.yaml").write_text("kernel: k\ngrid: [1, 1, 1]\nblock: [1, 1, 1]\n")
    Path("bits").write_bytes(b"\xff")
    missing = "No such file or directory"
    for file, launch, said in (
        ("none.ptx", "x.yaml", f"none.ptx: {missing}"),
        ("bits", "x.yaml", "bits: not UTF-8 text"),
        ("x.ptx", "none.yaml", f"none.yaml: {missing}"),
        ("x.ptx", "bits", "bits: not UTF-8 text"),
    ):
        assert kgen("emulate", file, "--launch", launch) == (2, "", f"{said}\n")
    for option in ("--outputs", "--timeline", "--picture"):
        found = kgen("emulate", "x.ptx", "--launch", "x.yaml", option, "none/x")
        assert found == (2, "", f"none: {missing}\n"), "before the run, whose report it would lose"
        found = kgen("emulate", "x.ptx", "--launch", "x.yaml", option, "bits/x")
        assert found == (2, "", "bits: not a folder\n")


@pytest.mark.parametrize("option", ["--keep", "--record"])
def test_verify_looks_at_its_folders_first(kgen, no_toolchain, option):
    """Not where the run, of minutes, has ended."""
    Path("file").touch()
    found = kgen("verify", V6_SPEC, "--on", "emulator", option, "file")
    assert found == (2, "", "file: not a folder\n")


def test_bench_looks_at_its_folder_first(kgen, no_toolchain):
    """Not where the kernel has been measured."""
    Path("file").touch()
    assert kgen("bench", V6_SPEC, "-o", "file") == (2, "", "file: not a folder\n")
    Path("results").mkdir()
    Path("results/hopper_v6.some-gpu.json").write_text('{"schema_version": 2}')
    found = kgen("bench", V6_SPEC, "-o", "results")
    assert found[:2] == (2, "")
    assert found[2].startswith("results/hopper_v6.some-gpu.json: schema 2 is newer than")


def test_trouble_with_the_cache_is_this_machines(kgen, monkeypatch):
    monkeypatch.setenv("KGEN_CACHE", "n" * 300)
    code, out, err = kgen("build", V6_SPEC)
    assert (code, out) == (3, "")
    assert err.endswith(": File name too long\n")


def test_an_error_without_a_file_is_a_bug_and_stays_one(kgen, monkeypatch):
    def broken(_path):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("kgen.spec.load_spec", broken)
    with pytest.raises(OSError, match="Bad file descriptor"):
        kgen("explain", V6_SPEC)


def test_a_spec_outside_of_specs_is_not_rendered_outside_of_the_folder(kgen, tmp_path, v6):
    (tmp_path / "a" / "specs").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "k.yaml").write_text(v6())
    os.chdir("a")
    assert kgen("render", "specs/../../outside/k.yaml")[0] == 0
    assert sorted(os.listdir(tmp_path / "a")) == ["sample.cu", "sample.h", "specs"]
    assert os.listdir(tmp_path / "outside") == ["k.yaml"]


@pytest.mark.parametrize("write", [write_whole, write_new])
def test_a_full_disk_leaves_nothing_behind(tmp_path, write):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            write(tmp_path / "x", b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.filename == str(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_writers_keep_to_their_file(tmp_path):
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "link").symlink_to("victim")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "victim").read_text() == "untouched"
    assert (tmp_path / "link").read_text() == "new"
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "victim", b"new")
    assert (tmp_path / "victim").read_text() == "untouched"
    write_whole(Path(os.devnull), b"gone")
    assert not Path(os.devnull).is_file()
    assert read_regular(tmp_path / "victim", 3) == b"unto"


# --- output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["explain", V6_SPEC], ["schema"], ["new", "--list"], ["--help"]]
)
def test_a_full_output_is_a_text_and_exits_3(arguments):
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert done.returncode == 3
    assert done.stderr.endswith("No space left on device\n")
    assert len(done.stderr.splitlines()) == 1


def test_an_error_that_a_full_output_does_not_take_keeps_its_code(tmp_path):
    (tmp_path / "x.yaml").write_text("name: x\n" + "unknown: 1\n")
    for arguments in (["explain", tmp_path / "x.yaml", "--json"], ["explain", "none", "--json"]):
        with open("/dev/full", "w") as full:
            done = process(*arguments, stdout=full)
        assert done.returncode == 2
        assert "x.yaml:2:1" in done.stderr or "none: " in done.stderr


def test_an_ascii_output_shows_what_it_can(tmp_path, v6):
    folder = tmp_path / "größe"
    folder.mkdir()
    (folder / "x.yaml").write_text(v6())
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = process("render", folder, "-o", folder, stdout=subprocess.PIPE, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe/sample.cu  written" in done.stdout


def test_errors_are_json_where_json_is_asked_for(kgen, v6):
    Path("x.yaml").write_text(v6({"stages: 3": "stage: 3"}))
    code, out, err = kgen("explain", "x.yaml", "--json")
    assert (code, err) == (2, "")
    answer = json.loads(out)
    assert answer["error"].startswith("x.yaml:12:3: schedule.stage: unknown key")
    assert answer["exit_code"] == 2
    (row,) = answer["diagnostics"]
    assert (row["path"], row["line"], row["column"], row["field"]) == (
        *("x.yaml", 12, 3),
        "schedule.stage",
    )
    code, out, _ = kgen("render", "no.yaml", "--json")
    assert json.loads(out) == {
        "error": "no.yaml: no such spec file or folder",
        "exit_code": code,
        "diagnostics": [],
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["verify", V6_SPEC, "--shape", "1,2"], "--shape: 1,2 is not M,N,K such as"),
        (["verify", V6_SPEC, "--shape", "1,2,²"], "--shape: 1,2,² is not M,N,K such as"),
        (["verify", V6_SPEC, "--shape", "1,2,2147483648"], "has more than 2147483647"),
        (["bench", V6_SPEC, "--cooldown", "nan"], "--cooldown nan: wants a number of seconds"),
        (["bench", V6_SPEC, "--cooldown", "inf"], "--cooldown inf: wants a number of seconds"),
    ],
)
def test_a_wrong_number_is_found_before_a_gpu_is_looked_for(kgen, monkeypatch, arguments, text):
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, out, err = kgen(*arguments)
    assert (code, out) == (2, "")
    assert text in err


def test_check_goes_on_after_a_bad_spec_and_exits_2(kgen, v6):
    Path("specs").mkdir()
    Path("specs/a.yaml").write_text(v6())
    Path("specs/b.yaml").write_text(v6({"name: sample": "name: 3d"}))
    code, out, _ = kgen("check")
    assert code == 2
    assert "generated/sample.cu: missing" in out
    assert "specs/b.yaml:1:7: name: '3d' is no kernel name" in out


def test_demo_knows_the_shipped_spec(kgen, monkeypatch):
    def no_build(*_, **__):
        raise SystemExit(99)

    monkeypatch.setattr("kgen.api.build", no_build)
    code, out, _ = kgen("demo")
    assert code == 99
    assert "hopper/v6.yaml -> hopper_v6.cu, hopper_v6.h" in out


# --- signals --------------------------------------------------------------------------------------


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_compiler_and_leaves_no_folder(tmp_path, number):
    toolkit, temporary = tmp_path / "toolkit", tmp_path / "tmp"
    (toolkit / "bin").mkdir(parents=True)
    temporary.mkdir()
    nvcc = toolkit / "bin" / "nvcc"
    nvcc.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo "Build x V13.0.1" && exit 0\n'
        f"echo $$ > {tmp_path}/pid.part && mv {tmp_path}/pid.part {tmp_path}/pid\n"
        "sleep 100\n"
    )
    nvcc.chmod(0o755)
    env = {**os.environ, "TMPDIR": str(temporary), "KGEN_CACHE": str(tmp_path / "cache")}
    command = [*KGEN, "build", V6_SPEC, "--compiler", "nvcc", "--toolchain", toolkit]
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < until and child.poll() is None
        time.sleep(0.02)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert (child.returncode, err) == (128 + number, "")
    assert os.listdir(temporary) == []
    compiler = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10  # init reaps an orphan when it gets to it
    while time.monotonic() < until and is_running(compiler):
        time.sleep(0.05)
    assert not is_running(compiler)
