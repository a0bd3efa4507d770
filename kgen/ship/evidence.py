"""What is known about one kernel's source, and the comment block that says so.

Only records of exactly this source count: every one carries the digest that it was made from.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kgen.bench.results import Result, Timed, Verified
from kgen.build.compile import compile_source
from kgen.errors import CompileError, ToolchainError, VerifyError, printable
from kgen.lines import LINE_LENGTH
from kgen.plan import KernelPlan
from kgen.records import Record
from kgen.render import Rendered
from kgen.verify.record import EmulatorRecord


class Built(Record):
    """A build of the source that passed the ptxas gate. registers per thread."""

    compiler: str
    registers: int
    spill_bytes: int


class Emulated(Record):
    """Every derived shape in the emulator."""

    kgen: str
    verdict: str
    cases: int
    right: int
    runs: int
    schedules: tuple[str, ...]


class Worst(Record):
    """The largest figure of one gate and the problem it was seen at."""

    gate: str
    figure: str
    value: float
    shape: str
    data: str


class Timing(Record):
    """One timed window against one baseline. ratio: kernel's speed over the baseline's."""

    m: int
    n: int
    k: int
    launches: int
    median_us: float
    tflops: float
    note: str
    baseline: str
    baseline_note: str
    median: float
    low: float
    high: float


class HardwareRun(Record):
    """One result file: what was right, how far off, how fast."""

    gpu: str
    driver: str
    toolkit: str
    measured_on: str
    problems: int
    exact: int
    worst: tuple[Worst, ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class Measured:
    """A run of one source, from whatever recorded it."""

    kernel: str
    source_digest: str
    run: HardwareRun


class Evidence(Record):
    """All that is recorded about one source; empty parts are unknown, not bad."""

    built: Built | None = None
    emulated: Emulated | None = None
    runs: tuple[HardwareRun, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing is recorded."""
        return self.built is None and self.emulated is None and not self.runs


def gather(
    plan: KernelPlan,
    rendered: Rendered,
    measured: Iterable[Measured],
    emulated: Iterable[EmulatorRecord],
) -> Evidence:
    """The evidence for one rendered kernel, from what was measured and emulated of its source.

    Raises  VerifyError if a record of this very source says that it is wrong; CompileError if the
        ptxas gate refuses it
    """
    digest = rendered.digest
    own = [m.run for m in measured if (m.kernel, m.source_digest) == (plan.name, digest)]
    runs = tuple(sorted(own, key=lambda run: (run.gpu, run.measured_on)))
    records = [e for e in emulated if (e.kernel, e.source_digest) == (plan.name, digest)]
    return Evidence(
        built=_built(plan, rendered),
        emulated=_emulated(records[0]) if records else None,
        runs=runs,
    )


def _built(plan: KernelPlan, rendered: Rendered) -> Built | None:
    """The build in the cache, or one made now; None where there is no compiler."""
    try:
        artifact = compile_source(rendered.source, name=plan.name, target=plan.target)
    except ToolchainError:
        return None
    except CompileError as error:
        raise CompileError(f"{plan.name} does not build, so it is not shipped: {error}") from error
    artifact.require_clean()
    (own,) = (r for r in artifact.resources if r.kernel == plan.name)
    return Built(
        compiler=" ".join(artifact.compiler.split()[:2]),
        registers=own.registers,
        spill_bytes=own.spill_store_bytes + own.spill_load_bytes,
    )


def _emulated(record: EmulatorRecord) -> Emulated:
    if record.verdict == "error":
        raise VerifyError(f"{record.kernel}: the emulator found it wrong, so it is not shipped")
    return Emulated(
        kgen=record.kgen,
        verdict=record.verdict,
        cases=len(record.shapes),
        right=record.right,
        runs=record.runs,
        schedules=record.schedules,
    )


def measured(result: Result) -> Measured:
    """What a result file says. Raises VerifyError if it says that the kernel is wrong."""
    for record in result.verification:
        if not record.passed:
            raise VerifyError(
                f"{result.kernel}: wrong on {result.gpu.name} at {record.shape} (gate "
                f"{record.gate}), so it is not shipped"
            )
    exact = {v.shape for v in result.verification if v.gate == "exact"}
    run = HardwareRun(
        gpu=result.gpu.name,
        driver=result.gpu.driver,
        toolkit=result.gpu.toolkit,
        measured_on=result.measured_on.isoformat(),
        problems=len({v.shape for v in result.verification}),
        exact=len(exact),
        worst=tuple(_worst(result.verification)),
        timings=tuple(t for problem in result.timings for t in _timings(problem)),
    )
    return Measured(result.kernel, result.source_digest, run)


_FIGURES = (
    ("element_bound", "worst_ratio"),
    ("element_bound", "max_error"),
    ("statistical", "worst_max_ratio"),
    ("statistical", "worst_rms_ratio"),
    ("statistical", "max_error"),
)
_MEANING = {
    "worst_ratio": "largest error of an element, as part of its bound",
    "worst_max_ratio": "largest error of a tile, as part of its limit",
    "worst_rms_ratio": "largest root mean square error of a tile, as part of its limit",
    "max_error": "largest absolute error",
}


def _worst(records: tuple[Verified, ...]) -> Iterator[Worst]:
    for gate, figure in _FIGURES:
        own = [v for v in records if v.gate == gate and figure in v.figures]
        if own:
            top = max(own, key=lambda v: v.figures[figure])
            value = top.figures[figure]
            yield Worst(gate=gate, figure=figure, value=value, shape=top.shape, data=top.data)


def _timings(problem: Timed) -> Iterator[Timing]:
    for window in problem.windows:
        own = window.timings[0]
        notes = {t.name: t.note for t in window.timings}
        for ratio in window.ratios:
            yield Timing(
                m=problem.m,
                n=problem.n,
                k=problem.k,
                launches=window.launches,
                median_us=own.median_us,
                tflops=own.tflops,
                note=own.note,
                baseline=ratio.baseline,
                baseline_note=notes.get(ratio.baseline, ""),
                median=ratio.median,
                low=ratio.low,
                high=ratio.high,
            )


def evidence_lines(evidence: Evidence, source_digest: str) -> list[str]:
    """The comment lines between the marks of the evidence block, at most LINE_LENGTH wide."""
    found = [f"source {source_digest}"] if not evidence.is_empty else ["none recorded"]
    if b := evidence.built:
        spills = f"{b.spill_bytes} bytes spilled" if b.spill_bytes else "no spill"
        found.append(f"built by {b.compiler}: {b.registers} registers per thread, {spills}")
    if e := evidence.emulated:
        found.append(
            f"emulated by kgen {e.kgen}, not hardware: {e.verdict}; {e.right} of {e.cases} cases "
            f"right bit for bit, {e.runs} runs under schedules {', '.join(e.schedules)}"
        )
    for run in evidence.runs:
        found += _run_lines(run)
    if not evidence.runs and not evidence.is_empty:
        found.append("not run on hardware")
    return [line for text in found for line in _comment(text)]


def _run_lines(run: HardwareRun) -> Iterator[str]:
    yield (
        f"run on {run.gpu}, driver {run.driver}, CUDA {run.toolkit}, {run.measured_on}: right at "
        f"{run.problems} problems, {run.exact} of them bit for bit on integers"
    )
    for w in run.worst:
        gate = w.gate.replace("_", " ")
        yield f"  {_MEANING[w.figure]}: {w.value:.3g}, {gate} gate, {w.shape}, {w.data}"
    for t in run.timings:
        other = f" ({t.baseline_note})" if t.baseline_note != t.note else ""
        undecided = ", undecided" if t.low <= 1 <= t.high else ""
        yield (
            f"  {t.m} x {t.n} x {t.k}, {t.launches} launches: {t.median_us:.1f} us, "
            f"{t.tflops:.0f} TFLOPS, {t.median:.3f} [{t.low:.3f}..{t.high:.3f}] of the speed of "
            f"{t.baseline}{other}{undecided}"
        )


def _comment(text: str) -> list[str]:
    """A text as comment lines; what a record quotes can neither end nor continue one."""
    body = text.lstrip(" ")
    indent = "//   " + " " * (len(text) - len(body))
    plain = printable(body).replace("\\", "/")
    return textwrap.wrap(plain, LINE_LENGTH, initial_indent=indent, subsequent_indent=indent + "  ")
