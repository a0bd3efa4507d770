"""Shadow of a CTA's shared memory: who wrote and read each word last, and where TMA's elements came
from.

Words are 4 bytes. A writer is a warp (its index in the grid) or an asynchronous operation
(negative).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.order import ASYNC, HAPPENED, VISIBLE, AsyncOp, Knowledge
from kgen.emu.registers import SHARED_BASE

if TYPE_CHECKING:
    from kgen.emu.machine import Cta, Warp

WORD = 4
PAGE = 1024
UNIT = 2  # bytes of the provenance shadow
NOBODY = -1
UNKNOWN = np.int64(-(1 << 63))  # provenance of bytes that no TMA load brought


def writer_of(number: int) -> int:
    """The shadow's name of an asynchronous operation."""
    return -number - 2


def operation_of(writer: int) -> int:
    return -writer - 2


@dataclass(frozen=True, eq=False)
class Footprint:
    """Bytes lo..hi of shared memory; `words` lists the touched words where they are not all of
    them.
    """

    lo: int
    hi: int
    words: np.ndarray | None = None

    @classmethod
    def of_words(cls, words: np.ndarray) -> Footprint:
        """From word indices in any order, repeats allowed."""
        unique = np.unique(words)
        lo, hi = int(unique[0]), int(unique[-1]) + 1
        exact = None if hi - lo == unique.size else unique
        return cls(lo * WORD, hi * WORD, exact)

    @property
    def index(self) -> slice | np.ndarray:
        """Selects the words in a shadow array."""
        if self.words is None:
            return slice(self.lo // WORD, -(-self.hi // WORD))
        return self.words

    def overlaps(self, other: Footprint) -> bool:
        if self.hi <= other.lo or other.hi <= self.lo:
            return False
        if self.words is None and other.words is None:
            return True
        mine = (
            self.words
            if self.words is not None
            else np.arange(self.lo // WORD, -(-self.hi // WORD))
        )
        theirs = (
            other.words
            if other.words is not None
            else np.arange(other.lo // WORD, -(-other.hi // WORD))
        )
        return bool(np.isin(mine, theirs, assume_unique=True).any())

    def __str__(self) -> str:
        return f"shared bytes +{self.lo - SHARED_BASE}..+{self.hi - SHARED_BASE}"


@dataclass(frozen=True)
class Conflict:
    """What is wrong about one access."""

    kind: str
    text: str
    other: str


class SharedShadow:
    """Shadow state of one CTA's shared memory (`size` bytes, the reserved ones included)."""

    def __init__(self, cta: Cta, size: int) -> None:
        words = -(-size // WORD)
        self.cta = cta
        self.writer = np.full(words, NOBODY, np.int32)
        self.stamp = np.zeros(words, np.int32)
        self.atomic = np.zeros(words, bool)  # last written by a synchronising access
        self.readers: dict[int, np.ndarray] = {}  # warp -> stamp of its last generic read, per word
        self.live: list[AsyncOp] = []  # operations that may still read
        self._live_limit = 32
        units = -(-size // UNIT)
        self.provenance = np.full(units, UNKNOWN, np.int64)
        self.unread = np.zeros(units, bool)
        self._writes = np.zeros(size // PAGE + 1, np.int64)  # per page, counted

    def version(self, lo: int, hi: int) -> int:
        """A number that changes whenever a byte in lo..hi does."""
        return int(self._writes[lo // PAGE : hi // PAGE + 1].sum())

    def changed(self, footprint: Footprint) -> None:
        """The contents of these bytes have changed."""
        self._writes[footprint.lo // PAGE : (footprint.hi - 1) // PAGE + 1] += 1

    # ------------------------------------------------------------ checks

    def read_conflicts(
        self, warp: Warp, footprint: Footprint, by_async: bool
    ) -> Iterator[Conflict]:
        """Unwritten bytes, writes that are not visible, and generic writes that the async proxy
        cannot see.
        """
        index = footprint.index
        for writer, stamp, count in _pairs(self.writer[index], self.stamp[index]):
            if writer == NOBODY:
                yield Conflict(
                    "unwritten-read", f"reads {count * WORD} bytes that nothing wrote", ""
                )
            else:
                yield from self._after_write(
                    warp.order.knows, warp, writer, stamp, by_async, "reads"
                )

    def write_conflicts(
        self, warp: Warp, footprint: Footprint, by_async: bool
    ) -> Iterator[Conflict]:
        """Earlier writes and reads of the same bytes that are not over."""
        index = footprint.index
        knows = warp.order.knows
        for writer, stamp, _ in _pairs(self.writer[index], self.stamp[index]):
            if writer != NOBODY:
                yield from self._before_overwrite(knows, warp, writer, stamp, by_async)
        for reader, stamps in self.readers.items():
            latest = int(stamps[index].max())
            if reader != warp.index and latest > knows.clock[HAPPENED, reader]:
                other = warp.grid.warps[reader].name
                yield Conflict("race", f"overwrites bytes that {other} may still read", other)
        for operation in self.live:
            if knows.completed >> operation.number & 1:
                continue
            for cta, footprint_read in operation.reads:
                if cta is self.cta and footprint_read.overlaps(footprint):
                    what = operation.describe()
                    yield Conflict("race", f"overwrites bytes that {what} may still read", what)
                    break

    def _after_write(
        self, knows: Knowledge, warp: Warp, writer: int, stamp: int, by_async: bool, verb: str
    ) -> Iterator[Conflict]:
        if writer < 0:
            number = operation_of(writer)
            what = warp.grid.describe_operation(number)
            if not knows.completed >> number & 1:
                yield Conflict(
                    "race", f"{verb} bytes of {what}, whose completion was not waited for", what
                )
            elif not knows.data >> number & 1:
                text = f"{verb} bytes of {what}, which is over but was not acquired"
                yield Conflict("not-visible", text, what)
            return
        other = warp.grid.warps[writer].name
        if writer != warp.index and knows.clock[HAPPENED, writer] < stamp:
            yield Conflict(
                "race", f"{verb} bytes written by {other} with no order between them", other
            )
        elif writer != warp.index and knows.clock[VISIBLE, writer] < stamp:
            text = (
                f"{verb} bytes written by {other}: ordered, but no release and acquire makes them "
                f"visible"
            )
            yield Conflict("not-visible", text, other)
        elif by_async and knows.clock[ASYNC, writer] < stamp:
            text = f"the async proxy {verb} bytes that {other} wrote through the generic proxy"
            yield Conflict(
                "missing-proxy-fence", f"{text}, with no fence.proxy.async between", other
            )

    def _before_overwrite(
        self, knows: Knowledge, warp: Warp, writer: int, stamp: int, by_async: bool
    ) -> Iterator[Conflict]:
        if writer < 0:
            number = operation_of(writer)
            if not knows.completed >> number & 1:
                what = warp.grid.describe_operation(number)
                yield Conflict(
                    "race", f"overwrites bytes of {what}, whose completion was not waited for", what
                )
            return
        other = warp.grid.warps[writer].name
        if writer != warp.index and knows.clock[HAPPENED, writer] < stamp:
            yield Conflict(
                "race", f"overwrites bytes written by {other} with no order between them", other
            )
        elif by_async and knows.clock[ASYNC, writer] < stamp:
            text = f"the async proxy overwrites bytes that {other} wrote through the generic proxy"
            yield Conflict(
                "missing-proxy-fence", f"{text}, with no fence.proxy.async between", other
            )

    # ------------------------------------------------------------ records

    def record_read(self, warp: Warp, footprint: Footprint) -> None:
        stamps = self.readers.get(warp.index)
        if stamps is None:
            stamps = self.readers[warp.index] = np.zeros(self.writer.size, np.int32)
        stamps[footprint.index] = warp.order.now
        self.mark_used(footprint)

    def only_atomic(self, footprint: Footprint) -> bool:
        """Whether nothing but synchronising accesses has written these words."""
        index = footprint.index
        return bool((self.atomic[index] | (self.writer[index] == NOBODY)).all())

    def record_write(
        self, footprint: Footprint, writer: int, stamp: int, atomic: bool = False
    ) -> None:
        index = footprint.index
        self.atomic[index] = atomic
        self.writer[index] = writer
        self.stamp[index] = stamp
        self.changed(footprint)

    def forget_origin(self, footprint: Footprint) -> None:
        """A generic write: the bytes no longer come from a tensor."""
        for units in self.units(footprint):
            self.provenance[units] = UNKNOWN
            self.unread[units] = False

    def mark_used(self, footprint: Footprint) -> None:
        for units in self.units(footprint):
            self.unread[units] = False

    @staticmethod
    def units(footprint: Footprint) -> Iterator[slice | np.ndarray]:
        """Selects the footprint in the shadows that have one entry per UNIT bytes."""
        if footprint.words is None:
            yield slice(footprint.lo // UNIT, -(-footprint.hi // UNIT))
        else:
            yield footprint.words * 2
            yield footprint.words * 2 + 1

    def add_live(self, operation: AsyncOp) -> None:
        """Watches an operation's reads until every warp of the CTA knows that it is over."""
        self.live.append(operation)
        if len(self.live) > self._live_limit:
            known = -1
            for warp in self.cta.warps:
                if warp.fragments:
                    known &= warp.order.knows.completed
            self.live = [op for op in self.live if not known >> op.number & 1]
            self._live_limit = 2 * len(self.live) + 32


def _pairs(writers: np.ndarray, stamps: np.ndarray) -> list[tuple[int, int, int]]:
    """Distinct (writer, stamp, words) of an access."""
    if writers.size == 0:
        return []
    first, stamp = writers[0], stamps[0]
    if (writers == first).all() and (stamps == stamp).all():
        return [(int(first), int(stamp), writers.size)]
    both = (writers.astype(np.int64) << 32) | stamps
    values, counts = np.unique(both, return_counts=True)
    return [
        (int(v) >> 32, int(v) & 0xFFFFFFFF, int(c)) for v, c in zip(values, counts, strict=True)
    ]
