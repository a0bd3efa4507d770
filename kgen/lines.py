"""Breaks the lines of generated text that are longer than a page is wide.

Templates break what is always long. What is long because of a name, which may have 63 characters,
is broken here, so that no template has to count.
"""

from __future__ import annotations

import re
import textwrap

LINE_LENGTH = 100  # columns of generated text
_INDENT = 4  # of the rest of a broken line

# A line may break behind the blank of a comma or an opening brace, before an operator, and before
# the statement that a condition guards.
_BREAK = re.compile(
    r"""(?P<quoted> "(?:\\.|[^"\\])*" ) | (?P<open> [(\[{] ) | (?P<close> [)\]}] )
      | (?P<behind> ,\ ) | \ (?P<before> (?: \? | : | && | \|\| )\ ) | \ (?P<guarded> return\b )""",
    re.VERBOSE,
)


def wrap(text: str) -> str:
    """The text with every line of code or comment broken to fit; preprocessor lines stay."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    bare = line.lstrip()
    if len(line) <= LINE_LENGTH or bare.startswith("#"):
        return [line]
    indent = line[: len(line) - len(bare)]
    if bare.startswith("//"):
        return _wrapped_comment(indent, bare)
    code, slashes, note = line.partition("  // ")
    if slashes:
        return [*_wrapped(f"{indent}// {note}"), *_wrapped(code)]
    at = _best_break(line, len(indent))
    if at is None:
        return [line]
    rest = f"{indent}{' ' * _INDENT}{line[at:].lstrip()}"
    if len(rest) >= len(line):
        return [line]
    return [line[:at].rstrip(), *_wrapped(rest)]


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


def _best_break(line: str, start: int) -> int | None:
    """Where to break: outside as many brackets as possible, and then as far right as fits."""
    depth, best = 0, None
    for found in _BREAK.finditer(line, start):
        kind = found.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind != "quoted" and (kind != "guarded" or depth == 0):
            at = found.end() if kind == "behind" else found.start() + 1
            if len(line[:at].rstrip()) > LINE_LENGTH:
                break
            if best is None or depth <= best[0]:
                best = (depth, at)
    return None if best is None else best[1]
