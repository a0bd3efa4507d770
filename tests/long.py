"""The long emulator work, `make long`: every rung of the ladder under every schedule, and mutants.

With the argument `all`, which `make exhaustive` gives, also the fast family and the mutants of a
persistent kernel: hours.

Prints how many cases, schedules and mutants ran; exits 1 if a kernel is not clean, a mutation score
is below the target, or a surviving mutant has nothing that makes it redundant.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from kgen.api import build, load_spec, lower
from kgen.check import find_specs
from kgen.emu import load_program
from kgen.emu.mutation import Case, measure, mutants, summary
from kgen.paths import data_folder
from kgen.verify.emulator import expected, launch_of, shapes_of, verify_in_emulator
from kgen.verify.problem import tile_of
from kgen.verify.shapes import Shape, Tile, several_turns, shape

WORKERS = 2
HOPPER = data_folder("specs") / "hopper"
MUTATED = {
    "v0": HOPPER / "v0.yaml",
    "v2": HOPPER / "v2.yaml",
    "v6": HOPPER / "v6.yaml",
    "bf16_f32acc": HOPPER / "bf16_f32acc.yaml",
}
PERSISTENT = {"persistent": Path(__file__).parent / "persistent.yaml"}
MUTANT_SCHEDULES = ("latestore", "early", "random:5")
TARGET = 0.95
MAX_STEPS = 400_000  # many times what a sound run takes; an endless mutant stops here


def everything(spec: Path) -> tuple[bool, str]:
    """Every derived shape of one spec under every schedule, every warp starved in turn."""
    plan = lower(load_spec(spec))
    registers = build(plan).resources[0].registers
    ptx = build(plan, emit="ptx", line_info=True).data.decode()
    cases, judgement = verify_in_emulator(plan, ptx, shapes_of(plan), ("all",), registers)
    right = sum(case.passed for case in cases)
    runs = sum(len(case.report.schedules) for case in cases)
    good = judgement.verdict == "clean" and right == len(cases)
    text = f"{plan.name}: {judgement.verdict}, {right} of {len(cases)} cases right, {runs} runs"
    return good, text if good else f"{text}\n{judgement}"


def mutation_shapes(tile: Tile) -> list[Shape]:
    """Few shapes that reach every line: rings that wrap, cut tiles, second turns."""
    if tile.resident:
        return [*several_turns(tile), shape(tile, 1, 8, tile.k, "mutation")]
    sizes = [
        (tile.m, tile.n, (3 * tile.stages + 1) * tile.k),
        (tile.m + 1, tile.n + 8, tile.k + 8),
        (1, 8, tile.k),
    ]
    odd = shape(tile, tile.m, tile.n + 1, 2 * tile.k, "mutation")
    # An odd pitch too: no two columns of D are stored together.
    return [*(shape(tile, *size, "mutation") for size in sizes), replace(odd, ldd=odd.n)]


def mutation(spec: Path, part: int, parts: int) -> tuple[int, int, list[str], str]:
    """One share of a kernel's mutants: count, caught, unexplained survivors, summary."""
    plan = lower(load_spec(spec))
    program = load_program(build(plan, emit="ptx", line_info=True).data.decode(), plan.name)
    registers = build(plan).resources[0].registers
    shapes = mutation_shapes(tile_of(plan))
    launches = [launch_of(plan, each, registers=registers) for each in shapes]
    cases = [Case(x, {"d": expected(plan, x)}) for x in launches]
    share = mutants(program.kernel)[part::parts]
    outcomes = measure(program, cases, MUTANT_SCHEDULES, MAX_STEPS, share)
    caught = sum(bool(o.findings) for o in outcomes)
    open_ends = [
        f"{o.mutant.name} at {o.place}" for o in outcomes if not o.caught | bool(o.partners)
    ]
    return len(outcomes), caught, open_ends, summary(outcomes)


def main() -> int:
    """Run all of it on WORKERS processes; returns the exit status."""
    started = time.monotonic()
    failed = 0
    whole = "all" in sys.argv[1:]
    mutated = MUTATED | PERSISTENT if whole else MUTATED
    scores = {name: [0, 0] for name in mutated}
    specs = find_specs([HOPPER]) if whole else sorted(HOPPER.glob("*.yaml"))
    with ProcessPoolExecutor(WORKERS) as pool:
        jobs: dict[Future, str] = {}

        def start(name: str, work: Callable, *arguments: object) -> None:
            jobs[pool.submit(work, *arguments)] = name

        for spec in specs:
            start("", everything, spec)
        for name, spec in mutated.items():
            for part in range(2 * WORKERS):
                start(name, mutation, spec, part, 2 * WORKERS)
        for job in as_completed(jobs):
            name = jobs[job]
            if not name:
                good, text = job.result()
                failed += not good
                print(text, flush=True)
                continue
            count, caught, open_ends, text = job.result()
            scores[name][0] += caught
            scores[name][1] += count
            failed += len(open_ends)
            print(f"mutants of {name}, one share: {text}", flush=True)
            for mutant in open_ends:
                print(f"  survives without a partner: {mutant}")
    for name, (caught, count) in scores.items():
        print(f"mutants of {name}: {caught} of {count} caught by a finding ({caught / count:.1%})")
        failed += caught < TARGET * count
    print(f"{time.monotonic() - started:.0f} s; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
