"""Reads one .entry: its parameters, directives and body, with the nested scopes of inline assembly.

Source  PTX ISA chapters 4 (syntax), 5 (declarations), 11 (directives)
"""

from __future__ import annotations

import re

from kgen.errors import EmulatorError

from .ptx import (
    Imm,
    Instruction,
    Kernel,
    Location,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Special,
    Sym,
    Variable,
    Vec,
)
from .tokens import Tokens, integer

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]"
    r"|%(laneid|warpid|nwarpid|smid|nsmid|gridid|cluster_ctarank|cluster_nctarank|is_explicit_cluster"
    r"|lanemask_(eq|le|lt|ge|gt)|clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi"
    r"|dynamic_smem_size|total_smem_size|aggr_smem_size|envreg\d+|pm\d+)"
)

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


def _is_number(token: str) -> bool:
    return bool(token) and (token[0].isdigit() or (token[0] == "-" and token[1:2].isdigit()))


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


class EntryParser:
    """Parses from the kernel's name to the closing brace of its body."""

    def __init__(self, tokens: Tokens, files: dict[int, str]) -> None:
        self.tokens = tokens
        self.files = files
        self.kernel = Kernel("")
        self.location = Location()
        self.scopes: list[int] = [0]  # numbers of the open scopes, innermost last
        self.scope_count = 0
        self.names: list[dict[str, str]] = [{}]  # per open scope: written name -> unique name
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
        while _is_number(self.tokens.peek()) or self.tokens.peek() == ",":
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
        elif name == ".explicitcluster":
            self.kernel.explicit_cluster = True
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
            operand = self._word(tokens.next(), line)
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
            operands.append(self._operand())
        tokens.next()
        if opcode.split(".")[0] == "bra":
            self.branches.append((len(self.kernel.code), tuple(self.scopes)))
        self.kernel.code.append(
            Instruction(opcode, tuple(operands), guard, negated, line, self.location)
        )

    def _operand(self) -> Operand:
        tokens = self.tokens
        line = tokens.line
        token = tokens.next()
        if token in ("{", "("):
            return Vec(self._list("}" if token == "{" else ")"))
        if token == "[":
            return self._address(line)
        if token == "!":
            return Not(self._operand())
        if token == "-":
            value = self._operand()
            if isinstance(value, Imm) and not value.is_float:
                return Imm(-value.value)
            raise EmulatorError(f"PTX line {line}: '-' before something that is not an integer")
        operand = self._word(token, line)
        if tokens.peek() == "|":
            tokens.next()
            return Pair(operand, self._operand())
        if isinstance(operand, Sym) and tokens.peek() in ("+", "-"):
            sign = -1 if tokens.next() == "-" else 1
            return Sym(operand.name, operand.offset + sign * integer(tokens.next(), line))
        return operand

    def _list(self, stop: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while self.tokens.peek() != stop:
            if self.tokens.peek() == ",":
                self.tokens.next()
                continue
            items.append(self._operand())
        self.tokens.next()
        return tuple(items)

    def _address(self, line: int) -> Mem:
        """What follows `[`: base, +offset, and the coordinates of a tensor."""
        tokens = self.tokens
        base = self._word(tokens.next(), line)
        offset = 0
        coords: tuple[Operand, ...] = ()
        while (token := tokens.next()) != "]":
            if token in ("+", "-"):
                sign = 1 if token == "+" else -1
                offset += sign * integer(tokens.next(), line)
            elif _is_number(token):
                offset += integer(token, line)
            elif token == ",":
                inner = self._operand()
                coords += inner.items if isinstance(inner, Vec) else (inner,)
            else:
                raise EmulatorError(f"PTX line {line}: unexpected {token!r} in an address")
        return Mem(base, offset, coords)

    def _word(self, token: str, line: int) -> Operand:
        for scope in reversed(self.names):
            if token in scope:
                return Reg(scope[token])
        if _is_number(token):
            return Imm(integer(token, line), token.lstrip("-")[:2].lower() in ("0f", "0d"))
        if _SPECIAL.fullmatch(token):
            return Special(token)
        if token == "WARP_SZ":
            return Imm(32)
        if token.startswith("%"):
            raise EmulatorError(f"PTX line {line}: register {token} is not declared")
        if not re.match(r"[A-Za-z_$]", token):
            raise EmulatorError(f"PTX line {line}: unexpected {token!r} among the operands")
        return Sym(token)

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
