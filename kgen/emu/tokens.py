"""The token stream of a PTX text."""

from __future__ import annotations

import re

from kgen.errors import EmulatorError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<string> "[^"\n]*" )
    | (?P<word> [A-Za-z_.$%][\w.$%]*(?:::\w[\w.$%]*)* )
    | (?P<number> -?0[fF][0-9a-fA-F]{8}\b | -?0[dD][0-9a-fA-F]{16}\b | -?0[xX][0-9a-fA-F]+U? |
    -?\d+(?:\.\d+)?U? )
    | (?P<mark> [{}\[\](),;:|@!<>=+*-] )
    )""",
    re.S | re.X,
)

_MAX_DIGITS = 70  # of a constant of 64 bits, binary with its prefix


class Tokens:
    """The token stream; every read past the end is an error that names the last line."""

    def __init__(self, text: str) -> None:
        self.items: list[tuple[str, int]] = []
        self.at = 0
        position, line = 0, 1
        while match := _TOKEN.match(text, position):
            kind = match.lastgroup or ""
            line += text.count("\n", position, match.start(kind))
            if kind != "comment":
                self.items.append((match.group(kind), line))
            line += match.group(kind).count("\n")
            position = match.end()
        if rest := text[position:].strip():
            raise EmulatorError(f"ptx:{line}: not PTX: {rest.splitlines()[0][:60]!r}")
        self.last_line = line

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.items[index][0] if index < len(self.items) else ""

    @property
    def line(self) -> int:
        return self.items[self.at][1] if self.at < len(self.items) else self.last_line

    @property
    def done(self) -> bool:
        return self.at >= len(self.items)

    def next(self) -> str:
        if self.done:
            raise EmulatorError(
                f"ptx:{self.last_line}: the text stops in the middle of a statement"
            )
        self.at += 1
        return self.items[self.at - 1][0]

    def expect(self, token: str) -> None:
        line = self.line
        got = self.next()
        if got != token:
            raise EmulatorError(f"ptx:{line}: expected {token!r}, found {got!r}")

    def until(self, stop: str) -> list[str]:
        out: list[str] = []
        while (token := self.next()) != stop:
            out.append(token)
        return out

    def rest_of_line(self) -> list[str]:
        line = self.line
        out: list[str] = []
        while not self.done and self.line == line:
            out.append(self.next())
        return out

    def skip_block(self) -> None:
        """Skips a balanced { ... }."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.next()
            depth += (token == "{") - (token == "}")


def integer(token: str, line: int) -> int:
    """An integer or float constant as bits."""
    body = token.rstrip("U")
    try:
        if len(body) > _MAX_DIGITS:
            raise ValueError
        if body[:2].lower() in ("0f", "0d"):
            return int(body[2:], 16)
        value = int(body, 0) if not re.fullmatch(r"-?0\d+", body) else int(body, 8)
    except ValueError:
        raise EmulatorError(f"ptx:{line}: {token[:40]!r} is not a number") from None
    if not -(1 << 63) <= value < 1 << 64:
        raise EmulatorError(f"ptx:{line}: {token} does not fit 64 bits")
    return value
