"""A screen has no rest between windows: the board warms up and slows down. Pure arithmetic.

torch is timed again every few kernels on the same GPU; what a kernel is held against is its time
at the kernel's own moment, on the line between the timings around it.
"""

from __future__ import annotations

from collections.abc import Sequence


def reference_at(moment: float, readings: Sequence[tuple[float, float]]) -> float:
    """The reference's time per launch at a moment, between or at the end of its readings.

    readings  (moment, time per launch), at least one; moments in seconds of one clock
    """
    ordered = sorted(readings)
    before = [r for r in ordered if r[0] <= moment]
    after = [r for r in ordered if r[0] > moment]
    if not before:
        return after[0][1]
    if not after:
        return before[-1][1]
    (t0, x0), (t1, x1) = before[-1], after[0]
    return x0 + (x1 - x0) * (moment - t0) / (t1 - t0)
