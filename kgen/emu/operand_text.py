"""Reads the operands of an instruction.

Source  PTX ISA chapter 6 (instruction operands)
"""

from __future__ import annotations

import re

from kgen.emu.ptx import Imm, Mem, Not, Operand, Pair, Reg, Special, Sym, Vec
from kgen.emu.tokens import Tokens, integer
from kgen.errors import EmulatorError

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]"
    r"|%(laneid|warpid|nwarpid|smid|nsmid|gridid|cluster_ctarank|cluster_nctarank|is_explicit_cluster"
    r"|lanemask_(eq|le|lt|ge|gt)|clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi"
    r"|dynamic_smem_size|total_smem_size|aggr_smem_size|envreg\d+|pm\d+)"
)

_MAX_DEPTH = 16


def is_number(token: str) -> bool:
    return bool(token) and (token[0].isdigit() or (token[0] == "-" and token[1:2].isdigit()))


class OperandParser:
    """Parses operands; `names` says which registers are declared in the open scopes, `symbols`
    which parameters of calls.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.depth = 0  # operands that are being read
        self.names: list[dict[str, str]] = [{}]  # per open scope: written name -> unique name
        self.symbols: list[dict[str, str]] = [{}]

    def operand(self) -> Operand:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise EmulatorError(f"ptx:{self.tokens.line}: operands within operands")
        try:
            return self._operand()
        finally:
            self.depth -= 1

    def _operand(self) -> Operand:
        tokens = self.tokens
        line = tokens.line
        token = tokens.next()
        if token in ("{", "("):
            return Vec(self.operands("}" if token == "{" else ")"))
        if token == "[":
            return self._address(line)
        if token == "!":
            return Not(self.operand())
        if token == "-":
            value = self.operand()
            if isinstance(value, Imm) and not value.is_float:
                return Imm(-value.value)
            raise EmulatorError(f"ptx:{line}: '-' before something that is not an integer")
        operand = self.word(token, line)
        if tokens.peek() == "|":
            tokens.next()
            return Pair(operand, self.operand())
        if isinstance(operand, Sym) and tokens.peek() in ("+", "-"):
            sign = -1 if tokens.next() == "-" else 1
            return Sym(operand.name, operand.offset + sign * integer(tokens.next(), line))
        return operand

    def operands(self, stop: str) -> tuple[Operand, ...]:
        """Operands with commas between them, and the token that ends them."""
        tokens = self.tokens
        items: list[Operand] = []
        while tokens.peek() != stop:
            if items:
                tokens.expect(",")
            items.append(self.operand())
        tokens.next()
        return tuple(items)

    def _address(self, line: int) -> Mem:
        """What follows `[`: base, +offset, and the coordinates of a tensor."""
        tokens = self.tokens
        base = self.word(tokens.next(), line)
        offset = 0
        coords: tuple[Operand, ...] = ()
        while (token := tokens.next()) != "]":
            if token in ("+", "-"):
                sign = 1 if token == "+" else -1
                offset += sign * integer(tokens.next(), line)
            elif is_number(token):
                offset += integer(token, line)
            elif token == ",":
                inner = self.operand()
                coords += inner.items if isinstance(inner, Vec) else (inner,)
            else:
                raise EmulatorError(f"ptx:{line}: unexpected {token!r} in an address")
        return Mem(base, offset, coords)

    def word(self, token: str, line: int) -> Operand:
        for scope in reversed(self.names):
            if token in scope:
                return Reg(scope[token])
        if is_number(token):
            return Imm(integer(token, line), token.lstrip("-")[:2].lower() in ("0f", "0d"))
        if _SPECIAL.fullmatch(token):
            return Special(token)
        if token == "WARP_SZ":
            return Imm(32)
        if token.startswith("%"):
            raise EmulatorError(f"ptx:{line}: register {token} is not declared")
        if not re.match(r"[A-Za-z_$]", token):
            raise EmulatorError(f"ptx:{line}: unexpected {token!r} among the operands")
        for scope in reversed(self.symbols):
            if token in scope:
                return Sym(scope[token])
        return Sym(token)
