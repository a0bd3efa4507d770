"""Reads one .entry or .func: its parameters, directives and body, with the nested scopes of inline
assembly.

Source  PTX ISA chapters 4 (syntax), 5 (declarations), 11 (directives)
"""

from __future__ import annotations

import re
from math import prod

from kgen.emu.operand_text import OperandParser, is_number
from kgen.emu.ptx import (
    Instruction,
    Kernel,
    Location,
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

_MAX_ALIGN, _MAX_BYTES = 1 << 16, 1 << 31
_MAX_REGISTERS = 1 << 20  # virtual ones of a kernel


def _type_bytes(words: list[str], line: int) -> int:
    for word in words:
        if match := re.fullmatch(r"\.[busf](8|16|32|64|128)(x2)?", word):
            return int(match.group(1)) // 8 * (2 if match.group(2) else 1)
        if word in (".pred", ".texref", ".samplerref", ".surfref"):
            return 8
    raise EmulatorError(f"ptx:{line}: declaration without a type: {' '.join(words)}")


def variable(words: list[str], line: int) -> Variable:
    """`.align 64 .b8 name[128]` -> Variable"""
    element = _type_bytes(words, line)
    align = element
    if ".align" in words:
        align = integer("".join(words[words.index(".align") + 1 :][:1]), line)
        if not 1 <= align <= _MAX_ALIGN or align & (align - 1):
            raise EmulatorError(f"ptx:{line}: .align {align} is not a power of two")
    if "=" in words:
        words = words[: words.index("=")]
    text = " ".join(words)
    match = re.search(r"([A-Za-z_$%][\w$]*)((?: \[ ?\w* ?\])*)$", text)
    if match is None:
        raise EmulatorError(f"ptx:{line}: not a declaration: {text[:60]}")
    sizes = re.findall(r"\[ ?(\w*) ?\]", match.group(2))
    count = prod(integer(size, line) if size else 0 for size in sizes)
    if not 0 <= count * element <= _MAX_BYTES:
        raise EmulatorError(f"ptx:{line}: {match.group(1)} has {count} elements")
    return Variable(match.group(1), count * element, align, element)


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
            self._parameters(self.kernel.params)
        while tokens.peek() != "{":
            self._performance_directive()
        self._body()
        return self.kernel

    def parse_function(self) -> Kernel | None:
        """From the return parameters of a .func on; None for a declaration."""
        tokens = self.tokens
        if tokens.peek() == "(":
            self._parameters(self.kernel.results)
        self.kernel.name = tokens.next()
        if tokens.peek() == "(":
            self._parameters(self.kernel.params)
        while tokens.peek() not in ("{", ";"):
            self._performance_directive()
        if tokens.peek() == ";":
            tokens.next()
            return None
        self._body()
        return self.kernel

    def _body(self) -> None:
        self.tokens.expect("{")
        while self.scopes:
            self._statement()
        self._resolve_branches()

    def _parameters(self, found: list[Variable]) -> None:
        self.tokens.expect("(")
        words: list[str] = []
        while True:
            line = self.tokens.line
            token = self.tokens.next()
            if token in (",", ")"):
                if words:
                    found.append(variable(words, line))
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
                f"ptx:{line}: unexpected {name!r} before the body of {self.kernel.name}"
            )
        values: list[int] = []
        while is_number(self.tokens.peek()) or self.tokens.peek() == ",":
            token = self.tokens.next()
            if token != ",":
                values.append(integer(token, line))
        sized = name in (".reqntid", ".maxntid", ".reqnctapercluster", ".maxnreg")
        if len(values) > 3 or (sized and not values):
            raise EmulatorError(f"ptx:{line}: {name} with {len(values)} numbers")
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
            self.symbols.append({})
        elif token == "}":
            tokens.next()
            self.scopes.pop()
            self.names.pop()
            self.symbols.pop()
        elif token == ".loc":
            tokens.next()
            line = tokens.line
            self._loc(tokens.rest_of_line(), line)
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

    def _loc(self, words: list[str], at: int) -> None:
        """`.loc file line column [, function_name label, inlined_at file line column]`"""
        inlined = words[words.index("inlined_at") + 2 :][:1] if "inlined_at" in words else ["0"]
        if len(words) < 2 or not inlined:
            raise EmulatorError(f"ptx:{at}: .loc without a line")
        file, line, inlined_at = (integer(word, at) for word in (*words[:2], *inlined))
        self.location = Location(self.files.get(file, ""), line, inlined_at)

    def _declaration(self) -> None:
        line = self.tokens.line
        space = self.tokens.next()
        words = self.tokens.until(";")
        if space == ".shared":
            self.kernel.shared.append(variable(words, line))
        elif space == ".param":  # of a call
            name = variable(words, line).name
            self.symbols[-1][name] = f"{name}@{self.scopes[-1]}"
        elif space == ".reg":
            kind = words[0].lstrip(".") if words else ""
            if not re.fullmatch(r"pred|b128|[busf](8|16|32|64)|f16x2|bf16|bf16x2|tf32", kind):
                raise EmulatorError(f"ptx:{line}: registers of no type: {' '.join(words)[:60]}")
            for name in "".join(words[1:]).split(","):
                self._declare_register(name, kind, line)

    def _declare_register(self, name: str, kind: str, line: int) -> None:
        match = re.fullmatch(r"([A-Za-z_$%][\w$%]*)(?:<([0-9]+)>)?", name)
        if match is None:
            raise EmulatorError(f"ptx:{line}: not the name of a register: {name[:60]!r}")
        if match.group(2) is None:
            self._add_register(name, kind)
            return
        count = integer(match.group(2).lstrip("0") or "0", line)
        if len(self.kernel.registers) + count > _MAX_REGISTERS:
            raise EmulatorError(f"ptx:{line}: {name} are over {_MAX_REGISTERS} registers")
        for index in range(count):
            self._add_register(f"{match.group(1)}{index}", kind)

    def _add_register(self, name: str, kind: str) -> None:
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
                raise EmulatorError(f"ptx:{line}: the guard is not a declared predicate")
            guard = operand
        opcode = tokens.next()
        if not opcode[0].isalpha():
            raise EmulatorError(f"ptx:{line}: expected an instruction, found {opcode[:40]!r}")
        operands = self.operands(";")
        if opcode.split(".")[0] == "bra":
            self.branches.append((len(self.kernel.code), tuple(self.scopes)))
        self.kernel.code.append(Instruction(opcode, operands, guard, negated, line, self.location))

    def _resolve_branches(self) -> None:
        for index, scopes in self.branches:
            instruction = self.kernel.code[index]
            label = instruction.operands[0] if instruction.operands else None
            for scope in reversed(scopes):
                if isinstance(label, Sym) and (scope, label.name) in self.labels:
                    instruction.target = self.labels[(scope, label.name)]
                    break
            else:
                raise EmulatorError(f"ptx:{instruction.line}: branch to an unknown label")
