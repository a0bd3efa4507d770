"""One instruction per lane, atomics, and the matrix instructions of one warp."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgen.emu.launch import (
    Argument,
    Array,
    Constant,
    File,
    Fill,
    Integers,
    Launch,
    Pointer,
    bits_of,
)

from .case import Case, launch_of, scratch, words_file
from .forms import ATOM, CVT, FLOAT, INTEGER, MATRIX, MMA, RED, WARP, Mma
from .generated import LANES
from .inputs import WORDS


def lane_cases() -> Iterator[Case]:
    for module, prefix, table in (
        ("cvt", "cvt_", CVT),
        ("float", "", FLOAT),
        ("integer", "", INTEGER),
        ("warp", "", WARP),
    ):
        for name, text in table.items():
            kernel = (prefix + name).replace(".", "_")
            for words in _word_sets(name, text):
                arrays = [
                    Array("in", "u32", (3, LANES), File(words_file(words)), role="in"),
                    Array("out", "u32", (2, LANES), role="out"),
                ]
                yield Case(
                    f"{kernel}/{words}",
                    module,
                    launch_of(kernel, LANES, arrays, [Pointer("in"), Pointer("out")]),
                )


def _word_sets(name: str, text: str) -> tuple[str, ...]:
    """By the source type of the last instruction, its last dotted part."""
    source = text.split(";")[-2].split()[0].split(".")[-1]
    if name.startswith(("div", "rem")) and source != "f32":
        return ("any",)  # division by zero is unspecified
    if source in ("f32", "f64"):
        return ("special", "random")
    if source in ("f16", "bf16", "f16x2", "bf16x2", "e4m3x2", "e5m2x2"):
        return ("half",)
    return ("any", "edge")


def atomic_cases() -> Iterator[Case]:
    for space in ("global", "shared"):
        for name in ATOM | RED:
            kernel = f"{name}_{space}".replace(".", "_")
            words = "random" if "f32" in name else "half" if "f16" in name else "edge"
            if name in RED:
                fill: Fill = Constant(3) if "f32" in name else Integers(1, 2**31, 4)
                cells = Array("cells", "f32" if "f32" in name else "u32", (2,), fill)
            else:
                words = "any" if "cas" in name else words
                cells = Array("cells", "u32", (LANES, 2), _cells(words))
            arrays = [
                Array("in", "u32", (3, LANES), File(words_file(words)), role="in"),
                Array("out", "u32", (2, LANES), role="out"),
                cells,
            ]
            arguments: list[Argument] = [Pointer("in"), Pointer("out"), Pointer("cells")]
            yield Case(
                kernel,
                "atomics",
                launch_of(kernel, LANES, arrays, arguments, 1024 * (space == "shared")),
            )


def _cells(words: str) -> File:
    """One 8-byte cell per lane: operand a rotated by one lane, or a itself on even lanes."""
    path = scratch() / f"cells-{words}.npy"
    low = WORDS[words]()[0]
    low = np.where(np.arange(LANES) % 2, np.roll(low, 1), low)
    np.save(path, np.stack([low, WORDS[words]()[2]], 1))
    return File(str(path))


# ---------------------------------------------------------------- matrix instructions


def mma_cases() -> Iterator[Case]:
    for form in MMA:
        yield Case(form.name, "mma", _mma_launch(form))


def _mma_launch(form: Mma) -> Launch:
    """A, B and C in one array of bytes: small integers encoded per region by one .npy file."""
    rng = np.random.default_rng(21)
    parts = []
    for dtype, registers in zip((form.a, form.b, form.d), form.registers, strict=True):
        bits = bits_of(np.zeros(1), dtype).dtype.itemsize
        lo = 0 if dtype == "u8" else -6
        values = rng.integers(lo, 7, registers * 128 // bits)
        if form.satfinite and dtype == "s32":
            values = rng.choice([2**31 - 1, -(2**31)], values.size)
        parts.append(np.ascontiguousarray(bits_of(values, dtype)).view(np.uint32))
    path = scratch() / f"{form.name}.npy"
    words = np.concatenate(parts)
    np.save(path, words)
    arrays = [
        Array("in", "u32", words.shape, File(str(path)), role="in"),
        Array("out", "u32", (form.registers[2], 32), role="out"),
    ]
    return launch_of(form.name, 32, arrays, [Pointer("in"), Pointer("out")])


def matrix_cases() -> Iterator[Case]:
    for kind, matrices, trans in MATRIX:
        name = f"{kind}_x{matrices}" + ("_trans" if trans else "")
        rng = np.random.default_rng(31)
        rows = np.concatenate([rng.permutation(64)[:32] * 16, rng.integers(0, 2**32, 128)])
        path = scratch() / f"{kind}-rows.npy"
        np.save(path, rows.astype(np.uint32))
        out = (matrices, 32) if kind == "ldmatrix" else (256,)
        arrays = [
            Array("image", "u32", (256,), Integers(0, 2**32 - 1, 32), role="in"),
            Array("rows", "u32", (160,), File(str(path)), role="in"),
            Array("out", "u32", out, role="out"),
        ]
        arguments: list[Argument] = [Pointer("image"), Pointer("rows"), Pointer("out")]
        yield Case(name, "matrix", launch_of(name, 32, arrays, arguments, 1024))
