"""A whole sweep on a GPU with kernels that do harm, and one start after it."""

from __future__ import annotations

from pathlib import Path

import harmful
import pytest
from harmful import GOOD, GOOD_TOO, HANGS, IDLES, READS_WILD

from kgen.bench.baselines import TUNED
from kgen.errors import DeviceError
from kgen.sweep import built
from kgen.sweep.queries import cells_of
from kgen.sweep.session import Session
from kgen.sweep.store import Store
from kgen.sweep.winners import finals_of, winners

pytestmark = pytest.mark.gpu


def test_j6_each_kernel_gets_its_own_status_and_the_good_ones_are_timed(
    gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "prepare", harmful.planted)
    sweep, results = harmful.sweep(tmp_path), tmp_path / "r.sqlite"
    try:
        assert Session(sweep, results, on="gpu").run() == "done"
    except DeviceError as error:
        pytest.skip(str(error))
    with Store.read(results) as store:
        cells = {c.axes["schedule.raster.group"]: c for c in cells_of(store, "harmful")}
        before = len(store.rows("SELECT * FROM run"))
    status = {group: cell.status for group, cell in cells.items()}
    assert (status[HANGS], status[READS_WILD], status[IDLES]) == ("hung", "crashed", "wrong")
    assert {status[GOOD], status[GOOD_TOO]} <= {"timed", "screened"}
    assert "no answer in 10 s" in cells[HANGS].reason
    assert "llegal" in cells[READS_WILD].reason, cells[READS_WILD].reason
    assert "unwritten: FAILED" in cells[IDLES].reason
    for winner in winners(results):
        assert winner.stage == "final" and winner.ratio and winner.low and winner.high
        assert winner.low <= winner.ratio <= winner.high
    for result in finals_of(results):
        assert result.verification and all(gate.passed for gate in result.verification)
        names = [r.baseline for t in result.timings for r in t.windows[0].ratios]
        assert TUNED in names, result.timings[0].notes
    assert Session(sweep, results, on="gpu").run() == "done"
    with Store.read(results) as store:
        assert len(store.rows("SELECT * FROM run")) == before, "nothing is done twice"
