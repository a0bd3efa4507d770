"""The protocol of cluster launch control, played through in random orders with the budget's counts.

It follows `next_tile` and `schedule` of templates/roles/tcgen05_frame.j2 line by line: one thread
of every reading warp, answers that land in each CTA at any time, mbarriers as PTX defines them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from blackwell import variant

from kgen.budget import budget
from kgen.budget.tcgen05 import Tcgen05Budget

NAMES = ["bf16_clc", "bf16_pair_clc", "rubin_nvfp4_split_clc"]
TILES = 17
Step = Callable[[], bool]  # what an actor waits for


class BrokenError(AssertionError):
    """An answer was overwritten unread, a barrier miscounted, or nobody can go on."""


@dataclass
class Mbarrier:
    """Arrivals and bytes of the current phase; a wait for a parity passes once that is over."""

    arrivals: int
    pending: int = field(init=False)
    tx: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def arrive(self, expected: int = 0) -> None:
        if self.pending == 0:
            raise BrokenError("an arrival too many")
        self.pending -= 1
        self.count(expected)

    def count(self, size: int) -> None:
        """Bytes expected, or landed (negative); these may come first."""
        self.tx += size
        if self.pending == 0 and self.tx == 0:
            self.pending, self.phase = self.arrivals, self.phase + 1

    def passed(self, parity: int) -> bool:
        return self.phase % 2 != parity


class Cluster:
    """One cluster, which takes over every other of TILES clusters; others take the rest."""

    def __init__(self, b: Tcgen05Budget, seed: int, extra_arrivals: int = 0) -> None:
        rows = {x.name: x for x in b.barriers}
        full, empty = rows["tile_full"], rows["tile_empty"]
        self.random, self.ctas, self.slots = random.Random(seed), b.shape.ctas, full.count
        self.bytes = full.tx_bytes
        self.full = [[Mbarrier(full.arrivals) for _ in range(full.count)] for _ in range(self.ctas)]
        self.empty = [Mbarrier(empty.arrivals + extra_arrivals) for _ in range(empty.count)]
        self.answers = [[0] * self.slots for _ in range(self.ctas)]
        self.unread = [[0] * self.slots for _ in range(self.ctas)]
        self.left = list(range(1, TILES, 2))
        self.seen: dict[str, list[int]] = {}
        self.actors: dict[str, Iterator[Step]] = {}
        self.readers = [0] * self.ctas
        for cta in range(self.ctas):
            for role in b.roles:
                leads = cta % b.shape.group == 0
                for warp in range(role.warps if role.name != "mma" or leads else 0):
                    self._add(cta, f"{role.name} {warp}", role.name == "scheduler")

    def _add(self, cta: int, name: str, schedules: bool) -> None:
        label = f"{name} of CTA {cta}"
        self.seen[label] = [0]
        self.readers[cta] += 1
        self.actors[label] = self._schedule(cta, label) if schedules else self._read(cta, label)

    def _next_tile(self, cta: int, label: str, turn: int) -> Iterator[Step]:
        slot, parity = turn % self.slots, turn // self.slots % 2
        yield lambda: self.full[cta][slot].passed(parity)
        self.seen[label].append(self.answers[cta][slot])
        self.unread[cta][slot] -= 1
        yield lambda: True
        self.empty[slot].arrive()

    def _read(self, cta: int, label: str) -> Iterator[Step]:
        turn = 0
        while self.seen[label][-1] >= 0:
            yield lambda: True  # the tile itself
            yield from self._next_tile(cta, label, turn)
            turn += 1

    def _schedule(self, cta: int, label: str) -> Iterator[Step]:
        turn = 0
        while self.seen[label][-1] >= 0:
            slot, parity = turn % self.slots, turn // self.slots % 2
            self.full[cta][slot].arrive(self.bytes)
            if cta == 0:
                yield lambda s=slot, p=parity: self.empty[s].passed(p ^ 1)
                self._ask(slot, turn)
            yield from self._next_tile(cta, label, turn)
            turn += 1

    def _ask(self, slot: int, turn: int) -> None:
        answer = self.left.pop(0) if self.left else -1
        for cta in range(self.ctas):
            self.actors[f"answer {turn} to CTA {cta}"] = self._land(cta, slot, answer)

    def _land(self, cta: int, slot: int, answer: int) -> Iterator[Step]:
        yield lambda: True
        if self.unread[cta][slot]:
            raise BrokenError("an answer was overwritten before all had read it")
        self.answers[cta][slot], self.unread[cta][slot] = answer, self.readers[cta]
        self.full[cta][slot].count(-self.bytes)

    def run(self) -> None:
        """Until every actor has ended. Raises BrokenError when one cannot."""
        waits: dict[str, Step] = {}
        while self.actors:
            for name in self.actors.keys() - waits.keys():
                waits[name] = lambda: True
            ready = sorted(name for name, wait in waits.items() if wait())
            if not ready:
                raise BrokenError(f"nobody goes on: {', '.join(sorted(waits))}")
            # A few are much slower than the others, another set for every seed.
            name = min(ready, key=lambda x: self.random.random() * (1 + hash_of(x, self.ctas) % 5))
            try:
                waits[name] = next(self.actors[name])
            except StopIteration:
                del self.actors[name], waits[name]


def hash_of(name: str, salt: int) -> int:
    """The same in every process."""
    return sum(ord(letter) * (i + salt) for i, letter in enumerate(name))


def budget_of(name: str) -> Tcgen05Budget:
    found = budget(variant(name))
    assert isinstance(found, Tcgen05Budget)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_role_sees_every_tile_once_and_all_end(name):
    """In 30 orders: no deadlock, no answer lost or overwritten, no request after a refusal."""
    b = budget_of(name)
    for seed in range(30):
        cluster = Cluster(b, seed)
        cluster.run()
        wanted = [0, *range(1, TILES, 2), -1]
        assert all(seen == wanted for seen in cluster.seen.values())
        idle = b.shape.ctas // 2 if b.shape.group == 2 else 0  # the MMA warp of an odd CTA
        assert len(cluster.seen) == b.threads // 32 * b.shape.ctas - idle
        for row in [*cluster.full, cluster.empty]:
            assert all(x.tx == 0 and x.pending == x.arrivals for x in row), "nothing is on its way"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("extra", "what"), [(-1, "overwritten|too many"), (1, "nobody goes on")])
def test_another_count_of_readers_breaks_it(name, extra, what):
    """So the test above could fail."""
    b, found = budget_of(name), []
    for seed in range(30):
        try:
            Cluster(b, seed, extra).run()
        except BrokenError as broken:
            found.append(str(broken))
    assert found
    with pytest.raises(BrokenError, match=what):
        raise BrokenError(found[0])
