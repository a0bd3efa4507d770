"""Reads a PTX module: the directives outside the kernels. Owns syntax and nothing of semantics.

Raises  EmulatorError with the PTX line for text that is not PTX, or that stops in the middle
"""

from __future__ import annotations

import re

from kgen.emu.calls import expand_calls
from kgen.emu.entry import EntryParser, variable
from kgen.emu.ptx import Module, Variable
from kgen.emu.tokens import Tokens
from kgen.errors import EmulatorError

_FILE = re.compile(
    r'^\s*\.file\s+(\d{1,9})\s+"([^"]*)"', re.M
)  # nvcc writes these after the kernels that use them
_LINKAGE = (".visible", ".weak", ".extern", ".common")


def parse(text: str) -> Module:
    """PTX text -> Module."""
    tokens = Tokens(text)
    module = Module("", "", files={int(n): path for n, path in _FILE.findall(text)})
    shared: list[Variable] = []
    while not tokens.done:
        line = tokens.line
        token = tokens.next()
        if token == ".version":
            module.version = tokens.next()
        elif not module.version:
            raise EmulatorError(f"ptx:{line}: not PTX: no .version before {token[:40]!r}")
        elif token == ".target":
            module.target = tokens.next()
            while tokens.peek() == ",":  # options such as debug
                tokens.next()
                tokens.next()
        elif token == ".address_size":
            tokens.next()
        elif token == ".file":
            tokens.rest_of_line()
        elif token in _LINKAGE:
            continue
        elif token == ".shared":
            shared.append(variable(tokens.until(";"), line))
        elif token == ".entry":
            kernel = EntryParser(tokens, module.files).parse()
            kernel.shared = shared + kernel.shared
            module.kernels[kernel.name] = kernel
        elif token == ".func":
            function = EntryParser(tokens, module.files).parse_function()
            if function is not None:
                module.functions[function.name] = function
        elif token == ".section":
            tokens.next()
            tokens.skip_block()
        elif token in (".global", ".const", ".pragma", ".alias", ".tex"):
            tokens.until(";")
        else:
            raise EmulatorError(f"ptx:{line}: unknown directive {token[:40]!r}")
    if not module.version:
        raise EmulatorError("ptx:1: not PTX: the text is empty or has no .version")
    if not module.kernels:
        raise EmulatorError(f"ptx:{tokens.last_line}: no .entry in this module")
    for kernel in module.kernels.values():
        expand_calls(kernel, module.functions)
    return module
