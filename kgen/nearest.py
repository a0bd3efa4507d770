"""The values that a refused one could become."""

from __future__ import annotations


def nearest_multiples(value: int, step: int, largest: int | None = None) -> str:
    """The multiples of `step` on either side of a value, in words; at least one step."""
    below = max(step, value // step * step)
    near = [below] if value <= below else [below, below + step]
    if largest is not None:
        near = [min(x, largest // step * step) for x in near]
    shown = [str(x) for x in dict.fromkeys(near)]
    return f"the nearest {'are' if len(shown) > 1 else 'is'} {' and '.join(shown)}"
