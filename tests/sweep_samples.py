"""Results files with as many points as a test wants; the numbers are made up, the rows are real."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

from conftest import V6, changed
from sweep_fakes import facts

from kgen.bench.baselines import TUNED
from kgen.bench.protocol import Measurement, Reading, Settings
from kgen.sweep.device import final_records
from kgen.sweep.keys import build_key, device_id, timing_key
from kgen.sweep.store import Run, Store

TOOLCHAIN = "nvrtc 13.5.37 lock 0123456789ab"
PROBLEMS = [
    ("4096x4096x4096", 4096, 4096, 4096),
    ("llama 70b, gate and up projection, 2048 tokens in flight", 2048, 57344, 8192),
    ("decode", 64, 8192, 4096),
]
SCREEN, FINAL = Settings((10,), 3, 0.0, 3), Settings((30,), 5, 1.0, 5)


def axes_for(points: int) -> dict[str, list[Any]]:
    """Axes whose product is at least `points`."""
    axes: dict[str, list[Any]] = {
        "schedule.tile": [{"m": 64 * (i + 1), "n": 256, "k": 64} for i in range(5)]
    }
    if points > 5:
        axes["schedule.stages"] = [2, 3, 4, 5, "auto"]
        axes["schedule.raster.group"] = [1, 2, 4, 8, 16]
        axes["schedule.epilogue.store_buffers"] = [1, 2, 3, 4]
        axes["schedule.l2.promotion_bytes"] = [0, 128]
        axes["schedule.swizzle_bytes"] = [32, 64, 128, "auto"]
        axes["schedule.release"] = ["same", "previous"]
    return axes


def fill(path: Path, points: int, timed: bool = True, name: str = "sample") -> None:
    """A results file of one sweep with `points` points, a fifth of them lost in every way."""
    axes = axes_for(points)
    values = list(itertools.islice(itertools.product(*axes.values()), points))
    device = facts().value
    settings = {
        "axes": axes,
        "rank": {"measured": "ratio", "static": ["operand_bytes_per_flop", "ring_bytes"]},
        "toolchain": TOOLCHAIN,
        "device": device_id(device) if timed else None,
    }
    with Store.open(path) as store:
        start = store.begin(name, "0" * 12, "base: x.yaml", settings)
        rows = [_point(i, dict(zip(axes, v, strict=True))) for i, v in enumerate(values)]
        store.replace_space(name, rows, PROBLEMS)
        store.put_device(device_id(device), device)
        with store.together():
            for row in rows:
                if not json.loads(row["rules"]):
                    _kernel(store, name, row, device, timed)
        store.end(start, "done")


def _point(number: int, axes: dict[str, Any]) -> dict[str, Any]:
    rules, reason = [], ""
    if number % 10 == 3:
        rules = ["schedule.stages: N stages do not fit in sm_90a shared memory"]
        reason = (
            "schedule.stages: 5 stages do not fit in sm_90a shared memory\n"
            "    A ring      163840   5 stages x 256 x 64 x 2 B\n"
            "    total       295936   of 232448 bytes: over by 63488"
        )
    return {
        "number": number,
        "axes": json.dumps(axes),
        "kernel": None,
        "rules": json.dumps(rules),
        "reason": reason,
    }


def _kernel(
    store: Store, sweep: str, row: dict[str, Any], device: dict[str, Any], timed: bool
) -> None:
    number = row["number"]
    digest, kernel = f"{number:012x}", f"{sweep}_{number:08x}"
    store.put_kernel(
        digest,
        name=kernel,
        target="sm_90a",
        spec=changed({"name: sample": f"name: {kernel}"}, V6),
        spec_digest="0" * 12,
        figures={"operand_bytes_per_flop": 0.01 + number % 7 / 1000, "ring_bytes": 1e5 + number},
        points=(sweep, [number]),
    )
    failed = number % 25 == 7
    store.put_build(
        build_key(digest, TOOLCHAIN),
        kernel=digest,
        toolchain=TOOLCHAIN,
        status="ptxas_rejected" if failed else "built",
        reason=f"{kernel}: ptxas reports what no kgen build may have" if failed else "",
        registers=None if failed else 90 + number % 30,
        seconds=1.0,
        artifact="" if failed else "ab" * 32,
    )
    if failed or not timed:
        return
    for index, (_, m, n, k) in enumerate(PROBLEMS):
        hung = number % 40 == 11 and index == 0
        final = number < 3
        settings = FINAL if final else SCREEN
        ratio = 0.9 + 0.15 * math.sin(number / 7 + index) ** 2
        us = 2 * m * n * k / 700e6 / ratio
        store.put_run(
            timing_key(
                "final" if final else "screen",
                digest,
                TOOLCHAIN,
                device,
                f"{m}x{n}x{k}",
                settings,
            ),
            Run(
                digest,
                "final" if final else "screen",
                TOOLCHAIN,
                "hung" if hung else "timed" if final else "screened",
                "no answer in 60 s; its process was stopped" if hung else "",
                (m, n, k),
                device_id(device),
                *((None,) * 5 if hung else (us, us * ratio, ratio, *_interval(ratio, final))),
                sm_mhz=1500.0,
                power_w=690.0,
                detail=_detail(kernel, (m, n, k), us, us * ratio)
                if final
                else {"notes": [], "reference": "torch.mm"},
            ),
        )


def _detail(name: str, size: tuple[int, int, int], us: float, torch_us: float) -> dict[str, Any]:
    """What a final leaves; cuBLASLt's best is 2 % faster than torch.mm."""
    spread = (0.99, 0.995, 1.0, 1.005, 1.01)
    rounds = {
        name: [us] * len(spread),
        "torch.mm": [torch_us * x for x in spread],
        TUNED: [0.98 * torch_us * x for x in spread],
    }
    readings = tuple(
        Reading(who, FINAL.windows[0], turn, place, micro[turn] * 1e-6, None, None)
        for turn in range(len(spread))
        for place, (who, micro) in enumerate(rounds.items())
    )
    notes = ("the driver reported power cap in 6 of 20 windows",)
    found = Measurement(name, ("torch.mm", TUNED), FINAL, readings, notes)
    record = final_records(found, 1, size, dict.fromkeys(rounds, "f32 accumulation, f16 output"))[0]
    trace = [[1980.0, 300.0, []], [1515.0, 699.0, ["power cap"]]]
    return {x: record[x] for x in ("timed", "reference", "notes")} | {"trace": trace}


def _interval(ratio: float, final: bool) -> tuple[float | None, float | None]:
    return (ratio - 0.01, ratio + 0.02) if final else (None, None)
