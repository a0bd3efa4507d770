"""The Python interface: one call runs one launch under several schedules."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.emu import (
    barrier_ops,
    bulk,
    carry_ops,
    control_ops,
    lane_ops,
    matrix_ops,
    mbarrier_ops,
    memory_ops,
    sync_ops,
    tma_load,
    tma_store,
    wgmma,
)
from kgen.emu.grid import Grid
from kgen.emu.launch import Launch
from kgen.emu.parser import parse
from kgen.emu.program import Program
from kgen.emu.registers import WARP_LANES
from kgen.emu.report import Coverage, Findings, Report, RunReport, disagreements
from kgen.emu.sched import starved
from kgen.errors import EmulatorError

DEFAULT_SCHEDULES = ("early", "late", "latestore", "starve", "random:1")
MAX_CTAS = 1024  # all CTAs are resident: shared memory and its shadow take up to 2 MiB each
MAX_STEPS = 10_000_000
HANDLER_MODULES = (
    barrier_ops,
    bulk,
    carry_ops,
    control_ops,
    lane_ops,
    matrix_ops,
    mbarrier_ops,
    memory_ops,
    sync_ops,
    tma_load,
    tma_store,
    wgmma,
)


def load_program(ptx: str, kernel: str = "") -> Program:
    """PTX text -> a kernel ready to run. Without a name, the module must have one kernel only."""
    module = parse(ptx)
    if not kernel and len(module.kernels) != 1:
        raise EmulatorError(f"kernel: the module has {', '.join(module.kernels)}: name one")
    name = kernel or next(iter(module.kernels))
    if name not in module.kernels:
        raise EmulatorError(
            f"kernel: no .entry {name!r} in this module, only {', '.join(module.kernels)}"
        )
    return Program(module.kernels[name])


def check_launch(program: Program, launch: Launch) -> None:
    """The launch against the kernel's own directives."""
    launch.validate()
    kernel = program.kernel
    where = f"launch of {launch.kernel}"
    if kernel.reqntid and kernel.reqntid != launch.block:
        raise EmulatorError(
            f"{where}: block: {launch.block}, but the kernel requires {kernel.reqntid}"
        )
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    limit = kernel.maxntid[0] * kernel.maxntid[1] * kernel.maxntid[2] if kernel.maxntid else 1024
    if threads > limit:
        raise EmulatorError(f"{where}: block: {threads} threads, but the kernel allows {limit}")
    ctas = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if ctas > MAX_CTAS:
        raise EmulatorError(f"{where}: grid: {ctas} CTAs, the emulator holds {MAX_CTAS} at once")
    if kernel.cluster and kernel.cluster != launch.cluster:
        raise EmulatorError(
            f"{where}: cluster: {launch.cluster}, but the kernel requires {kernel.cluster}"
        )


def starve_roles(program: Program, launch: Launch, visited: list[set[int]]) -> tuple[str, ...]:
    """One starve schedule per role, and the last warp: warps that ran the same code have the same
    role.
    """
    first: dict[frozenset[int], int] = {}
    for number, pcs in enumerate(visited):
        first.setdefault(frozenset(pcs), number)
    victims = sorted({*first.values(), len(visited) - 1})
    return tuple(f"starve:{number}" for number in victims)


def expand(
    schedules: Iterable[str], program: Program, launch: Launch, max_steps: int
) -> tuple[str, ...]:
    """`starve` stands for one warp of each role, `all` for every schedule and every victim."""
    names: list[str] = []
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    for name in schedules:
        if not name.strip():
            raise EmulatorError("schedules: an empty name")
        if name == "starve":
            grid = Grid(program, launch, "early", max_steps)
            grid.run()
            warps = grid.clusters[0].ctas[0].warps
            names += starve_roles(program, launch, [warp.visited for warp in warps])
        elif name == "all":
            names += ["early", "late", "latestore", "random:1", "random:2"]
            names += [f"starve:{number}" for number in range(-(-threads // WARP_LANES))]
        else:
            victim = starved(name)
            if victim is not None and victim >= -(-threads // WARP_LANES):
                warps = -(-threads // WARP_LANES)
                raise EmulatorError(f"schedules: {name}: a CTA of this launch has {warps} warps")
            names.append(name)
    return tuple(dict.fromkeys(names))


def emulate(
    ptx: str | Program,
    launch: Launch,
    schedules: Iterable[str] = DEFAULT_SCHEDULES,
    max_steps: int = MAX_STEPS,
    timeline: bool = False,
) -> Report:
    """Runs a launch under each schedule.

    ptx        PTX text, or a Program from `load_program` that is run several times
    max_steps  warp-instructions of the whole grid after which a run is stopped
    Raises     EmulatorError for input that cannot be run; whatever the kernel does wrong is a
               finding
    """
    if max_steps < 1:
        raise EmulatorError(f"max_steps: {max_steps} is not positive")
    program = ptx if isinstance(ptx, Program) else load_program(ptx, launch.kernel)
    check_launch(program, launch)
    names = expand(schedules, program, launch, max_steps)
    if not names:
        raise EmulatorError("schedules: none given")
    runs: list[RunReport] = []
    coverage = Coverage()
    findings = Findings()
    for name in names:
        run = Grid(program, launch, name, max_steps, timeline).run()
        runs.append(run)
        coverage.merge(run.coverage)
        for finding in run.findings:
            findings.add(finding)
    for finding in disagreements(runs):
        findings.add(finding)
    return Report(program.kernel.name, names, list(findings), runs[0].outputs, coverage, runs)
