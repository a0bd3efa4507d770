"""A GPU that exists in name only, for sweeps without one: times follow from the tile, and kernels
with certain raster groups misbehave as their group says.

`python tests/sweep_fakes.py SWEEP RESULTS` starts a sweep on it, so that a test can interrupt one.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from kgen.bench.baselines import TUNED
from kgen.bench.protocol import Bench, Contestant, Measurement, Settings, measure
from kgen.bench.results import Verified
from kgen.bench.sampler import Sample, Sampler
from kgen.sweep.candidate import Job, Outcome
from kgen.sweep.device import final_records
from kgen.sweep.lanes import Work

HANGS, ABORTS, ILLEGAL, WRONG = 11, 12, 13, 14  # raster groups
HANGS_IN_FINALS = 15
TORCH_RATE = 700e12  # FLOP/s


def group(job: Job) -> int:
    """The raster group, which decides how a kernel behaves here."""
    return job.plan.budget.spec.schedule.raster.group


def us_of(job: Job, size: tuple[int, int, int]) -> float:
    """Time of a launch: larger tiles are faster, and so are larger raster groups."""
    m, n, k = size
    tile = job.plan.tile
    rate = TORCH_RATE * (0.8 + tile[0] * tile[1] / 131072 + 0.001 * group(job))
    return 2 * m * n * k / rate * 1e6


def torch_us(size: tuple[int, int, int]) -> float:
    """Time of torch.mm."""
    m, n, k = size
    return 2 * m * n * k / TORCH_RATE * 1e6


def facts() -> Outcome:
    """One GPU of the right kind."""
    log("facts")
    return Outcome(
        "gpu",
        value={
            "name": "Imaginary H200",
            "driver": "1.2.3",
            "sm_count": 132,
            "l2_bytes": 50 << 20,
            "pci_bus_id": f"{os.environ.get('FAKE_BUS', '0000:99:00.0')}",
            "cuda_driver_api": 13000,
            "compute_capability": "90",
            "sm_mhz_max": 1980.0,
            "memory_bytes": 141 << 30,
            "memory_gb_s": 4900.0,
            "power_limit_w": 700.0,
            "libraries": {"torch": "9.9"},
            "reference": "torch.mm, torch 9.9",
            "devices": 1,
        },
    )


def log(text: str) -> None:
    """A line into the file that FAKE_LOG names: what really ran, and in which process."""
    if path := os.environ.get("FAKE_LOG"):
        with open(path, "a") as file:
            file.write(f"{os.getpid()} {text}\n")


def _short(us: float) -> dict[str, Any]:
    return {
        "at": time.monotonic(),
        "us": us,
        "rounds_us": [us] * 3,
        "sm_mhz": 1500.0,
        "power_w": 690.0,
        "note": "f32 accumulation, f16 output",
        "notes": [],
    }


def reference(job: Job, size: tuple[int, int, int], settings: Settings) -> Outcome:
    """torch.mm."""
    log(f"reference {size}")
    return Outcome("reference", value=_short(torch_us(size)))


def screen(job: Job, size: tuple[int, int, int], settings: Settings) -> Outcome:
    """One kernel, if it lets itself be timed."""
    log(f"screen {job.plan.name} {size}")
    if group(job) == HANGS:
        time.sleep(1000)
    if group(job) == ABORTS:
        os.abort()
    if group(job) == ILLEGAL:
        return Outcome("crashed", "cudaErrorIllegalAddress: an illegal access", poisoned=True)
    if group(job) == WRONG:
        return Outcome("wrong", "exact: 3 elements differ\nmore")
    time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
    return screened(us_of(job, size))


def screened(us: float, **rest: Any) -> Outcome:
    """A screen that went well, against the baseline that FAKE_REFERENCE names."""
    reference = os.environ.get("FAKE_REFERENCE", "torch.mm")
    return Outcome("screened", value=_short(us) | {"reference": reference} | rest)


def verify(job: Job) -> Outcome:
    """Every shape."""
    log(f"verify {job.plan.name}")
    record = Verified(shape="256x256x64", data="integers", gate="exact", passed=True)
    return Outcome("verified", value={"verification": [record.model_dump(mode="json")]})


def finals(jobs: list[Job], size: tuple[int, int, int], settings: Settings) -> Outcome:
    """The protocol itself, on a clock that the launches move."""
    log(f"finals {' '.join(j.plan.name for j in jobs)} {size}")
    if any(group(j) == HANGS_IN_FINALS for j in jobs):
        time.sleep(1000)
    now = 0.0
    noise = iter([1.0, 1.004, 0.997, 1.002, 0.999] * 1000)

    def launcher(us: float) -> Any:
        def launch() -> None:
            nonlocal now
            now += us * 1e-6

        return launch

    def elapsed(body: Any) -> float:
        before = now
        body()
        return (now - before) * next(noise)

    bench = Bench(
        elapsed,
        lambda: None,
        lambda seconds: None,
        Sampler(lambda: Sample(1500.0, 3201.0, 690.0, 60.0, ("power cap",))),
    )
    kernels = [Contestant(j.plan.name, (launcher(us_of(j, size)),), "f32") for j in jobs]
    torch = Contestant("torch.mm", (launcher(torch_us(size)),), "f32")
    tuned = Contestant(TUNED, (launcher(0.98 * torch_us(size)),), "f32")
    others = [*kernels[1:], torch, tuned]
    measurement: Measurement = measure(kernels[0], others, settings, bench)
    notes = {c.name: c.note for c in (kernels[0], *others)}
    return Outcome("timed", value=final_records(measurement, len(jobs), size, notes))


WORK = Work(facts, reference, screen, verify, finals)


def main() -> None:
    """Run one start of a sweep on the imaginary GPU."""
    from kgen.sweep.load import load_sweep
    from kgen.sweep.progress import PlainWatch
    from kgen.sweep.session import Session

    sweep, results = load_sweep(sys.argv[1]), Path(sys.argv[2])
    try:
        Session(sweep, results, on="gpu", work=WORK, watch=PlainWatch(sys.stdout)).run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
