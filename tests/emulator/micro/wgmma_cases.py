"""wgmma: every form, with descriptors of every swizzle and major, sensible and not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kgen.emu.launch import Argument, Array, Constant, File, Integers, Launch, Pointer, Scalar
from kgen.emu.layout import MatrixDescriptor

from .case import Case, launch_of, operand_array, scratch, u64
from .forms import WGMMA, Wgmma
from .generated import IMAGE_BYTES


@dataclass(frozen=True)
class Operands:
    """Descriptors of A and B relative to the image, bytes to advance per instruction, how many."""

    a: MatrixDescriptor
    b: MatrixDescriptor
    a_step: int = 32
    b_step: int = 32
    steps: int = 4


_B = 16384
"""Offset of the B region in the image."""


def _k_major(width: int, n: int, **changes: int) -> Operands:
    if width:
        fields = {"leading": 16, "stride": 8 * width, "base_offset": 0, "swizzle": width} | changes
        a, b = (MatrixDescriptor(start, **fields) for start in (0, _B))
        return Operands(a, b, steps=width // 32)
    return Operands(
        MatrixDescriptor(0, 64 * 16, 128, 0, 0),
        MatrixDescriptor(_B, 16 * n, 128, 0, 0),
        2 * 64 * 16,
        2 * 16 * n,
    )


def _mn_major(width: int, start: int, k_rows: int = 64) -> tuple[MatrixDescriptor, int]:
    row = width or 16
    box, group = k_rows * row, 8 * row
    leading, stride = (box, group) if width else (group, box)
    return MatrixDescriptor(start, leading, stride, 0, width), 16 * row


def _operand_sets(form: Wgmma) -> Iterator[tuple[str, Operands]]:
    trans = form.trans or (0, 0)
    if trans == (0, 0):
        yield "k128", _k_major(128, form.n)
        if form.n > 128 or form.negate_a or form.satfinite:
            return
        for width in (64, 32, 0):
            yield f"k{width}", _k_major(width, form.n)
        if form.n != 64 or form.a_registers:
            return
        # Any descriptor names some bytes: these need not describe a sensible tile.
        yield "k128-lbo-unused", _k_major(128, form.n, leading=2048)
        yield "k128-far-groups", _k_major(128, form.n, stride=2048)
        yield "k128-same-group", _k_major(128, form.n, stride=0)
        yield "k64-far-groups", _k_major(64, form.n, stride=1536)
        yield "k32-far-groups", _k_major(32, form.n, stride=1280)
        plain = _k_major(0, form.n)
        yield (
            "k0-swapped",
            replace(
                plain,
                a=replace(plain.a, leading=plain.a.stride, stride=plain.a.leading),
                b=replace(plain.b, leading=plain.b.stride, stride=plain.b.leading),
            ),
        )
        tile = _k_major(128, form.n)
        moved = replace(
            tile, a=replace(tile.a, start=1024 + 384), b=replace(tile.b, start=_B + 640)
        )
        yield "k128-start-inside-pattern", moved
        yield (
            "k128-base-offset",
            replace(moved, a=replace(moved.a, base_offset=3), b=replace(moved.b, base_offset=5)),
        )
        narrow = _k_major(64, form.n)
        moved = replace(narrow, a=replace(narrow.a, start=256), b=replace(narrow.b, start=_B + 128))
        yield (
            "k64-base-offset",
            replace(moved, a=replace(moved.a, base_offset=2), b=replace(moved.b, base_offset=1)),
        )
        return
    for width in (128, 64, 32, 0):
        k_major = _k_major(width, form.n)
        a, a_step = _mn_major(width, 0) if trans[0] else (k_major.a, k_major.a_step)
        b, b_step = _mn_major(width, _B) if trans[1] else (k_major.b, k_major.b_step)
        steps = 4 if trans == (1, 1) else k_major.steps
        base = Operands(a, b, a_step, b_step, steps)
        yield f"mn{width}", base
        if trans == (1, 1):
            swapped = [replace(x, leading=x.stride, stride=x.leading) for x in (a, b)]
            yield f"mn{width}-swapped", replace(base, a=swapped[0], b=swapped[1], steps=1)


def wgmma_cases() -> Iterator[Case]:
    for form in WGMMA:
        for name, operands in _operand_sets(form):
            yield Case(f"{form.name}/{name}", "wgmma", wgmma_launch(form, operands))
        yield Case(
            f"{form.name}/overwrite",
            "wgmma",
            wgmma_launch(form, replace(_k_or_mn(form), steps=1), scale_d=0),
        )
    by_name = {form.name: form for form in WGMMA}
    clamp = by_name["wgmma_s32_s8_s8_n8_sat"]
    yield Case(
        f"{clamp.name}/clamps",
        "wgmma",
        wgmma_launch(
            clamp, _k_major(128, 8), c=Array("c", "s32", (4, 128), Constant(2**31 - 9), role="in")
        ),
    )
    wraps = by_name["wgmma_s32_s8_s8_n8"]
    yield Case(
        f"{wraps.name}/wraps",
        "wgmma",
        wgmma_launch(
            wraps, _k_major(128, 8), c=Array("c", "s32", (4, 128), Constant(2**31 - 9), role="in")
        ),
    )
    tf32 = by_name["wgmma_f32_tf32_tf32_n8"]
    yield Case(
        f"{tf32.name}/truncates",
        "wgmma",
        wgmma_launch(
            tf32,
            _k_major(128, 8),
            image=Array(
                "image", "f32", (IMAGE_BYTES // 4,), Constant(1 + 2.0**-11 + 2.0**-13), role="in"
            ),
        ),
    )
    yield from _rounding_studies(by_name)


def _k_or_mn(form: Wgmma) -> Operands:
    return next(operands for _, operands in _operand_sets(form))


def _rounding_studies(by_name: dict[str, Wgmma]) -> Iterator[Case]:
    """Data on which the order and width of the hardware's sums show."""
    for name, limit, start in (
        ("wgmma_f32_f16_f16_n8_t00", 2000, 2**12),
        ("wgmma_f32_f16_f16_n8_t00", 3, 2**24),
        ("wgmma_f32_bf16_bf16_n8_t00", 250, 2**24),
        ("wgmma_f32_e4m3_e4m3_n8", 15, 2**12),
        ("wgmma_f32_e4m3_e4m3_n8", 3, 2**20),
        ("wgmma_f32_tf32_tf32_n8", 2000, 2**24),
        ("wgmma_f16_f16_f16_n8_t00", 40, 2000),
        ("wgmma_f16_e4m3_e5m2_n8", 7, 2000),
    ):
        form = by_name[name]
        c_shape = (form.d_registers, 128 * (2 if form.d == "f16" else 1))
        c = Array("c", form.d, c_shape, Integers(-start, start, 41), role="in")
        launch = wgmma_launch(
            form, replace(_k_major(128, 8), steps=1), c=c, image=_image(form, limit)
        )
        yield Case(f"{name}/study-{limit}-{start}", "wgmma", launch)


def _image(form: Wgmma, limit: int = 4) -> Array:
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(form.a, 1)
    # one image for both operands: where their types differ, u8 x s8 and e4m3 x e5m2, any bits will
    # do that are small in both
    if form.a == form.b or {form.a, form.b} == {"u8", "s8"}:
        dtype = "s8" if "s8" in (form.a, form.b) else form.a
        return operand_array("image", dtype, IMAGE_BYTES // size, 42, limit)
    path = scratch() / "mixed-fp8.npy"
    rng = np.random.default_rng(43)
    codes = np.array([0, 0x38, 0x40, 0x44, 0xB8, 0xC0, 0x3C, 0xBC], np.uint8)
    np.save(path, rng.choice(codes, IMAGE_BYTES))
    return Array("image", "u8", (IMAGE_BYTES,), File(str(path)), role="in")


def wgmma_launch(
    form: Wgmma,
    operands: Operands,
    scale_d: int = 1,
    c: Array | None = None,
    image: Array | None = None,
) -> Launch:
    words = (form.d_registers, 128)
    c_shape = (form.d_registers, 256) if form.d == "f16" else words
    arrays = [
        image or _image(form),
        c or Array("c", form.d, c_shape, Integers(-64, 64, 44), role="in"),
        Array("out", "u32", words, role="out"),
        replace(_image(form), name="a_regs"),
    ]
    arguments: list[Argument] = [Pointer(a.name) for a in arrays]
    arguments += u64(
        operands.a.encode(), operands.b.encode(), operands.a_step >> 4, operands.b_step >> 4
    )
    arguments += [Scalar("u32", operands.steps), Scalar("u32", scale_d)]
    return launch_of(form.name, 128, arrays, arguments, IMAGE_BYTES)
