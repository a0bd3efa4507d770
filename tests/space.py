"""The spec space of Hopper, and what an accepted spec must do: build and emulate clean and right.

python tests/space.py SECONDS    explores every kind in turn and records the outcome of each
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider

from kgen.api import build, lower
from kgen.build.toolchain import lock
from kgen.dtypes import dtype
from kgen.errors import BudgetError, SpecError
from kgen.plan import KernelPlan
from kgen.spec import parse_spec
from kgen.verify.emulator import shapes_of, verify_in_emulator
from kgen.verify.shapes import Shape

KINDS = ("mma_sync", "wgmma_single", "wgmma_ws", "wgmma_persistent")
RECORD = Path(__file__).with_name("space.json")
SHAPES = 2  # of each accepted spec, drawn from its derived ones
LARGEST = 6_000_000  # multiplications: the emulator needs seconds for as many


@st.composite
def specs(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """A well-formed spec of `kind`, near the limits more often than not."""

    def one(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    schedule: dict[str, Any] = {
        "kind": kind,
        "stages": one("auto", "auto", 1, 2, 3, 4),
        "swizzle_bytes": one("auto", 32, 64, 128),
        "raster": {"along": one("m", "n"), "group": draw(st.integers(1, 32))},
        "l2": {"promotion_bytes": one(0, 64, 128, 256)},
    }
    if draw(st.integers(0, 3)) == 0:
        schedule["smem_limit"] = one("48KiB", "100KiB", "200KiB", "227KiB")
    _FIELDS[kind](one, schedule)
    if kind == "wgmma_persistent" and one(True, False, False, False):
        return _scaled(one, schedule)
    gemm = _gemm(one, kind)
    tile = schedule["tile"]  # K for operands of two bytes; others fill the same rows
    schedule["tile"] = tile | {"k": tile["k"] * 2 // dtype(gemm["a"]["dtype"]).bytes}
    return {"name": "accepted", "target": "sm_90a", "gemm": gemm, "schedule": schedule}


Draw = Callable[..., Any]

SIXTEEN_BITS = ("f16", "bf16")
FP8 = ("e4m3", "e5m2")
# Of wgmma_persistent alone: types of an operand, what they add up in, and what D may be of it.
MORE_TYPES = (
    (FP8, "f32", (*SIXTEEN_BITS, "f32")),
    (("tf32",), "f32", (*SIXTEEN_BITS, "f32")),
    (("s8",), "s32", ("s32",)),
    (("f16",), "f32", ("f32",)),
    (("bf16",), "f32", ("f32",)),
)


def _gemm(one: Draw, kind: str) -> dict[str, Any]:
    """Operands, sums and D that `kind` takes."""
    if kind == "wgmma_persistent" and one(True, False):
        operands, sums, outputs = one(*MORE_TYPES)
        a, b, d = one(*operands), one(*operands), one(*outputs)
    else:
        a = b = one(*SIXTEEN_BITS)
        sums = one("f32", "f16") if a == "f16" else "f32"
        d = "f16" if sums == "f16" else one(*SIXTEEN_BITS)
    any_major = a in SIXTEEN_BITS and kind != "mma_sync"
    return {
        "a": {"dtype": a, "major": one("k", "m") if any_major else "k"},
        "b": {"dtype": b, "major": one("k", "n") if any_major else "k"},
        "d": {"dtype": d},
        "accumulator": sums,
    }


def _scaled(one: Draw, schedule: dict[str, Any]) -> dict[str, Any]:
    """fp8 with block scales, where the other fields are drawn for 16-bit types."""
    tile = schedule["tile"] | {"n": one(32, 64, 128, 128), "k": 128}
    return {
        "name": "accepted",
        "target": "sm_90a",
        "gemm": {
            "a": {"dtype": one(*FP8)},
            "b": {"dtype": one(*FP8)},
            "d": {"dtype": one(*SIXTEEN_BITS, "f32")},
            "accumulator": "f32",
            "block_scale": {"dtype": "f32", "block": 128},
        },
        "schedule": schedule | {"tile": tile, "release": "same", "swap_operands": False},
    }


def _mma_sync(one: Draw, s: dict[str, Any]) -> None:
    warps = {"m": one(1, 2, 4), "n": one(1, 2, 4)}
    s["warps"] = warps
    s["tile"] = {
        "m": 16 * warps["m"] * one(1, 2, 4),
        "n": 16 * warps["n"] * one(1, 2, 4),
        "k": 16 * one(1, 2, 3, 4, 8),
    }


def _tile(one: Draw, consumers: int, columns: int) -> dict[str, int]:
    return {
        "m": 64 * consumers * one(1, 1, 1, 2, 3, 4),
        "n": columns,
        "k": 16 * one(1, 2, 3, 4, 4, 5, 8, 12, 16),
    }


def _wgmma_single(one: Draw, s: dict[str, Any]) -> None:
    s["consumers"] = one(1, 1, 2, 3, 4)
    s["tile"] = _tile(one, s["consumers"], 8 * one(1, 2, 5, 8, 13, 16, 24, 32))


def _wgmma_ws(one: Draw, s: dict[str, Any]) -> None:
    s["consumers"] = one(1, 2, 2, 3, 4, 4, 5, 7)
    direct = one(True, False)
    columns = 8 * one(1, 5, 8, 16, 25, 32) if direct else 64 * one(1, 2, 3, 4)
    s["tile"] = _tile(one, s["consumers"], columns)
    s["release"] = one("previous", "same")
    _producer(one, s, one("warp", "warpgroup"))
    buffers = one(1, 1, 2, s["consumers"])
    s["epilogue"] = (
        {"kind": "direct"} if direct else {"kind": "tma_turns", "store_buffers": buffers}
    )


def _wgmma_persistent(one: Draw, s: dict[str, Any]) -> None:
    s["consumers"] = one(1, 2, 2, 2, 3, 4)
    s["tile"] = _tile(one, s["consumers"], 64 * one(1, 2, 3, 4))
    if one(True, False, False):
        s["swap_operands"] = True
        s["tile"]["m"] = 8 * one(1, 2, 2, 3, 5, 8, 8, 16, 32)
        s["tile"]["n"] = 64 * s["consumers"] * one(1, 1, 2)
    s["release"] = one("previous", "same")
    s["scheduler"] = one("round_robin", "wrap", "wrap")
    s["raster"]["snake"] = one(True, False)
    s["cluster"] = {"m": one(1, 1, 2, 2, 3, 4), "n": one(1, 1, 2)}
    s["clusters"] = one("auto", "auto", 1, 3)
    s["pdl"] = one(True, False)
    _producer(one, s, one("warp", "warpgroup", "warpgroup", "none"))
    s["epilogue"] = {
        "kind": "tma_per_warp",
        "store_buffers": one(1, 2, 3, 4, 8),
        "deferred": one(True, False),
    }


def _producer(one: Draw, s: dict[str, Any], producer: str) -> None:
    s["producer"] = producer
    if producer == "warpgroup" and one(True, False, False):
        s["registers"] = {
            "producer": 8 * one(3, 4, 5, 6, 8),
            "consumer": 8 * one(8, 12, 14, 19, 20, 24, 27, 29, 30),
        }


_FIELDS: dict[str, Callable[[Draw, dict[str, Any]], None]] = {
    "mma_sync": _mma_sync,
    "wgmma_single": _wgmma_single,
    "wgmma_ws": _wgmma_ws,
    "wgmma_persistent": _wgmma_persistent,
}


def small_shapes(plan: KernelPlan) -> list[Shape]:
    """The derived shapes of the emulator that it runs in seconds, the smallest if there is none."""
    found = sorted(shapes_of(plan), key=lambda s: s.m * s.n * s.k)
    cm, cn = plan.cluster_tile

    def work(s: Shape) -> int:
        return -(-s.m // cm) * cm * (-(-s.n // cn) * cn) * (s.k + plan.tile[2])

    return [s for s in found if work(s) <= LARGEST] or found[:1]


@dataclass
class Outcome:
    """What an exploration of one kind did; `failures` are specs with what went wrong."""

    kind: str
    refused: int = 0
    accepted: int = 0
    cases: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)


class _TimeIsUpError(BaseException):
    """Ends hypothesis from inside; no Exception, so that it is not taken for a failed example."""


def explore(kind: str, seconds: float, start: int = 0) -> Outcome:
    """Draw specs of `kind` until the time is up; at least one accepted one is tried."""
    outcome, end = Outcome(kind), time.monotonic() + seconds

    @seed(start)
    @settings(
        max_examples=1_000_000,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
    )
    @given(
        spec=specs(kind),
        picks=st.lists(st.integers(0, 10_000), min_size=SHAPES, max_size=SHAPES),
        schedule=st.sampled_from(["early", "late", "latestore", "random:1"]),
    )
    def run(spec: dict[str, Any], picks: list[int], schedule: str) -> None:
        if time.monotonic() > end and outcome.accepted:
            raise _TimeIsUpError
        text = json.dumps(spec)
        try:
            plan = lower(parse_spec(text))
        except (SpecError, BudgetError):
            outcome.refused += 1
            return
        outcome.accepted += 1
        shapes = small_shapes(plan)
        drawn = list(dict.fromkeys(shapes[pick % len(shapes)] for pick in picks))
        wrong = complaint(plan, drawn, schedule)
        outcome.cases += len(drawn)
        if wrong:
            outcome.failures.append({"spec": text, "wrong": wrong})

    with contextlib.suppress(_TimeIsUpError), _same_draws_in_every_process():
        run()
    return outcome


@contextlib.contextmanager
def _same_draws_in_every_process() -> Iterator[None]:
    """Hypothesis draws constants of the modules that happen to be loaded; a seed must not."""
    with patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None):
        yield


def complaint(plan: KernelPlan, shapes: list[Shape], schedule: str) -> str:
    """What is wrong with an accepted spec, or nothing."""
    try:
        artifact = build(plan)
        kernel = next(r for r in artifact.resources if r.kernel == plan.name)
        if kernel.stack_bytes:
            return f"{kernel.stack_bytes} bytes of stack"
        ptx = build(plan, emit="ptx", line_info=True).data.decode()
        cases, _ = verify_in_emulator(plan, ptx, shapes, (schedule,), kernel.registers)
    except Exception as error:  # whatever it is, the spec was accepted
        return f"{type(error).__name__}: {error}"
    bad = [c for c in cases if not c.passed]
    return "; ".join(f"{c.shape.label} under {schedule}: {c.report} {c.first_wrong}" for c in bad)


def main() -> int:
    """Explore each kind for an equal part of the time and record it; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    asked = parser.parse_args()
    found = [explore(kind, asked.seconds / len(asked.kinds), asked.seed) for kind in asked.kinds]
    how = {
        "seed": asked.seed,
        "seconds": asked.seconds / len(asked.kinds),
        "compiler": lock().identity("nvrtc"),
        "python": platform.python_version(),
    }
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record |= {x.kind: how | vars(x) for x in found}
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for x in found:
        print(f"{x.kind}: {x.accepted} accepted, {x.refused} refused, {x.cases} cases emulated")
        for failure in x.failures:
            print(f"  {failure['spec']}\n    {failure['wrong'][:500]}")
    return 1 if any(x.failures for x in found) else 0


if __name__ == "__main__":
    sys.exit(main())
