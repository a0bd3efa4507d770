"""The names that CUDA's and the host's headers take at global scope: no kernel can have one.

python tests/reserve.py    adds what this machine's headers declare to reserved_names.txt
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kgen.build import process
from kgen.build.toolchain import locate
from kgen.spec.names import PLAIN_NAME, RESERVED_FILE, TAKEN

# What generated files include, and what nvcc and NVRTC bring along unasked.
_INCLUDES = """\
#include <cuda.h>
#include <cuda_runtime.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stddef.h>
#include <stdint.h>
"""
# A kernel is a global C symbol of its program: one called write would take the place of libc's.
_C_HEADERS = """
    complex ctype dlfcn errno fcntl fenv float inttypes limits locale math pthread setjmp signal
    stdio stdlib string strings sys/mman sys/socket sys/stat time unistd wchar wctype
"""
FIRST_LINE = (
    "# Global names of the headers that generated files include and of the C library, and the "
    "stems of those headers; made by tests/reserve.py"
)
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|[^\s\w]')


def derive() -> set[str]:
    """Every name that a kernel must not have, as the installed toolchain sees its headers."""
    c_library = "".join(f"#include <{name}.h>\n" for name in _C_HEADERS.split())
    nvcc = [locate().nvcc, "-std=c++17", "-arch=sm_90a", "-E", "-x", "cu"]
    found: set[str] = set()
    for compiler, source, list_macros in (
        (nvcc, _INCLUDES, "-Xcompiler=-dM"),
        (["g++", "-D_GNU_SOURCE", "-E", "-x", "c"], c_library, "-dM"),
    ):
        text, macros = (_output([*compiler, *more], source) for more in ([], [list_macros]))
        found.update(global_names(text))
        found.update(re.findall(r"^#define (\w+)", macros, re.M))
        # A kernel called cuda_runtime would put cuda_runtime.h beside its source.
        found.update(re.findall(r'^# \d+ "[^"]*?(\w+)\.h(?:pp)?"', text, re.M))
    return {n for n in found if PLAIN_NAME.fullmatch(n) and not TAKEN.fullmatch(n)}


def _output(command: list[str | Path], source: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "names").write_text(source)
        whole = [*command, "names", "-o", "out"]
        done = process.run(whole, env=process.scrubbed_env(), timeout=120, cwd=Path(folder))
        assert done.status == 0, done.output
        return Path(folder, "out").read_text()


def global_names(text: str) -> Iterator[str]:
    """Identifiers of preprocessed C++ outside of every scope and parameter list.

    `extern "C"` and the braces of a plain enum open no scope.
    """
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"\btemplate\s*<(?:[^<>]|<[^<>]*>)*>", "", text)
    scopes: list[bool] = []  # of each open brace: does it hide names?
    parentheses, head, before = 0, [], ["", ""]
    for token in _TOKEN.findall(text):
        if token == "{":
            linkage = head[-2:] in (["extern", '"C"'], ["extern", '"C++"'])
            plain_enum = "enum" in head and not {"class", "struct", "("} & set(head)
            scopes.append(parentheses > 0 or not (linkage or plain_enum))
            head = []
        elif token == "}":
            scopes.pop()
            head = []
        elif any(scopes):
            continue
        elif token in ("(", ")"):
            parentheses += 1 if token == "(" else -1
            head.append(token)
        elif token == ";" and not parentheses:
            head = []
        else:
            head.append(token)
            pointer = parentheses == 1 and before == ["(", "*"]  # typedef void (*name)(...)
            if token.isidentifier() and (not parentheses or pointer):
                yield token
        before = [before[1], token]


def recorded() -> set[str]:
    """What the committed file holds."""
    return set(RESERVED_FILE.read_text("utf-8").split("\n", 1)[1].split())


if __name__ == "__main__":
    names = derive() | (recorded() if RESERVED_FILE.exists() else set())
    lines = [FIRST_LINE, *sorted(names)]
    RESERVED_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(names)} names in {RESERVED_FILE}")
