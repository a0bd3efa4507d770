"""The rule for kernel names.

One text serves as C identifier, file stem and comment, so it must be safe as each.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

NAME_LENGTH = 63
TAKEN = re.compile(r"(k|cu|cuda)[A-Z].*|CU_.*")  # constants of generated code, the CUDA APIs
PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", re.ASCII)

# What the headers of a generated file declare at global scope; tests/reserve.py makes it.
RESERVED_FILE = Path(__file__).with_name("reserved_names.txt")

# C++20 keywords, and names that the generated file declares globally.
_RESERVED_TEXT = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue
    co_await co_return co_yield decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
    main ptx std cuda dim3 int64_t uint8_t uint16_t uint32_t uint64_t size_t uintptr_t linux unix
    TensorMap Problem SharedStorage Tile locate_tile produce consume stage_slab store_slab
    shared_memory DeviceScope MapLayout EncodeTiled prepared last_error failed prepare find_device
    tiles aligned check_arguments
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())


@cache
def _names_of_headers() -> frozenset[str]:
    return frozenset(RESERVED_FILE.read_text("utf-8").split("\n", 1)[1].split())


def check_name(value: str) -> str:
    """Refuse what is not a plain C identifier; no path, no comment and no keyword gets through."""
    if len(value) > NAME_LENGTH:
        raise PydanticCustomError(
            "name_length",
            "{length} characters; a kernel name has at most {limit}",
            {"length": len(value), "limit": NAME_LENGTH},
        )
    if not PLAIN_NAME.fullmatch(value):
        raise PydanticCustomError(
            "name_identifier",
            "{value} is no kernel name: ASCII letters, digits and single underscores, letter first",
            {"value": ascii(value)},
        )
    if value in _RESERVED or TAKEN.fullmatch(value) or value in _names_of_headers():
        raise PydanticCustomError(
            "name_reserved", "{value} is reserved in CUDA C++", {"value": ascii(value)}
        )
    return value


KernelName = Annotated[
    str,
    AfterValidator(check_name),
    Field(
        description=f"C identifier of at most {NAME_LENGTH} characters; also the .cu stem.",
        json_schema_extra={"pattern": f"^{PLAIN_NAME.pattern}$", "maxLength": NAME_LENGTH},
    ),
]
