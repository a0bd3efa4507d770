"""Breaks the lines of generated text that are longer than a page is wide.

Templates break what is always long. What is long because of a name, which may have 63 characters,
is broken here, so that no template has to count.
"""

from __future__ import annotations

import re
import textwrap

LINE_LENGTH = 100  # columns of generated text
_INDENT = 4  # of the rest of a broken line

_BRACKETS = r"""(?P<quoted> "(?:\\.|[^"\\])*" ) | (?P<close> [)\]}] )"""

# A line may break behind the blank of a comma, before an operator, and before the statement that a
# condition guards.
_BREAK = re.compile(
    _BRACKETS
    + r"""| (?P<open> [(\[{] ) | (?P<behind> ,\ )
      | \ (?P<before> (?: \? | : | && | \|\| )\ ) | \ (?P<guarded> return\b )""",
    re.VERBOSE,
)
# Where a name is too long for that: behind `return`, `=`, `;` and an opening parenthesis, before
# the name that a declaration declares.
_LAST_BREAK = re.compile(
    _BRACKETS
    + r"""| (?P<inside> \((?!\)) ) | (?P<open> [(\[{] )
      | (?P<behind> \breturn\  | [=;]\  ) | \ (?P<before> (?=\w+(?:[(\[;]|\ =)) )""",
    re.VERBOSE,
)
# Code with a note behind it; slashes inside a string are no note.
_NOTED = re.compile(
    r"""(?P<code> (?: "(?:\\.|[^"\\])*" | [^"] )*? )\ \ //\ (?P<note> .* )""", re.VERBOSE
)


def wrap(text: str) -> str:
    """The text with every line of code or comment broken to fit; preprocessor lines stay.

    The note of a long line goes above it. A name too long for a line of its own stays.
    """
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    bare = line.lstrip()
    if len(line) <= LINE_LENGTH:
        return [line]
    indent = line[: len(line) - len(bare)]
    if bare.startswith("//"):
        return _wrapped_comment(indent, bare)
    if noted := _NOTED.fullmatch(line):
        return [*_wrapped(f"{indent}// {noted['note']}"), *_wrapped(noted["code"])]
    return [line] if bare.startswith("#") else _wrapped_code(line, indent + " " * _INDENT)


def _wrapped_code(line: str, hanging: str) -> list[str]:
    """A line of code and, at `hanging`, its rest; what is in brackets of the rest, further in."""
    start = len(line) - len(line.lstrip())
    for breaks in (_BREAK, _LAST_BREAK):
        found = _best_break(line, start, breaks)
        if found is None:
            continue
        depth, at = found
        deeper = " " * _INDENT if depth and start == len(hanging) else ""
        rest = hanging + deeper + line[at:].lstrip()
        if len(rest) < len(line):
            more = _wrapped_code(rest, hanging + deeper) if len(rest) > LINE_LENGTH else [rest]
            return [line[:at].rstrip(), *more]
    return [line]


def _wrapped_comment(indent: str, comment: str) -> list[str]:
    text = comment[2:].lstrip()
    first = indent + comment[: len(comment) - len(text)]
    # A row of a table, set in from the slashes, goes on further in.
    hanging = first + ("  " if len(first) > len(indent) + len("// ") else "")
    return textwrap.wrap(
        text,
        LINE_LENGTH,
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _best_break(line: str, start: int, breaks: re.Pattern[str]) -> tuple[int, int] | None:
    """Open brackets and column of the best break: as few as possible, then as far right as fits."""
    depth, best = 0, None
    for found in breaks.finditer(line, start):
        kind = found.lastgroup
        depth += (kind in ("open", "inside")) - (kind == "close")
        if kind in ("quoted", "open", "close") or (kind == "guarded" and depth):
            continue
        at = found.start() + 1 if kind in ("before", "guarded") else found.end()
        if len(line[:at].rstrip()) > LINE_LENGTH:
            break
        if best is None or depth <= best[0]:
            best = (depth, at)
    return best
