"""Tensor memory: which columns hold which accumulator and which scales.

A column is 32 bits in each of 128 lanes. Small buffers are packed behind each other; only the whole
allocation is rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgen.arch import Arch
from kgen.budget.ledger import Item, Ledger

SCALE_COLUMNS = 4  # one 512-byte block of scales, and so the finest place that anything starts at
_COLUMNS_PER_LINE = 256


@dataclass(frozen=True)
class TmemBuffer:
    """Columns that are wanted. `mark` is the letter that the drawing fills them with."""

    name: str
    columns: int
    how: str
    mark: str


@dataclass(frozen=True)
class TmemColumns:
    """A buffer and its first column."""

    buffer: TmemBuffer
    first: int

    @property
    def end(self) -> int:
        """The column behind the last."""
        return self.first + self.buffer.columns


@dataclass(frozen=True)
class TmemMap:
    """The columns of one CTA. `allocated` is what tcgen05.alloc is asked for."""

    rows: tuple[TmemColumns, ...]
    allocated: int
    exclusive: bool
    limit: int
    limit_name: str

    @property
    def used(self) -> int:
        """Columns up to the last one in use."""
        return max((row.end for row in self.rows), default=0)

    @property
    def total(self) -> int:
        """The same, by a ledger's word."""
        return self.used

    @property
    def over(self) -> int:
        """Columns that do not fit; 0 when all do."""
        return max(0, self.used - self.limit)

    def first(self, name: str) -> int:
        """First column of the buffer called `name`."""
        return next(row.first for row in self.rows if row.buffer.name == name)

    def ledger(self) -> Ledger:
        """The sum of the columns against the limit."""
        items = tuple(Item(r.buffer.name, r.buffer.columns, r.buffer.how) for r in self.rows)
        return Ledger("tensor memory", "columns", items, self.limit, self.limit_name)

    def drawing(self) -> tuple[str, ...]:
        """Lines of 256 columns, one letter for four of them; a dot is allocated and unused."""
        end = max(self.used, self.allocated)
        marks = ["."] * -(-end // SCALE_COLUMNS)
        for row in self.rows:
            for column in range(row.first, row.end, SCALE_COLUMNS):
                marks[column // SCALE_COLUMNS] = row.buffer.mark
        step = _COLUMNS_PER_LINE // SCALE_COLUMNS
        return tuple(
            f"{start * SCALE_COLUMNS:>3} |{''.join(marks[start : start + step])}|"
            for start in range(0, len(marks), step)
        )


def plan_tmem(
    buffers: tuple[TmemBuffer, ...], arch: Arch, exclusive: bool | Literal["auto"] = "auto"
) -> TmemMap:
    """Columns for `buffers`, in their order, whether they fit or not.

    exclusive  True takes the whole tensor memory, which sm_107a extends to 576 columns, and shuts
               out any other kernel; "auto" does that only if the buffers need it
    Units      a plain allocation is a power of two of at least 32 columns
    Raises     ValueError for exclusive on a target that gains nothing by it
    Source     PTX ISA, "tcgen05.alloc"; SASS of alloc.exclusive for sm_107a takes 576 whatever its
               operand says
    """
    if exclusive is True and not arch.tmem_exclusive_columns:
        raise ValueError(f"{arch.target} has no more columns for an exclusive allocation")
    rows, column = [], 0
    for buffer in buffers:
        rows.append(TmemColumns(buffer, column))
        column += -(-buffer.columns // SCALE_COLUMNS) * SCALE_COLUMNS
    used = max((row.end for row in rows), default=0)
    needs = used > arch.tmem_columns and arch.tmem_exclusive_columns > 0
    if exclusive is True or (exclusive == "auto" and needs):
        limit = allocated = arch.tmem_exclusive_columns
        name = f"{arch.target} tensor memory, exclusive"
        return TmemMap(tuple(rows), allocated, True, limit, name)
    allocated = arch.tmem_unit
    while allocated < min(used, arch.tmem_columns):
        allocated *= 2
    name = f"{arch.target} tensor memory"
    return TmemMap(tuple(rows), allocated, False, arch.tmem_columns, name)
