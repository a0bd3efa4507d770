"""All gates that apply to one output, in order. The one entry point for callers that only want a
verdict.
"""

from __future__ import annotations

from kgen.errors import VerifyError
from kgen.verify.gates import (
    bound_gate,
    exact_gate,
    finite_gate,
    statistical_gate,
    unwritten_gate,
)
from kgen.verify.inputs import Operands
from kgen.verify.numbers import Array, Numerics, array_module, to_float32
from kgen.verify.outcome import GateResult, Report
from kgen.verify.reference import Reference, reference
from kgen.verify.tiling import tile_blocks

EXACT_KINDS = ("exact", "full_range", "constant")


def error_figures(got: Array, ref: Reference, numerics: Numerics) -> dict[str, float]:
    """Mean, 99th percentile and maximum of |got - ref|.

    With unit-variance outputs this is the convention of the published figures for f16 accumulation
    at K = 8192: 0.0023, 0.0117 and 0.047 (tilus, Hopper matmul tutorial V6).
    """
    if not got.size:
        return {}
    xp = array_module(got)
    error = xp.empty(got.shape, dtype="float32")
    for _, rows in tile_blocks(got.shape[0], numerics.tile_m):
        error[rows] = xp.abs(to_float32(got[rows], numerics.output) - ref.product[rows])
    names = ("mean_error", "p99_error", "max_error")
    values = (error.mean(dtype="float64"), xp.percentile(error, 99), error.max())
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def value_gate(got: Array, ref: Reference, operands: Operands, numerics: Numerics) -> GateResult:
    """The gate that fits the operands: exact for integers, else by the accumulator."""
    if operands.kind in EXACT_KINDS:
        return exact_gate(got, ref, operands, numerics)
    if numerics.has_short_sums:
        return statistical_gate(got, ref, operands, numerics)
    return bound_gate(got, ref, operands, numerics)


def make_reference(
    operands: Operands, numerics: Numerics, *, precision: str | None = None
) -> Reference:
    """The reference with exactly what the gates of these operands need."""
    magnitude = operands.kind not in EXACT_KINDS and not numerics.has_short_sums
    if numerics.has_integers:
        precision = "float64"  # float32 does not hold every sum
    return reference(
        operands.a,
        operands.b,
        numerics,
        magnitude=magnitude,
        precision=precision,
        scales=operands.scales,
    )


def check(
    got: Array, operands: Operands, numerics: Numerics, ref: Reference | None = None
) -> Report:
    """Unwritten, finite and value gate on one output.

    Shapes  got (M, N) storage of numerics.output, any strides; it was poisoned before the launch
    ref     from make_reference; pass it when several outputs share their operands
    Raises  VerifyError if the shapes do not belong together
    """
    want = (operands.a.shape[0], operands.b.shape[0])
    if got.shape != want or operands.a.shape[1] != operands.b.shape[1]:
        raise VerifyError(
            f"output {got.shape} does not belong to A {operands.a.shape} and B {operands.b.shape}"
        )
    ref = ref or make_reference(operands, numerics)
    finite = finite_gate(got, ref, operands, numerics)
    value = value_gate(got, ref, operands, numerics)
    if operands.kind == "unit_variance" and finite.passed:
        value.figures.update(error_figures(got, ref, numerics))
    return Report(operands.note, (unwritten_gate(got, numerics), finite, value))
