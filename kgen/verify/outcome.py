"""What a gate found: plain frozen data, printable and ready for JSON. Knows no arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Element:
    """One output element; |got - want| should not exceed `limit` (0: equal bit for bit)."""

    row: int
    col: int
    got: float
    want: float
    limit: float

    def __str__(self) -> str:
        return (
            f"D[{self.row},{self.col}] = {self.got:.9g}, want {self.want:.9g} +- {self.limit:.3g}"
        )


@dataclass(frozen=True)
class TileFinding:
    """The worst output tile: tile coordinates, its failed elements, its figure and what that may be
    at most.
    """

    row: int
    col: int
    failed: int
    value: float
    limit: float

    def __str__(self) -> str:
        value = f"{self.value:.3g} of {self.limit:.3g}"
        return f"tile ({self.row},{self.col}): {self.failed} failed, {value}"


@dataclass(frozen=True)
class GateResult:
    """Outcome of one gate.

    `cause` is the likeliest explanation, empty if there is none; `declared_limit` names the
    documented range limit (accumulator overflow, lost increments, output overflow) that fully
    explains what was seen. `figures` are the gate's numbers, for result files.
    """

    gate: str
    passed: bool
    checked: int
    failed: int = 0
    worst: Element | None = None
    tile: TileFinding | None = None
    cause: str = ""
    declared_limit: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        head = f"{self.gate}: {'passed' if self.passed else 'FAILED'}, {self.checked} checked"
        parts = [head + (f", {self.failed} failed" if self.failed else "")]
        if not self.passed:
            parts += [str(part) for part in (self.worst, self.tile) if part is not None]
        if self.cause:
            parts.append(f"cause: {self.cause}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Report:
    """All gates that applied to one output."""

    data: str  # the operands, in words
    results: tuple[GateResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(result.passed for result in self.results)

    @property
    def declared_limit(self) -> str:
        """The range limit that explains every failed gate; empty if one has another cause or none
        failed.
        """
        limits = [result.declared_limit for result in self.results if not result.passed]
        return limits[0] if limits and all(limits) else ""

    @property
    def cause(self) -> str:
        """The first explanation that a failed gate gives."""
        return next((r.cause for r in self.results if not r.passed and r.cause), "")

    def __str__(self) -> str:
        return "\n".join([self.data, *(f"  {result}" for result in self.results)])

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists. Figures may be infinite; JSON writers must map those."""
        return {
            "data": self.data,
            "passed": self.passed,
            "results": [asdict(r) for r in self.results],
        }
