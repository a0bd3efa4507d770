"""Source text for the common integer instructions, so that they need no call: a speed layer over
semantics.py.

`scalar(...)` gives a Python expression over unsigned ints; `vector(...)` a statement over register
rows. Either answers None where semantics.py has to be called. The tests hold both to the same
results.
"""

from __future__ import annotations

import re

_SIGN_FREE = {
    "add": "add",
    "sub": "subtract",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_SIGN = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_COMPARE = {
    "eq": ("==", "equal"),
    "ne": ("!=", "not_equal"),
    "lt": ("<", "less"),
    "le": ("<=", "less_equal"),
    "gt": (">", "greater"),
    "ge": (">=", "greater_equal"),
    "lo": ("<", "less"),
    "ls": ("<=", "less_equal"),
    "hi": (">", "greater"),
    "hs": (">=", "greater_equal"),
}
_INTEGER = re.compile(r"[bus](32|64)")


def _split(opcode: str) -> tuple[str, tuple[str, ...], str]:
    root, *modifiers = opcode.split(".")
    return root, tuple(modifiers[:-1]), modifiers[-1] if modifiers else ""


def _signed(text: str, bits: int) -> str:
    if text.isdigit():
        value = int(text)
        return str(value - (1 << bits) if value >> (bits - 1) else value)
    return f"sx{bits}({text})"


def scalar(opcode: str, args: list[str]) -> str | None:
    """A Python expression for uniform operands given as text, each an unsigned int (predicates: 0
    or 1).
    """
    root, options, kind = _split(opcode)
    if kind == "pred":
        return _scalar_predicate(root, args)
    if root == "cvt" and len(options) == 1:
        return _scalar_convert(options[0], kind, args[0])
    match = _INTEGER.fullmatch(kind)
    if root in ("mov", "selp") and not options:
        return args[0] if root == "mov" else f"({args[0]} if {args[2]} else {args[1]})"
    if match is None:
        return None
    bits = int(match.group(1))
    mask = (1 << bits) - 1
    signed = kind[0] == "s"
    if root in _SIGN and not options:
        text = f"({args[0]}{_SIGN[root]}{args[1]})"
        return text if root in ("and", "or", "xor") else f"{text}&{mask}"
    if root == "not":
        return f"{args[0]}^{mask}"
    if root in ("mul", "mad") and options in (("lo",), ("wide",)):
        return _scalar_multiply(root, options[0], args, bits, signed)
    if root == "shl":
        return (
            f"({args[0]}<<{args[1]})&{mask}"
            if _below(args[1], bits)
            else f"({args[0]}<<min({args[1]},64))&{mask}"
        )
    if root == "shr":
        if not signed:
            return f"{args[0]}>>{args[1]}"
        return f"({_signed(args[0], bits)}>>{args[1]})&{mask}"
    if root == "setp" and len(options) in (1, 2):
        return _scalar_compare(options, args, bits, signed)
    if root in ("min", "max") and not options:
        if signed:
            return f"{root}({_signed(args[0], bits)},{_signed(args[1], bits)})&{mask}"
        return f"{root}({args[0]},{args[1]})"
    if root in ("div", "rem") and not options and not signed and args[1].isdigit() and int(args[1]):
        return f"{args[0]}{'//' if root == 'div' else '%'}{args[1]}"
    return None


def _below(text: str, bits: int) -> bool:
    return text.isdigit() and int(text) < bits


def _scalar_predicate(root: str, args: list[str]) -> str | None:
    table = {"mov": "{0}", "not": "{0}^1", "and": "{0}&{1}", "or": "{0}|{1}", "xor": "{0}^{1}"}
    return table[root].format(*args) if root in table else None


def _scalar_convert(target: str, source: str, arg: str) -> str | None:
    if not (_INTEGER.fullmatch(target) and _INTEGER.fullmatch(source)):
        return None
    to_bits, from_bits = int(target[1:]), int(source[1:])
    if to_bits <= from_bits:
        return f"{arg}&{(1 << to_bits) - 1}"
    return arg if source[0] != "s" else f"{_signed(arg, 32)}&{(1 << 64) - 1}"


def _scalar_multiply(root: str, form: str, args: list[str], bits: int, signed: bool) -> str | None:
    if form == "wide":
        if bits != 32:
            return None
        mask = (1 << 64) - 1
        a, b = (_signed(t, bits) if signed else t for t in args[:2])
    else:
        mask = (1 << bits) - 1
        a, b = args[0], args[1]
    return f"({a}*{b}{'+' + args[2] if root == 'mad' else ''})&{mask}"


def _scalar_compare(
    options: tuple[str, ...], args: list[str], bits: int, signed: bool
) -> str | None:
    if options[0] not in _COMPARE:
        return None
    symbol = _COMPARE[options[0]][0]
    a, b = args[0], args[1]
    if signed and options[0] not in ("eq", "ne"):
        a, b = _signed(a, bits), _signed(b, bits)
    text = f"({a}{symbol}{b})"
    if len(options) == 1:
        return text
    joiner = {"and": "&", "or": "|", "xor": "^"}[options[1]]
    return f"({text}{joiner}bool({args[2]}))"


def vector(opcode: str, args: list[str], is_row: list[bool], out: str, where: str) -> str | None:
    """A statement that writes the row `out`; `where` is "" or ",where=<mask>"."""
    root, options, kind = _split(opcode)
    if kind == "pred":
        table = {
            "and": "logical_and",
            "or": "logical_or",
            "xor": "logical_xor",
            "not": "logical_not",
        }
        if root == "mov":
            return f"copyto({out},{args[0]}{where})"
        return (
            f"{table[root]}({','.join(args)},out={out}{where})"
            if root in table and not options
            else None
        )
    if root == "mov" and not options:
        return f"copyto({out},{args[0]}{where},casting='unsafe')"
    if root == "cvt" and len(options) == 1:
        return _vector_convert(options[0], kind, args[0], is_row[0], out, where)
    match = _INTEGER.fullmatch(kind)
    if match is None:
        return None
    bits = int(match.group(1))
    signed = kind[0] == "s"
    if root in _SIGN_FREE and not options:
        return f"{_SIGN_FREE[root]}({args[0]},{args[1]},out={out}{where})"
    if root == "mul" and options == ("lo",):
        return f"multiply({args[0]},{args[1]},out={out}{where})"
    if root == "mad" and options == ("lo",):
        return (
            f"add({args[0]}*{args[1]},{args[2]},out={out}{where})"
            if is_row[0] or is_row[1]
            else None
        )
    if root == "not":
        return f"invert({args[0]},out={out}{where})"
    if root in ("shl", "shr") and is_row[0] and _below(args[1], bits):
        if root == "shr" and signed:
            view = f"view(i{bits // 8})"
            return f"right_shift({args[0]}.{view},{args[1]},out={out}.{view}{where})"
        return f"{'left' if root == 'shl' else 'right'}_shift({args[0]},{args[1]},out={out}{where})"
    if root == "setp" and len(options) == 1 and options[0] in _COMPARE:
        return _vector_compare(options[0], args, is_row, bits, signed, out, where)
    return None


def _vector_convert(
    target: str, source: str, arg: str, is_row: bool, out: str, where: str
) -> str | None:
    if not (is_row and _INTEGER.fullmatch(target) and _INTEGER.fullmatch(source)):
        return None
    to_bits, from_bits = int(target[1:]), int(source[1:])
    if to_bits > from_bits and source[0] == "s":
        return f"copyto({out}.view(i8),{arg}.view(i4){where})"
    return f"copyto({out},{arg}{where},casting='unsafe')"


def _vector_compare(
    name: str, args: list[str], is_row: list[bool], bits: int, signed: bool, out: str, where: str
) -> str:
    function = _COMPARE[name][1]
    if signed and name not in ("eq", "ne"):
        args = [
            f"{a}.view(i{bits // 8})" if row else _signed(a, bits)
            for a, row in zip(args, is_row, strict=True)
        ]
    return f"{function}({args[0]},{args[1]},out={out}{where})"
