"""Same spec, same bytes, whatever the process, hash seed and folder; and fast."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen import check
from kgen.plan import lower
from kgen.render import render
from kgen.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = check.find_specs([ROOT / "specs"])
LIMIT_MS = 60.0  # three times the promised 20 ms, so that a busy machine does not fail the test


def render_elsewhere(seed: str, folder: Path, specs: Path) -> dict[str, bytes]:
    """The rendered files of a fresh process that runs in `folder`."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": f"UTC+{len(seed)}"}
    subprocess.run(
        [sys.executable, "-m", "kgen.cli.main", "render", str(specs), "-o", str(folder / "out")],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    return {p.name: p.read_bytes() for p in sorted((folder / "out").iterdir())}


def test_two_processes_write_the_same_bytes(tmp_path):
    linked = tmp_path / "other" / "specs"
    linked.parent.mkdir()
    linked.symlink_to(ROOT / "specs")
    first = render_elsewhere("1", tmp_path / "first", ROOT / "specs")
    second = render_elsewhere("4242", tmp_path / "second", linked)
    assert len(first) == 2 * len(SPECS)
    assert first == second
    committed = {p.name: p.read_bytes() for p in (ROOT / "generated").rglob("*.h")}
    assert {n: text for n, text in first.items() if n.endswith(".h")} == committed


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.stem)
def test_a_spec_renders_within_the_limit(spec):
    def once() -> float:
        start = time.process_time()
        render(lower(load_spec(spec)))
        return (time.process_time() - start) * 1e3

    once()
    median = statistics.median(once() for _ in range(15))
    print(f"{spec.name}: {median:.1f} ms")
    assert median < LIMIT_MS


def test_nothing_of_this_machine_is_in_the_text(source_of):
    source = source_of()
    for word in (str(ROOT), str(Path.home()), os.uname().nodename, "/tmp"):
        if len(word) > 3:
            assert word not in source
