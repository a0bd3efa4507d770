"""Shipments for tests: specs, synthetic results that measured them, the shipped Python module."""

from __future__ import annotations

import datetime
import json
import types
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from conftest import F32, changed

from kgen.bench.results import Compiler, Gpu, RatioRecord, Result, Timed, Timing, Verified, Window
from kgen.plan import lower
from kgen.render import render
from kgen.ship.lock import Lock, dump_lock
from kgen.ship.make import Records, make_lock
from kgen.ship.package import texts
from kgen.spec import LoadedSpec, parse_spec

NARROW = {**F32, "n: 256, k: 64": "n: 64, k: 64"}  # a 128 x 64 tile
TALL = {**F32, "n: 256, k: 64": "n: 128, k: 64"}  # a 128 x 128 tile


def spec(name: str, changes: dict[str, str] | None = None) -> LoadedSpec:
    """The V6 spec with parts replaced, under another name."""
    return parse_spec(changed({"name: sample": f"name: {name}", **(changes or {})}), f"{name}.yaml")


def digest(loaded: LoadedSpec) -> str:
    """Digest of the source that a spec renders to."""
    return _digest(json.dumps(loaded.tree.data))


@cache
def _digest(text: str) -> str:
    return render(lower(parse_spec(text))).digest


def result(
    loaded: LoadedSpec,
    ratios: dict[tuple[int, int, int], float],
    gpu: str = "NVIDIA H200",
    **changes: object,
) -> Result:
    """A result file that measured a spec's source: shape to ratio over torch.mm."""
    name = loaded.spec.name
    fields = {
        "kernel": name,
        "source_digest": digest(loaded),
        "compiler": Compiler(name="nvrtc", version="13.5.37"),
        "gpu": Gpu(name=gpu, driver="580.1", toolkit="13.5.37"),
        "measured_on": datetime.date(2026, 11, 30),
        "timings": tuple(_timed(name, shape, ratio) for shape, ratio in ratios.items()),
        "verification": (
            Verified(shape="256x256x64", data="integers", gate="exact", passed=True),
            Verified(
                shape="512x512x256",
                data="normal, deviation 1, seed 0",
                gate="element_bound",
                passed=True,
                figures={"max_error": 0.0303, "worst_ratio": 0.956},
            ),
        ),
    }
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


def _timed(name: str, shape: tuple[int, int, int], ratio: float) -> Timed:
    m, n, k = shape
    times = {name: 100.0, "torch.mm": 100.0 * ratio}
    timings = tuple(
        Timing(
            name=who,
            note="f32 accumulation",
            median_us=us,
            low_us=us - 1,
            high_us=us + 1,
            rounds_us=(us - 1, us, us + 1),
            tflops=2 * m * n * k / us / 1e6,
        )
        for who, us in times.items()
    )
    record = RatioRecord(
        baseline="torch.mm",
        median=ratio,
        low=ratio - 0.02,
        high=ratio + 0.02,
        verdict="undecided",
        rounds=3,
    )
    window = Window(launches=30, timings=timings, ratios=(record,))
    return Timed(m=m, n=n, k=k, rounds=3, cooldown_s=3, warmup=5, windows=(window,))


def shipment(
    specs: Iterable[LoadedSpec], results: Iterable[Result] = (), name: str = "gemm"
) -> Lock:
    """A lock of these specs, of all parts, with the digests of its files."""
    parts = ("cmake", "python", "torch")
    lock = make_lock(list(specs), name, parts, Records(tuple(results), ()))
    return lock.with_files(texts(lock))


@cache
def two_kernels() -> Lock:
    """Two kernels of one problem: `wide` won at the large shape, `slim` at the small one."""
    wide, slim = spec("wide", F32), spec("slim", NARROW)
    results = [
        result(wide, {(8192, 8192, 8192): 1.1, (128, 4096, 4096): 0.6}),
        result(slim, {(8192, 8192, 8192): 0.8, (128, 4096, 4096): 0.9}),
    ]
    return shipment([wide, slim], results)


def put(lock: Lock, folder: Path) -> None:
    """Write a shipment without any of kgen's own checks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts(lock).items():
        (folder / name).write_bytes(text.encode())
    (folder / "kgen.lock").write_bytes(dump_lock(lock).encode())


def module(lock: Lock) -> types.ModuleType:
    """The shipped Python loader, executed."""
    loaded = types.ModuleType(lock.name)
    loaded.__file__ = f"/nowhere/{lock.name}.py"
    source = texts(lock)[f"{lock.name}.py"]
    exec(compile(source, f"{lock.name}.py", "exec"), loaded.__dict__)
    return loaded
