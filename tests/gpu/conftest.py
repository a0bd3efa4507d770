"""Fixtures of the GPU tests (`make gpu`); where something is missing, the skip says what."""

from __future__ import annotations

import collections
import datetime
import json
import os
from pathlib import Path

import pytest
from device import Loaded, load

from kgen.errors import DeviceError
from kgen.paths import data_folder
from kgen.run.launch import import_cupy

SPECS = sorted(p for p in data_folder("specs").rglob("*.yaml") if ".sweep" not in p.suffixes)


@pytest.fixture
def gpu() -> None:
    """A GPU with cupy and torch; skips with the reason where there is none."""
    try:
        import_cupy()
    except DeviceError as error:
        pytest.skip(str(error))
    pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(params=SPECS, ids=[p.stem for p in SPECS])
def spec(request: pytest.FixtureRequest) -> Path:
    """Every shipped spec."""
    return request.param


@pytest.fixture
def loaded(gpu: None, spec: Path) -> Loaded:
    """Every shipped kernel of 16-bit operands whose target the current GPU is."""
    try:
        found = load(spec)
    except DeviceError as error:
        pytest.skip(str(error))
    if found.plan.map_a.dtype.bits != 16:
        pytest.skip(f"written for 16-bit operands; test_variants verifies {found.plan.name}'s type")
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what ran where into the file that KGEN_GPU_RECORD names: tests, outcomes, sources."""
    record = os.environ.get("KGEN_GPU_RECORD")
    outcomes: dict[str, collections.Counter[str]] = {}
    skips: set[str] = set()
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            test = report.nodeid.split("[")[0]
            outcomes.setdefault(test, collections.Counter())[outcome] += 1
            if outcome == "skipped" and isinstance(report.longrepr, tuple):
                skips.add(report.longrepr[2])
    if not record or not outcomes:
        return
    from kgen.bench.device import gpu_facts
    from kgen.bench.session import library_versions
    from kgen.check import current_digests

    try:
        facts = gpu_facts()
        count = import_cupy().cuda.runtime.getDeviceCount()
    except ImportError as error:
        terminalreporter.write_line(f"no record written: {error}")
        return
    data = {
        "date": datetime.date.today().isoformat(),
        "gpu": {"name": facts["name"], "count": count, "driver": facts["driver"]},
        "libraries": library_versions(),
        "sources": current_digests(data_folder("specs")),
        "outcomes": {test: dict(counts) for test, counts in sorted(outcomes.items())},
        "skip_reasons": sorted(skips),
    }
    Path(record).write_text(json.dumps(data, indent=2) + "\n")
    terminalreporter.write_line(f"recorded in {record}")
