"""Records every reading of one timing on a GPU, sensors included: a trace of throttling.

python tests/record_windows.py specs/hopper/v6.yaml 8192 8192 8192 tests/unit/h200_windows.json
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgen.api import build, load_spec, lower, render
from kgen.bench.device import Problem, bench_on_gpu, gpu_facts
from kgen.bench.protocol import Reading, Settings
from kgen.run import Kernel

# 30 launches of an 8192-cube end before the power cap slows the board, 100 do not.
SETTINGS = Settings(windows=(30, 100), rounds=5, cooldown_s=2.0)


def record(spec: Path, size: tuple[int, int, int]) -> dict[str, Any]:
    """What was measured and on what, and every reading as the protocol took it."""
    plan = lower(load_spec(spec))
    readings: list[Reading] = []
    kernel = Kernel(plan, build(plan).path)
    bench_on_gpu(plan, kernel, Problem(*size), SETTINGS, readings.append)
    facts = gpu_facts()
    source = {
        "recorded": True,
        "kernel": plan.name,
        "source_digest": render(plan).digest,
        "problem": list(size),
        "settings": asdict(SETTINGS),
        "gpu": facts["name"],
        "driver": facts["driver"],
        "measured_on": datetime.date.today().isoformat(),
    }
    return {"source": source, "readings": [asdict(reading) for reading in readings]}


def dump(trace: dict[str, Any]) -> str:
    """One reading a line."""
    lines = ",\n".join(json.dumps(reading) for reading in trace["readings"])
    return f'{{"source": {json.dumps(trace["source"])},\n"readings": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    m, n, k = (int(x) for x in sys.argv[2:5])
    Path(sys.argv[5]).write_text(dump(record(Path(sys.argv[1]), (m, n, k))))
