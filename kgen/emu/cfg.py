"""Control flow of a kernel: blocks, liveness, post-dominators, and which registers are the same in
every lane.

A register is uniform when all lanes that execute together hold the same value; it then lives as one
Python integer. Two things make a register varying: data (it is computed from a varying one) and
control (it is set under a branch on which lanes part, and is still wanted where they meet again).
"""

from __future__ import annotations

from kgen.emu import isa
from kgen.emu.isa import Effects
from kgen.emu.ptx import Instruction, Kernel


def ends_block(instruction: Instruction) -> bool:
    return instruction.root in ("bra", "brx", "ret", "exit", "trap")


class ControlFlow:
    """Blocks are numbered in code order; number `exit` stands for the end of the kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.code = kernel.code
        self.effects: list[Effects] = [isa.effects(instruction) for instruction in kernel.code]
        self._split()
        self._connect()
        self._liveness()
        self._post_dominators()
        self.varying = self._divergence()

    def _split(self) -> None:
        leaders = {0}
        for index, instruction in enumerate(self.code):
            if ends_block(instruction):
                leaders.add(index + 1)
                if instruction.target >= 0:
                    leaders.add(instruction.target)
        self.starts = sorted(leader for leader in leaders if leader < len(self.code))
        self.ends = [*self.starts[1:], len(self.code)]
        self.block_of: list[int] = []
        for number, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            self.block_of += [number] * (end - start)
        self.exit = len(self.starts)

    def _block_at(self, index: int) -> int:
        return self.block_of[index] if index < len(self.code) else self.exit

    def _connect(self) -> None:
        self.successors: list[list[int]] = []
        for end in self.ends:
            last = self.code[end - 1]
            following = self._block_at(end)
            if last.root == "bra":
                after = [self._block_at(last.target)]
                if last.guard is not None:
                    after.append(following)
            elif ends_block(last):
                after = [self.exit] if last.guard is None else [self.exit, following]
            else:
                after = [following]
            self.successors.append(after)
        self.successors.append([])

    def _liveness(self) -> None:
        """live_in[b]: registers whose value at the start of block b is still read."""
        used: list[set[str]] = []
        self.defined: list[set[str]] = []
        for start, end in zip(self.starts, self.ends, strict=True):
            reads: set[str] = set()
            writes: set[str] = set()
            for facts in self.effects[start:end]:
                reads |= set(facts.reads) - writes
                writes |= set(facts.writes)
            used.append(reads)
            self.defined.append(writes)
        self.live_in: list[set[str]] = [set() for _ in range(self.exit + 1)]
        changed = True
        while changed:
            changed = False
            for block in reversed(range(self.exit)):
                out: set[str] = set()
                for successor in self.successors[block]:
                    out |= self.live_in[successor]
                live = used[block] | (out - self.defined[block])
                if live != self.live_in[block]:
                    self.live_in[block] = live
                    changed = True

    def live_at(self, index: int) -> set[str]:
        """Registers whose value before the instruction `index` is still read."""
        if index >= len(self.code):
            return set()
        block = self.block_of[index]
        live = set().union(*(self.live_in[after] for after in self.successors[block]))
        for facts in reversed(self.effects[index : self.ends[block]]):
            live = (live - set(facts.writes)) | set(facts.reads)
        return live

    def join_of(self, index: int) -> int:
        """Where lanes that part at the branch `index` meet again; -1 if only at the end."""
        join = self.join[self.block_of[index]]
        return self.starts[join] if join != self.exit else -1

    def _post_dominators(self) -> None:
        """join[b]: the first block that every path from b passes, where parted lanes meet again."""
        everything = set(range(self.exit + 1))
        after = [set(everything) for _ in range(self.exit)] + [{self.exit}]
        changed = True
        while changed:
            changed = False
            for block in reversed(range(self.exit)):
                common = set(everything)
                for successor in self.successors[block]:
                    common &= after[successor]
                common.add(block)
                if common != after[block]:
                    after[block] = common
                    changed = True
        self.join: list[int] = []
        for block in range(self.exit):
            strict = after[block] - {block}
            nearest = [p for p in strict if strict <= after[p]]
            self.join.append(nearest[0] if nearest else self.exit)

    def reachable(self, start: int, stop: int) -> set[int]:
        """Blocks reachable from start without passing through stop."""
        found: set[int] = set()
        todo = [start]
        while todo:
            block = todo.pop()
            if block in (stop, self.exit) or block in found:
                continue
            found.add(block)
            todo += self.successors[block]
        return found

    def _divergence(self) -> set[str]:
        constants = isa.single_constants(self.code)
        varying = set(isa.VARYING_SPECIALS)
        while True:
            before = len(varying)
            for instruction in self.code:
                varying.update(isa.varying_results(instruction, varying, constants))
            for block in range(self.exit):
                last = self.code[self.ends[block] - 1]
                if ends_block(last) and last.guard is not None and last.guard.name in varying:
                    varying |= self._varying_by_control(block)
            if len(varying) == before:
                return varying

    def _varying_by_control(self, block: int) -> set[str]:
        """Registers set between a varying branch and a place where its lanes may meet, and live
        there.
        """
        join = self.join[block]
        sides = [self.reachable(successor, join) for successor in self.successors[block]]
        region = set().union(*sides)
        meetings = set.intersection(*sides) if len(sides) > 1 else set()
        if join != self.exit:
            meetings.add(join)
        wanted: set[str] = set()
        for meeting in meetings:
            wanted |= self.live_in[meeting]
        found: set[str] = set()
        for inside in region:
            found |= self.defined[inside] & wanted
        return found
