"""Reads one .entry: its parameters, directives and body, with the nested scopes of inline assembly.

Source  PTX ISA chapters 4 (syntax), 5 (declarations), 11 (directives)
"""

from __future__ import annotations

import re

from kgen.emu.operand_text import OperandParser, is_number
from kgen.emu.ptx import (
    Instruction,
    Kernel,
    Location,
    Operand,
    Reg,
    Sym,
    Variable,
)
from kgen.emu.tokens import Tokens, integer
from kgen.errors import EmulatorError

_PERFORMANCE = {
    ".reqntid",
    ".maxntid",
    ".reqnctapercluster",
    ".maxnctapersm",
    ".minnctapersm",
    ".maxnreg",
    ".explicitcluster",
    ".maxclusterrank",
    ".noreturn",
    ".blocksareclusters",
}


def _type_bytes(words: list[str], line: int) -> int:
    for word in words:
        if match := re.fullmatch(r"\.[busf](8|16|32|64|128)(x2)?", word):
            return int(match.group(1)) // 8 * (2 if match.group(2) else 1)
        if word in (".pred", ".texref", ".samplerref", ".surfref"):
            return 8
    raise EmulatorError(f"PTX line {line}: declaration without a type: {' '.join(words)}")


def variable(words: list[str], line: int) -> Variable:
    """`.align 64 .b8 name[128]` -> Variable"""
    element = _type_bytes(words, line)
    align = int(words[words.index(".align") + 1]) if ".align" in words else element
    if "=" in words:
        words = words[: words.index("=")]
    if "[" in words:
        open_at = words.index("[")
        name = words[open_at - 1]
        count = 1
        for index, word in enumerate(words):
            if word == "[":
                count *= integer(words[index + 1], line) if words[index + 1] != "]" else 0
        return Variable(name, count * element, align, element)
    return Variable(words[-1], element, align, element)


class EntryParser(OperandParser):
    """Parses from the kernel's name to the closing brace of its body."""

    def __init__(self, tokens: Tokens, files: dict[int, str]) -> None:
        super().__init__(tokens)
        self.files = files
        self.kernel = Kernel("")
        self.location = Location()
        self.scopes: list[int] = [0]  # numbers of the open scopes, innermost last
        self.scope_count = 0
        self.labels: dict[tuple[int, str], int] = {}  # (scope, label) -> instruction index
        self.branches: list[tuple[int, tuple[int, ...]]] = []  # instruction index, open scopes

    def parse(self) -> Kernel:
        tokens = self.tokens
        self.kernel.name = tokens.next()
        if tokens.peek() == "(":
            tokens.next()
            self._parameters()
        while tokens.peek() != "{":
            self._performance_directive()
        tokens.next()
        while self.scopes:
            self._statement()
        self._resolve_branches()
        return self.kernel

    def _parameters(self) -> None:
        words: list[str] = []
        while True:
            line = self.tokens.line
            token = self.tokens.next()
            if token in (",", ")"):
                if words:
                    self.kernel.params.append(variable(words, line))
                words = []
                if token == ")":
                    return
            else:
                words.append(token)

    def _performance_directive(self) -> None:
        line = self.tokens.line
        name = self.tokens.next()
        if name not in _PERFORMANCE:
            raise EmulatorError(
                f"PTX line {line}: unexpected {name!r} before the body of {self.kernel.name}"
            )
        values: list[int] = []
        while is_number(self.tokens.peek()) or self.tokens.peek() == ",":
            token = self.tokens.next()
            if token != ",":
                values.append(integer(token, line))
        padded = tuple(values + [1] * (3 - len(values)))
        if name == ".reqntid":
            self.kernel.reqntid = padded
        elif name == ".maxntid":
            self.kernel.maxntid = padded
        elif name == ".reqnctapercluster":
            self.kernel.cluster = padded
        elif name == ".maxnreg":
            self.kernel.maxnreg = values[0]

    def _statement(self) -> None:
        tokens = self.tokens
        token = tokens.peek()
        if token == "{":
            tokens.next()
            self.scope_count += 1
            self.scopes.append(self.scope_count)
            self.names.append({})
        elif token == "}":
            tokens.next()
            self.scopes.pop()
            self.names.pop()
        elif token == ".loc":
            tokens.next()
            self._loc(tokens.rest_of_line())
        elif token in (".reg", ".shared", ".local", ".param", ".pragma", ".const", ".global"):
            self._declaration()
        elif token in (".branchtargets", ".calltargets", ".callprototype"):
            tokens.until(";")
        elif tokens.peek(1) == ":":
            self.labels[(self.scopes[-1], tokens.next())] = len(self.kernel.code)
            tokens.next()
        elif token == ";":
            tokens.next()
        else:
            self._instruction()

    def _loc(self, words: list[str]) -> None:
        """`.loc file line column [, function_name label, inlined_at file line column]`"""
        line = int(words[1])
        inlined_at = int(words[words.index("inlined_at") + 2]) if "inlined_at" in words else 0
        self.location = Location(self.files.get(int(words[0]), ""), line, inlined_at)

    def _declaration(self) -> None:
        line = self.tokens.line
        space = self.tokens.next()
        words = self.tokens.until(";")
        if space == ".shared":
            self.kernel.shared.append(variable(words, line))
        elif space == ".reg":
            kind = words[0].lstrip(".")
            for name in "".join(words[1:]).split(","):
                self._declare_register(name, kind)

    def _declare_register(self, name: str, kind: str) -> None:
        if match := re.fullmatch(r"(.+)<(\d+)>", name):
            for index in range(int(match.group(2))):
                self._declare_register(f"{match.group(1)}{index}", kind)
            return
        unique = name if len(self.scopes) == 1 else f"{name}@{self.scopes[-1]}"
        self.names[-1][name] = unique
        self.kernel.registers[unique] = kind

    def _instruction(self) -> None:
        tokens = self.tokens
        line = tokens.line
        guard: Reg | None = None
        negated = False
        if tokens.peek() == "@":
            tokens.next()
            if tokens.peek() == "!":
                tokens.next()
                negated = True
            operand = self.word(tokens.next(), line)
            if not isinstance(operand, Reg):
                raise EmulatorError(f"PTX line {line}: the guard is not a declared predicate")
            guard = operand
        opcode = tokens.next()
        if not opcode[0].isalpha():
            raise EmulatorError(f"PTX line {line}: expected an instruction, found {opcode[:40]!r}")
        operands: list[Operand] = []
        while tokens.peek() != ";":
            if tokens.peek() == ",":
                tokens.next()
                continue
            operands.append(self.operand())
        tokens.next()
        if opcode.split(".")[0] == "bra":
            self.branches.append((len(self.kernel.code), tuple(self.scopes)))
        self.kernel.code.append(
            Instruction(opcode, tuple(operands), guard, negated, line, self.location)
        )

    def _resolve_branches(self) -> None:
        for index, scopes in self.branches:
            instruction = self.kernel.code[index]
            label = instruction.operands[0]
            for scope in reversed(scopes):
                if isinstance(label, Sym) and (scope, label.name) in self.labels:
                    instruction.target = self.labels[(scope, label.name)]
                    break
            else:
                raise EmulatorError(f"PTX line {instruction.line}: branch to an unknown label")
