"""Named sums: one line item feeds the check, the error text, the header and the launch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One term of a sum. `how` spells the product out for a reader."""

    name: str
    amount: int
    how: str


@dataclass(frozen=True)
class Ledger:
    """A sum of items against a limit, all in `unit`."""

    title: str
    unit: str
    items: tuple[Item, ...]
    limit: int
    limit_name: str

    @property
    def total(self) -> int:
        """Sum of every item."""
        return sum(item.amount for item in self.items)

    @property
    def over(self) -> int:
        """How much the total exceeds the limit; 0 when it fits."""
        return max(0, self.total - self.limit)

    def __getitem__(self, name: str) -> int:
        return next(item.amount for item in self.items if item.name == name)

    def offset(self, name: str) -> int:
        """Sum of the items before the one called `name`."""
        names = [item.name for item in self.items]
        return sum(item.amount for item in self.items[: names.index(name)])

    def rows(self) -> tuple[str, ...]:
        """Aligned lines, one per item and one for the total."""
        names = [*(item.name for item in self.items), "total"]
        width = max(map(len, names)) + 1
        rows = [f"{i.name:<{width}}{i.amount:>8}   {i.how}".rstrip() for i in self.items]
        verdict = f": over by {self.over}" if self.over else ""
        rows.append(f"{'total':<{width}}{self.total:>8}   of {self.limit} {self.unit}{verdict}")
        return tuple(rows)

    def sentence(self) -> str:
        """The sum on one line, for a header comment."""
        terms = " + ".join(f"{item.name} {item.amount}" for item in self.items)
        return f"{terms} = {self.total} of {self.limit} {self.unit}"
