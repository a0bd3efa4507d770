"""Reads SASS: the main loops of a kernel, and the fences that must not stand in one.

ptxas turns some forms of a release, `mbarrier.arrive.release.cluster` among them, into a fence of
the whole GPU in front of the instruction. That is right and ruinous: a K tile of 1024 clocks then
takes 1300 to 2100 of them on an H200.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_SECTION = re.compile(r"^\.text\.(\S+):")
_LABEL = re.compile(r"^(\S+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;")
_TARGET = re.compile(r"`\(([^)]+)\)")
_MMA = re.compile(r"\b[HQIBO]GMMA\b")
# Of a scope that other SMs see. ERRBAR comes with one and waits for it.
_FENCE = re.compile(r"\b(?:MEMBAR\.\w+\.(?:GPU|SYS|VC)|ERRBAR)\b")
# These name a label and go on behind themselves; a call comes back.
_NO_BRANCH = re.compile(r"\b(?:BSSY|CALL)\b")
_ENDS = re.compile(r"^(?:BRA(?!\.DIV)|EXIT|RET|BRX|JMX|KILL)\b")


@dataclass(frozen=True)
class Function:
    """Code of one section: instructions in order, and the index that each label stands before."""

    name: str
    code: tuple[str, ...]
    labels: dict[str, int]

    @cached_property
    def next(self) -> tuple[tuple[int, ...], ...]:
        """Instructions that may follow each; calls are followed by their return."""
        return tuple(self._next(i) for i in range(len(self.code)))

    def _next(self, i: int) -> tuple[int, ...]:
        text = self.code[i]
        found = [] if _ENDS.match(text) else [i + 1]
        target = _TARGET.search(text)
        if target and not _NO_BRANCH.search(text) and target[1] in self.labels:
            found.append(self.labels[target[1]])
        return tuple(x for x in found if x < len(self.code))

    def called(self, i: int) -> int | None:
        """Where the function begins that instruction i calls."""
        target = _TARGET.search(self.code[i])
        return self.labels.get(target[1]) if target and "CALL" in self.code[i] else None


def functions(sass: str) -> Iterator[Function]:
    """Every section of code in a disassembly."""
    name, code, labels = "", [], {}
    for line in sass.splitlines():
        if match := _SECTION.match(line):
            if code:
                yield Function(name, tuple(code), labels)
            name, code, labels = match[1], [], {}
        elif match := _LABEL.match(line):
            labels[match[1]] = len(code)
        elif match := _INSTRUCTION.match(line):
            code.append(match[1])
    if code:
        yield Function(name, tuple(code), labels)


def main_loops(f: Function) -> Iterator[frozenset[int]]:
    """Instructions of every innermost loop that multiplies, with those of what it calls.

    A loop around another one that multiplies is the loop over tiles, which may fence.
    """
    loops = [x for x in _loops(f) if any(_MMA.search(f.code[i]) for i in x)]
    for loop in loops:
        if not any(other < loop for other in loops):
            calls = {entry for i in loop if (entry := f.called(i)) is not None}
            yield loop | _reachable(f, calls)


def fences(sass: str) -> list[str]:
    """Every fence of GPU or system scope inside a main loop, as `function: instruction`."""
    return [
        f"{f.name}: {f.code[i]}"
        for f in functions(sass)
        for loop in main_loops(f)
        for i in sorted(loop)
        if _FENCE.search(f.code[i])
    ]


def _loops(f: Function) -> list[frozenset[int]]:
    """Natural loops: all that reaches a branch back to an instruction that dominates it.

    Only so are the retries of a wait, which ptxas puts behind everything else, not taken for ends
    of loops.
    """
    before: dict[int, list[int]] = {}
    for i in range(len(f.code)):
        for j in f.next[i]:
            before.setdefault(j, []).append(i)
    loops: dict[int, set[int]] = {}
    for i in range(len(f.code)):
        for head in f.next[i]:
            if head <= i and _dominates(f, head, i):
                body = loops.setdefault(head, {head})
                todo = [i]
                while todo:
                    x = todo.pop()
                    if x not in body:
                        body.add(x)
                        todo += before.get(x, [])
    return [frozenset(x) for x in loops.values()]


def _dominates(f: Function, head: int, i: int) -> bool:
    """Whether every way from the entry to instruction i goes through `head`."""
    return i not in _reachable(f, {0}, without=head)


def _reachable(f: Function, start: set[int], without: int | None = None) -> frozenset[int]:
    """Instructions on some way from `start` on that does not enter `without`."""
    seen: set[int] = set()
    todo = [x for x in start if x != without]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            todo += [j for j in f.next[x] if j != without]
    return frozenset(seen)
