"""The results file: kept whole, kept apart, and its questions answered."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from sweep_fakes import facts
from sweep_samples import PROBLEMS, TOOLCHAIN, fill

from kgen.bench.baselines import TUNED
from kgen.bench.protocol import Settings
from kgen.errors import KgenError
from kgen.report import page
from kgen.spec import parse_spec
from kgen.sweep import winners
from kgen.sweep.database import FullError, StoreError, exclusive
from kgen.sweep.dispatch import means
from kgen.sweep.keys import MEANINGS, build_key, timing_key
from kgen.sweep.listing import COLUMNS, as_csv, rows_of, table_text
from kgen.sweep.queries import cells_of, key_parts, ranked, settings_of
from kgen.sweep.schema import TABLES
from kgen.sweep.store import Store
from kgen.sweep.winners import finals_of


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A file with forty points."""
    path = tmp_path / "sample.sqlite"
    fill(path, 40)
    return path


# --- the file itself


def test_a_new_file_is_in_wal_mode_and_says_what_it_is(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.sqlite") as store:
        assert store.rows("PRAGMA journal_mode")[0][0] == "wal"
        assert store.rows("PRAGMA user_version")[0][0] == 1


# --- nothing stays beside it


LOGS = ("-shm", "-wal")


def _beside(path: Path) -> list[str]:
    return sorted(p.name.removeprefix(path.name) for p in path.parent.iterdir() if p != path)


def _has_log(path: Path) -> bool:
    """Whether its header says that it is read and written through a log."""
    return path.read_bytes()[18:20] == b"\x02\x02"


def _starts(path: Path) -> int:
    with Store.read(path) as store:
        return len(store.rows("SELECT * FROM start"))


def test_a_closed_file_has_no_log_and_a_reader_makes_none(sample: Path) -> None:
    assert (_has_log(sample), _beside(sample)) == (False, [])
    with Store.read(sample) as store:
        assert len(store.rows("SELECT * FROM start")) == 1
        assert _beside(sample) == []
    with Store.open(sample) as store:
        store.begin("second", "", "", {})
        assert (_has_log(sample), _beside(sample)) == (True, [*LOGS])
    assert (_has_log(sample), _beside(sample)) == (False, [])


def test_a_reader_of_a_file_with_a_log_leaves_nothing(sample: Path) -> None:
    """As every file was that an earlier kgen closed."""
    _tampered(sample, "PRAGMA journal_mode = WAL")
    assert (_has_log(sample), _starts(sample), _beside(sample)) == (True, 1, [])


def test_a_reader_that_outlives_the_writer_leaves_nothing(sample: Path) -> None:
    with Store.open(sample) as writer:
        reader = Store.read(sample)
        writer.begin("second", "", "", {})
    assert _beside(sample) == [*LOGS], "they are the reader's"
    assert len(reader.rows("SELECT * FROM start")) == 2
    reader.close()
    assert (_beside(sample), _starts(sample)) == ([], 2)


KILLED = """
import os, sys
from pathlib import Path
from kgen.sweep.store import Store
Store.open(Path(sys.argv[1])).begin("killed", "", "", {})
os._exit(9)
"""


def _kill_a_writer(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, check=False)
    assert (done.returncode, _beside(path)) == (9, [*LOGS])


def test_a_reader_folds_in_the_log_of_a_killed_writer(sample: Path) -> None:
    _kill_a_writer(sample)
    assert (_starts(sample), _beside(sample)) == (2, [])


@pytest.fixture
def anybody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that takes no file; who may write everywhere is told otherwise."""
    folder = tmp_path / "still"
    folder.mkdir()
    really = os.access

    def access(path: Any, mode: int) -> bool:
        return really(path, mode) and not (mode & os.W_OK and Path(path).is_relative_to(folder))

    monkeypatch.setattr(os, "access", access)
    return folder


@pytest.mark.parametrize("log", [False, True])
def test_a_folder_that_takes_no_file_is_read(anybody: Path, log: bool) -> None:
    path = anybody / "still.sqlite"
    fill(path, 4)
    if log:
        _tampered(path, "PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    link = anybody.parent / "link.sqlite"  # in a folder that takes files
    link.symlink_to(path)
    assert (_starts(path), _starts(link)) == (1, 1)
    assert (path.read_bytes(), _beside(path)) == (before, [])


def test_a_log_in_a_folder_that_takes_no_file_is_read_too(anybody: Path) -> None:
    path = anybody / "still.sqlite"
    fill(path, 4)
    _kill_a_writer(path)
    before = path.read_bytes()
    assert (_starts(path), path.read_bytes(), _beside(path)) == (2, before, [*LOGS])


def test_every_table_is_explained_in_the_schema() -> None:
    assert TABLES.count("CREATE TABLE") == len(re.findall(r"--[^\n]*\nCREATE TABLE", TABLES)) == 8


def _tampered(path: Path, statement: str) -> Path:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize("how", [Store.open, Store.read])
def test_a_newer_kgens_file_is_refused_and_left_alone(sample: Path, how) -> None:
    _tampered(sample, "PRAGMA user_version = 99")
    before = sample.read_bytes()
    with pytest.raises(StoreError, match=r"newer kgen \(tables 99, this one reads 1\).*upgrade"):
        how(sample)
    assert sample.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE point SET axes = '{'", "axes: not JSON"),
        ("UPDATE point SET axes = '[]'", "axes: not what kgen writes there"),
        ("UPDATE point SET rules = '3'", "rules: not what kgen writes there"),
        ("UPDATE point SET rules = x'ff00'", "rules: not JSON"),
        ("UPDATE kernel SET figures = 'fast'", "figures: not JSON"),
        ("UPDATE run SET detail = '{\"timed\"'", "detail: not JSON"),
        ('UPDATE run SET detail = \'{"timed": {"m": 1}}\'', "detail: Timed.n: Field required"),
        ("UPDATE start SET settings = '{}'", "settings: not what kgen writes there"),
        (
            "UPDATE start SET settings = json_remove(settings, '$.rank.static')",
            "settings: not what",
        ),
        ("UPDATE device SET facts = json_remove(facts, '$.driver')", "facts: not what"),
    ],
)
def test_damaged_json_is_answered(sample: Path, statement: str, words: str) -> None:
    _tampered(sample, statement)
    for question in (finals_of, lambda path: page(path, None), _listed):
        with pytest.raises(StoreError, match=words):
            question(sample)


def _listed(path: Path) -> str:
    with Store.read(path) as store:
        return table_text(store, "sample") + str(rows_of(store, "sample"))


@pytest.mark.parametrize("how", [Store.open, Store.read])
def test_other_files_are_refused_and_left_alone(tmp_path: Path, how) -> None:
    other = _tampered(tmp_path / "other.sqlite", "CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="none of kgen's results"):
        how(other)
    text = tmp_path / "text.sqlite"
    text.write_text("this is a text that is longer than the header of a database file\n" * 30)
    with pytest.raises(StoreError, match="not a results file, or damaged"):
        how(text)
    assert text.read_text().startswith("this is a text")


def test_reading_what_is_not_there_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such results file"):
        Store.read(tmp_path / "no.sqlite")
    assert not list(tmp_path.iterdir())


def test_a_reader_sees_a_file_that_is_being_written(sample: Path) -> None:
    with Store.open(sample) as writer, Store.read(sample) as reader:
        with writer.together():
            writer.forget("screened")
            assert cells_of(reader, "sample")[5].status == "screened"
        assert cells_of(reader, "sample")[5].status == "built"


def test_a_full_file_is_answered_and_keeps_what_it_has(sample: Path) -> None:
    """SQLite itself reports that no page can be added, as on a full disk."""
    with Store.open(sample) as store:
        pages = store.rows("PRAGMA page_count")[0][0]
        store.rows(f"PRAGMA max_page_count = {pages}")
        before = len(store.rows("SELECT * FROM start"))
        with pytest.raises(FullError, match="cannot grow.*everything recorded before is kept"):
            store.begin("sample", "0" * 12, "x" * 100_000, {})
    assert FullError.exit_code == 3
    with Store.read(sample) as store:
        assert store.rows("PRAGMA integrity_check")[0][0] == "ok"
        assert len(store.rows("SELECT * FROM start")) >= before


def test_a_disk_that_refuses_to_grow_files_is_answered(sample: Path) -> None:
    """The same through the operating system: a limit on the size of files."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from kgen.sweep.store import Store\n"
        "path = Path(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size,) * 2)\n"
        "with Store.open(path) as store:\n"
        "    for _ in range(1000):\n"
        "        store.begin('sample', '0' * 12, 'x' * 10_000, {})\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, sample], capture_output=True, text=True, env=environment
    )
    assert "FullError" in done.stderr and "cannot grow" in done.stderr
    with Store.read(sample) as store:
        assert store.rows("PRAGMA integrity_check")[0][0] == "ok"


def test_one_sweep_at_a_time_uses_a_file(tmp_path: Path) -> None:
    lock = tmp_path / "a.sqlite.lock"
    with (
        exclusive(lock, "a.sqlite is in use by another kgen sweep"),
        pytest.raises(KgenError, match=rf"in use by another kgen sweep \(process {os.getpid()}\)"),
        exclusive(lock, "a.sqlite is in use by another kgen sweep"),
    ):
        pass
    assert not lock.exists()
    with exclusive(lock, "free again"):
        pass


# --- questions


def test_every_point_has_a_status_and_the_lost_ones_a_reason(sample: Path) -> None:
    with Store.read(sample) as store:
        cells = cells_of(store, "sample")
    status = {c.number: c.status for c in cells}
    assert (status[0], status[3], status[7], status[11], status[20]) == (
        *("timed", "infeasible", "ptxas_rejected", "hung", "screened"),
    )
    assert all(c.reason for c in cells if c.status not in ("timed", "screened"))
    assert cells[11].reason.startswith("screen at 4096x4096x4096: no answer in 60 s")


def test_finals_rank_before_screens_and_failures_do_not_rank(sample: Path) -> None:
    with Store.read(sample) as store:
        cells = cells_of(store, "sample")
        settings = settings_of(store, "sample")["settings"]
        order = ranked(cells, (4096, 4096, 4096), settings)
    assert {c.number for c in order[:3]} == {0, 1, 2}
    ratios = [c.timings[4096, 4096, 4096].ratio for c in order]
    assert ratios[3:] == sorted(ratios[3:], key=lambda r: -(r or 0)) and len(ratios) == 33
    assert not {3, 7, 11} & {c.number for c in order}


def test_winners_carry_what_a_dispatch_table_needs(sample: Path) -> None:
    found = winners(sample)
    assert [(w.m, w.n, w.k) for w in found] == [p[1:] for p in PROBLEMS]
    best = found[0]
    assert best.stage == "final" and best.low and best.ratio and best.low < best.ratio
    assert best.gpu["name"] == "Imaginary H200" and best.toolchain == TOOLCHAIN
    assert parse_spec(best.spec_text).spec.name == best.kernel


def test_the_means_are_those_of_the_winners_finals(sample: Path) -> None:
    """Samples have cuBLASLt 2 % ahead of torch.mm; a problem without a final is not in a mean."""
    with Store.read(sample) as store:
        cells = cells_of(store, "sample")
    best = {w.source_digest for w in winners(sample)}
    timings = [t for c in cells if c.source_digest in best for t in c.timings.values()]
    torch, tuned = means(timings)
    ratios = [t.ratio for t in timings if t.ratio]
    assert torch.ratio.median == pytest.approx(math.exp(np.mean(np.log(ratios))))
    assert tuned.ratio.median == pytest.approx(0.98 * torch.ratio.median)
    assert (torch.baseline, tuned.baseline) == ("torch.mm", TUNED)
    assert torch.ratio.low < torch.ratio.median < torch.ratio.high
    screened = next(t for c in cells for t in c.timings.values() if t.stage == "screen")
    more = means([*timings, screened, None])
    assert [m.ratio for m in more] == [torch.ratio, tuned.ratio]
    assert [(m.problems, m.of) for m in more] == [(len(timings), len(timings) + 2)] * 2
    assert not means([screened, None])


def test_static_winners_say_so(tmp_path: Path) -> None:
    fill(tmp_path / "s.sqlite", 10, timed=False)
    best = winners(tmp_path / "s.sqlite")[0]
    assert (best.stage, best.ratio, best.gpu) == ("static", None, {})


def test_results_of_another_toolchain_or_gpu_do_not_count(sample: Path) -> None:
    with Store.open(sample) as store:
        store.put_setting(1, "device", "another")
        assert {c.status for c in cells_of(store, "sample")} >= {"built"}
        assert not any(c.timings for c in cells_of(store, "sample"))
        store.put_setting(1, "toolchain", "another")
        assert {c.status for c in cells_of(store, "sample")} == {"infeasible", "pending"}


def test_forgetting_a_status_drops_its_work_only(sample: Path) -> None:
    with Store.open(sample) as store:
        before = len(store.rows("SELECT * FROM run"))
        assert store.forget("hung") == 1
        assert len(store.rows("SELECT * FROM run")) == before - 1


def test_a_key_changes_with_each_of_its_parts_and_explains_them(sample: Path) -> None:
    gpu, window = facts().value, Settings((10,), 3, 0.0)
    base = ("screen", "abc", TOOLCHAIN, gpu, "1x2x3", window)
    others = [
        ("final", *base[1:]),
        ("screen", "abd", *base[2:]),
        (*base[:2], "nvrtc 14", *base[3:]),
        (*base[:3], gpu | {"driver": "2"}, *base[4:]),
        (*base[:3], gpu | {"name": "H100"}, *base[4:]),
        (*base[:3], gpu | {"reference": "torch.mm, torch 3"}, *base[4:]),
        (*base[:4], "1x2x4", window),
        (*base[:5], Settings((20,), 3, 0.0)),
    ]
    digests = {timing_key(*arguments).digest for arguments in [base, *others]}
    assert len(digests) == len(others) + 1
    elsewhere = gpu | {"pci_bus_id": "0000:01:00.0"}
    assert timing_key(*base[:3], elsewhere, *base[4:]) == timing_key(*base)
    assert set(dict(timing_key(*base).parts)) <= set(MEANINGS)
    with Store.read(sample) as store:
        by_kernel = key_parts(store, "sample_00000000")
        key = build_key("0" * 12, TOOLCHAIN).digest
        assert key_parts(store, key[:8])[key] == by_kernel[key]
        assert {p["stage"] for p in by_kernel.values()} == {"build", "final"}
        with pytest.raises(KgenError, match="no key, kernel or source digest 'zz'"):
            key_parts(store, "zz")


# --- listings


def test_csv_and_json_hold_every_point(sample: Path) -> None:
    import csv
    import io

    with Store.read(sample) as store:
        rows = rows_of(store, "sample")
        read = list(csv.DictReader(io.StringIO(as_csv(rows))))
        text = table_text(store, "sample", 2)
    assert len(rows) == len(read) == 36 * 3 + 4 and set(COLUMNS) <= set(read[0])
    assert json.loads(read[0]["schedule.tile"]) == {"m": 64, "n": 256, "k": 64}
    best = [r for r in rows if r["rank"] == 1]
    assert [r["problem"] for r in best] == [p[0] for p in PROBLEMS]
    assert "4 infeasible, 2 ptxas_rejected, 1 hung, 30 screened, 3 timed" in text
    assert text.count("sample_0000") == 6


def test_a_file_of_several_sweeps_wants_a_name(sample: Path) -> None:
    fill(sample, 5, name="second")
    with pytest.raises(KgenError, match=r"holds 2 sweeps \(sample, second\); fix: --sweep NAME"):
        winners(sample)
    assert winners(sample, "second")
    with pytest.raises(KgenError, match="no sweep called third; in this file: sample, second"):
        winners(sample, "third")
