"""The rule for kernel names.

One text serves as C identifier, file stem and comment, so it must be safe as each.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

NAME_LENGTH = 63
_TAKEN = re.compile(r"(k|cu|cuda)[A-Z].*")  # constants of generated code, the CUDA APIs
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", re.ASCII)

# C++20 keywords, and names that the generated file or the headers it includes declare globally.
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
    shared_memory DeviceScope MapLayout EncodeTiled encode_tiled last_error failed prepare tiles
    aligned check_arguments
    abort abs acos asin atan atof atoi bsearch calloc ceil clock cos cosh div erf exit exp fabs
    floor fma fmax fmin fmod fprintf free getenv hypot j0 j1 jn labs lgamma log malloc max
    memcmp memcpy memset min modf pow printf qsort rand realloc rint round signal sin sinh sqrt
    srand strcmp strcpy strlen system tan tanh time trunc y0 y1 yn
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())


def check_name(value: str) -> str:
    """Refuse what is not a plain C identifier; no path, no comment and no keyword gets through."""
    if len(value) > NAME_LENGTH:
        raise PydanticCustomError(
            "name_length",
            "{length} characters; a kernel name has at most {limit}",
            {"length": len(value), "limit": NAME_LENGTH},
        )
    if not _IDENTIFIER.fullmatch(value):
        raise PydanticCustomError(
            "name_identifier",
            "{value} is no kernel name: ASCII letters, digits and single underscores, letter first",
            {"value": ascii(value)},
        )
    if value in _RESERVED or _TAKEN.fullmatch(value):
        raise PydanticCustomError(
            "name_reserved", "{value} is reserved in CUDA C++", {"value": ascii(value)}
        )
    return value


KernelName = Annotated[
    str,
    AfterValidator(check_name),
    Field(
        description=f"C identifier of at most {NAME_LENGTH} characters; also the .cu stem.",
        json_schema_extra={"pattern": f"^{_IDENTIFIER.pattern}$", "maxLength": NAME_LENGTH},
    ),
]
