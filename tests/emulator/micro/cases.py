"""Every micro-test: a kernel, its launch description and whether its bits are specified.

The same launch runs on a GPU (capture.py) and in the emulator (tests/emulator/test_micro.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

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
    Poison,
    Scalar,
    bits_of,
)
from kgen.emu.layout import MatrixDescriptor
from kgen.emu.tensormap import ELEMENT_BYTES, TensorMap

from .forms import ATOM, CVT, FLOAT, INTEGER, MATRIX, MMA, RED, WARP, WGMMA, Mma, Wgmma
from .generated import IMAGE_BYTES, LANES
from .inputs import WORDS


@dataclass(frozen=True)
class Case:
    """A kernel, its launch and what its results are worth.

    tolerance: relative to the largest result, where rounding is unspecified; 0 asks for the bits.
    waits_forever: the kernel gives up a wait that can never succeed; the emulator says deadlock.
    """

    name: str
    module: str
    launch: Launch
    tolerance: float = 0.0
    waits_forever: bool = False


@cache
def _scratch() -> Path:
    return Path(mkdtemp(prefix="micro-"))


@cache
def _words_file(name: str) -> str:
    """The words of inputs.py as a .npy file, the form in which a launch takes exact contents."""
    path = _scratch() / f"{name}.npy"
    np.save(path, WORDS[name]())
    return str(path)


def _s32(*values: int) -> tuple[Scalar, ...]:
    return tuple(Scalar("s32", v) for v in values)


def _u64(*values: int) -> tuple[Scalar, ...]:
    return tuple(Scalar("u64", v) for v in values)


def _launch(kernel: str, threads: int, arrays: list[Array], arguments: list[Argument],
            shared: int = 0, ctas: int = 1, cluster: int = 1) -> Launch:
    return Launch(kernel, (ctas, 1, 1), (threads, 1, 1), tuple(arrays), tuple(arguments),
                  (cluster, 1, 1), shared).validate()


# ---------------------------------------------------------------- one instruction per lane


def lane_cases() -> Iterator[Case]:
    for module, prefix, table in (("cvt", "cvt_", CVT), ("float", "", FLOAT),
                                  ("integer", "", INTEGER), ("warp", "", WARP)):
        for name, text in table.items():
            kernel = (prefix + name).replace(".", "_")
            for words in _word_sets(name, text):
                arrays = [Array("in", "u32", (3, LANES), File(_words_file(words)), role="in"),
                          Array("out", "u32", (2, LANES), role="out")]
                yield Case(f"{kernel}/{words}", module,
                           _launch(kernel, LANES, arrays, [Pointer("in"), Pointer("out")]))


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
            arrays = [Array("in", "u32", (3, LANES), File(_words_file(words)), role="in"),
                      Array("out", "u32", (2, LANES), role="out"), cells]
            arguments: list[Argument] = [Pointer("in"), Pointer("out"), Pointer("cells")]
            yield Case(kernel, "atomics",
                       _launch(kernel, LANES, arrays, arguments, 1024 * (space == "shared")))


def _cells(words: str) -> File:
    """One 8-byte cell per lane: operand a rotated by one lane, or a itself on even lanes."""
    path = _scratch() / f"cells-{words}.npy"
    low = WORDS[words]()[0]
    low = np.where(np.arange(LANES) % 2, np.roll(low, 1), low)
    np.save(path, np.stack([low, WORDS[words]()[2]], 1))
    return File(str(path))


# ---------------------------------------------------------------- matrix instructions


def _operand_array(name: str, dtype: str, count: int, seed: int, limit: int = 4) -> Array:
    """`count` small integers of a matrix dtype, laid out flat."""
    lo = 0 if dtype == "u8" else -limit
    return Array(name, dtype, (count,), Integers(lo, limit, seed), role="in")


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
    path = _scratch() / f"{form.name}.npy"
    words = np.concatenate(parts)
    np.save(path, words)
    arrays = [Array("in", "u32", words.shape, File(str(path)), role="in"),
              Array("out", "u32", (form.registers[2], 32), role="out")]
    return _launch(form.name, 32, arrays, [Pointer("in"), Pointer("out")])


def matrix_cases() -> Iterator[Case]:
    for kind, matrices, trans in MATRIX:
        name = f"{kind}_x{matrices}" + ("_trans" if trans else "")
        rng = np.random.default_rng(31)
        rows = np.concatenate([rng.permutation(64)[:32] * 16, rng.integers(0, 2**32, 128)])
        path = _scratch() / f"{kind}-rows.npy"
        np.save(path, rows.astype(np.uint32))
        out = (matrices, 32) if kind == "ldmatrix" else (256,)
        arrays = [Array("image", "u32", (256,), Integers(0, 2**32 - 1, 32), role="in"),
                  Array("rows", "u32", (160,), File(str(path)), role="in"),
                  Array("out", "u32", out, role="out")]
        arguments: list[Argument] = [Pointer("image"), Pointer("rows"), Pointer("out")]
        yield Case(name, "matrix", _launch(name, 32, arrays, arguments, 1024))


# ---------------------------------------------------------------- wgmma


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
    return Operands(MatrixDescriptor(0, 64 * 16, 128, 0, 0),
                    MatrixDescriptor(_B, 16 * n, 128, 0, 0), 2 * 64 * 16, 2 * 16 * n)


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
        yield "k0-swapped", replace(
            plain, a=replace(plain.a, leading=plain.a.stride, stride=plain.a.leading),
            b=replace(plain.b, leading=plain.b.stride, stride=plain.b.leading))
        tile = _k_major(128, form.n)
        moved = replace(tile, a=replace(tile.a, start=1024 + 384),
                        b=replace(tile.b, start=_B + 640))
        yield "k128-start-inside-pattern", moved
        yield "k128-base-offset", replace(
            moved, a=replace(moved.a, base_offset=3), b=replace(moved.b, base_offset=5))
        narrow = _k_major(64, form.n)
        moved = replace(narrow, a=replace(narrow.a, start=256), b=replace(narrow.b, start=_B + 128))
        yield "k64-base-offset", replace(
            moved, a=replace(moved.a, base_offset=2), b=replace(moved.b, base_offset=1))
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
        yield Case(f"{form.name}/overwrite", "wgmma",
                   wgmma_launch(form, replace(_k_or_mn(form), steps=1), scale_d=0))
    by_name = {form.name: form for form in WGMMA}
    clamp = by_name["wgmma_s32_s8_s8_n8_sat"]
    yield Case(f"{clamp.name}/clamps", "wgmma", wgmma_launch(
        clamp, _k_major(128, 8), c=Array("c", "s32", (4, 128), Constant(2**31 - 9), role="in")))
    wraps = by_name["wgmma_s32_s8_s8_n8"]
    yield Case(f"{wraps.name}/wraps", "wgmma", wgmma_launch(
        wraps, _k_major(128, 8), c=Array("c", "s32", (4, 128), Constant(2**31 - 9), role="in")))
    tf32 = by_name["wgmma_f32_tf32_tf32_n8"]
    yield Case(f"{tf32.name}/truncates", "wgmma", wgmma_launch(
        tf32, _k_major(128, 8),
        image=Array("image", "f32", (IMAGE_BYTES // 4,), Constant(1 + 2.0**-11 + 2.0**-13),
                    role="in")))
    yield from _rounding_studies(by_name)


def _k_or_mn(form: Wgmma) -> Operands:
    return next(operands for _, operands in _operand_sets(form))


def _rounding_studies(by_name: dict[str, Wgmma]) -> Iterator[Case]:
    """Data on which the order and width of the hardware's sums show. Recorded only."""
    for name, limit, start in (
        ("wgmma_f32_f16_f16_n8_t00", 2000, 2**12), ("wgmma_f32_f16_f16_n8_t00", 3, 2**24),
        ("wgmma_f32_bf16_bf16_n8_t00", 250, 2**24), ("wgmma_f32_e4m3_e4m3_n8", 15, 2**12),
        ("wgmma_f32_e4m3_e4m3_n8", 3, 2**20), ("wgmma_f32_tf32_tf32_n8", 2000, 2**24),
        ("wgmma_f16_f16_f16_n8_t00", 40, 2000), ("wgmma_f16_e4m3_e5m2_n8", 7, 2000),
    ):
        form = by_name[name]
        c_shape = (form.d_registers, 128 * (2 if form.d == "f16" else 1))
        c = Array("c", form.d, c_shape, Integers(-start, start, 41), role="in")
        launch = wgmma_launch(form, replace(_k_major(128, 8), steps=1), c=c,
                              image=_image(form, limit))
        coarse = "e4m3" in name or name.startswith("wgmma_f16")
        yield Case(f"{name}/study-{limit}-{start}", "wgmma", launch, 2.0 ** (-9 if coarse else -20))


def _image(form: Wgmma, limit: int = 4) -> Array:
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(form.a, 1)
    # one image for both operands: where their types differ, u8 x s8 and e4m3 x e5m2, any bits will
    # do that are small in both
    if form.a == form.b or {form.a, form.b} == {"u8", "s8"}:
        dtype = "s8" if "s8" in (form.a, form.b) else form.a
        return _operand_array("image", dtype, IMAGE_BYTES // size, 42, limit)
    path = _scratch() / "mixed-fp8.npy"
    rng = np.random.default_rng(43)
    codes = np.array([0, 0x38, 0x40, 0x44, 0xB8, 0xC0, 0x3C, 0xBC], np.uint8)
    np.save(path, rng.choice(codes, IMAGE_BYTES))
    return Array("image", "u8", (IMAGE_BYTES,), File(str(path)), role="in")


def wgmma_launch(form: Wgmma, operands: Operands, scale_d: int = 1, c: Array | None = None,
                 image: Array | None = None) -> Launch:
    words = (form.d_registers, 128)
    c_shape = (form.d_registers, 256) if form.d == "f16" else words
    arrays = [
        image or _image(form),
        c or Array("c", form.d, c_shape, Integers(-64, 64, 44), role="in"),
        Array("out", "u32", words, role="out"),
        replace(_image(form), name="a_regs"),
    ]
    arguments: list[Argument] = [Pointer(a.name) for a in arrays]
    arguments += _u64(operands.a.encode(), operands.b.encode(),
                      operands.a_step >> 4, operands.b_step >> 4)
    arguments += [Scalar("u32", operands.steps), Scalar("u32", scale_d)]
    return _launch(form.name, 128, arrays, arguments, IMAGE_BYTES)


# ---------------------------------------------------------------- TMA

SHARED = 1024 + 16384
"""Barriers and tile of tma.cu."""


def _source(dtype: str, dims: tuple[int, ...], **map_fields: object) -> tuple[Array, TensorMap]:
    """A dense tensor (rows padded to 16 bytes) with random contents, and its map."""
    size = ELEMENT_BYTES[dtype]
    row = -(-dims[0] * size // 16) * 16
    strides, step = [], row
    for dim in dims[1:]:
        strides.append(step)
        step *= dim
    memory = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}.get(
        dtype, {1: "u8", 2: "u16", 4: "u32", 8: "u64"}[size])
    fill = Integers(-99, 99, 51) if memory in ("f16", "bf16", "f32", "f64") else Integers(0, 99, 51)
    array = Array("src", memory, tuple(reversed(dims)), fill, row // size, role="in")
    fields = {"strides": tuple(strides), "offset": 0, **map_fields}
    return array, TensorMap(dtype, "src", dims, **fields)  # type: ignore[arg-type]


def load_case(name: str, array: Array, tensor_map: TensorMap, coords: tuple[int, ...],
              offset: int = 0, dump: int = 0) -> Case:
    """dump: bytes of the tile to record, by default the copy itself."""
    dump = dump or offset + tensor_map.tx_bytes
    xyzwv = (*coords, 0, 0, 0, 0)[:5]
    out = Array("out", "u32", (dump // 4 + 1,), role="out")
    kernel = f"tma_load_{tensor_map.rank}d"
    arguments = [tensor_map.validate(), Pointer("out"),
                 *_s32(dump, tensor_map.tx_bytes, offset, *xyzwv)]
    return Case(f"{kernel}/{name}", "tma", _launch(kernel, 64, [array, out], arguments, SHARED))


def tma_load_cases() -> Iterator[Case]:
    for width in (0, 32, 64, 128):
        source = _source("f16", (80, 24), box=((width or 48) // 2, 16), swizzle=width)
        for name, coords in (("inside", (8, 5)), ("before", (-8, -3)), ("behind", (72, 15)),
                             ("outside", (200, -40))):
            yield load_case(f"swizzle{width}-{name}", *source, coords)
        yield load_case(f"swizzle{width}-in-pattern", *source, (8, 5), offset=384)
        array, tensor_map = source
        narrow = replace(tensor_map, box=(8, 16))
        yield load_case(f"swizzle{width}-16-byte-box", array, narrow, (8, 5), dump=2048)
    for dtype in ("u8", "u16", "u32", "s32", "u64", "s64", "bf16", "f32", "f64"):
        size = ELEMENT_BYTES[dtype]
        source = _source(dtype, (48, 12), box=(64 // size, 8), swizzle=64)
        yield load_case(f"type-{dtype}", *source, (4, 6))
    for dtype in ("f16", "bf16", "f32", "f64", "tf32", "f32_ftz", "tf32_ftz"):
        source = _source(dtype, (20, 6), box=(64 // ELEMENT_BYTES[dtype], 8), oob_fill="nan")
        yield load_case(f"nan-fill-{dtype}", *source, (8, -2))
    for dtype in ("tf32", "f32_ftz", "tf32_ftz"):
        for words in ("special", "random"):
            array = Array("src", "u32", (3, LANES), File(_words_file(words)), role="in")
            tensor_map = TensorMap(dtype, "src", (LANES, 3), (256,), (LANES, 3))
            yield load_case(f"values-{dtype}-{words}", array, tensor_map, (0, 0))
    for rank, dims, box, coords in (
        (1, (300,), (256,), (100,)), (3, (40, 9, 5), (32, 4, 3), (8, 7, 3)),
        (4, (40, 5, 4, 3), (32, 2, 3, 2), (-4, 1, 2, 2)),
        (5, (40, 4, 3, 3, 2), (32, 2, 2, 2, 2), (8, 3, -1, 1, 1)),
    ):
        width = 64 if rank > 1 else 0
        source = _source("f16", dims, box=box, swizzle=width)
        yield load_case(f"rank{rank}", *source, coords)
    for steps in ((1, 2), (1, 3), (2, 1)):
        source = _source("f16", (80, 40), box=(32, 16), element_strides=steps, swizzle=64)
        yield load_case(f"element-strides-{steps[0]}-{steps[1]}", *source, (8, 30), dump=2048)
    array, tensor_map = _source("f16", (64, 16), box=(64, 8), swizzle=128)
    yield load_case("stride-0", array, replace(tensor_map, strides=(0,)), (0, 3))
    yield load_case("overlapping-rows", array, replace(tensor_map, strides=(32,)), (0, 3))
    yield load_case("offset-in-array", array, replace(tensor_map, offset=48), (0, 3))
    hints = load_case("x", array, tensor_map, (8, 2))
    arguments = list(hints.launch.arguments)
    yield Case("tma_load_hints", "tma", replace(
        hints.launch, kernel="tma_load_hints", arguments=(*arguments[:4], *arguments[5:7])))
    # too many bytes expected: the wait must give up
    yield Case("tma_load_2d/one-byte-too-many", "tma", replace(
        hints.launch, arguments=(*arguments[:3], Scalar("s32", 1025), *arguments[4:])),
        waits_forever=True)


def multicast_cases() -> Iterator[Case]:
    array, tensor_map = _source("f16", (80, 24), box=(64, 8), swizzle=128)
    box = tensor_map.tx_bytes
    for name, tx0, tx1, mask0, mask1 in (
        ("both-to-both", 2 * box, 2 * box, 3, 3), ("each-to-itself", box, box, 1, 2),
        ("each-to-the-other", box, box, 2, 1), ("first-to-both", 2 * box, box, 3, 1),
    ):
        out = Array("out", "u32", (2, 2 * box // 4 + 1), role="out")
        arguments = [tensor_map, Pointer("out"), *_s32(box, tx0, tx1, mask0, mask1, 8, 5, 8)]
        yield Case(f"tma_load_multicast/{name}", "tma", _launch(
            "tma_load_multicast", 64, [array, out], arguments, SHARED, 2, 2))


def store_case(kernel: str, name: str, array: Array, tensor_map: TensorMap,
               coords: tuple[int, ...], source: Array, offset: int = 0, ctas: int = 1) -> Case:
    arguments = [replace(tensor_map, array="dst").validate(), Pointer("in"),
                 *_s32(offset + tensor_map.tx_bytes, offset, *(*coords, 0, 0)[:3])]
    arrays = [replace(source, name="in", role="in"), replace(array, name="dst", role="inout")]
    return Case(f"{kernel}/{name}", "tma",
                _launch(kernel, 64, arrays, arguments, SHARED, ctas))


def _tile(dtype: str, nbytes: int) -> Array:
    size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "u64": 8}.get(dtype, 4)
    lo = 0 if dtype[0] == "u" else -50
    return Array("in", dtype, (nbytes // size,), Integers(lo, 50, 52))


def tma_store_cases() -> Iterator[Case]:
    for width in (0, 32, 64, 128):
        array, tensor_map = _source("f16", (80, 24), box=((width or 48) // 2, 16), swizzle=width)
        tile = _tile("f16", 4096)
        for name, coords in (("inside", (8, 5)), ("before", (-8, -3)), ("behind", (72, 15))):
            yield store_case("tma_store_2d", f"swizzle{width}-{name}", array, tensor_map, coords,
                             tile)
        yield store_case("tma_store_2d", f"swizzle{width}-in-pattern", array, tensor_map, (8, 5),
                         tile, offset=384)
    for rank, dims, box, coords in ((1, (300,), (256,), (100,)),
                                    (3, (40, 9, 5), (32, 4, 3), (16, 7, 3))):
        array, tensor_map = _source("f16", dims, box=box, swizzle=64 if rank > 1 else 0)
        yield store_case(f"tma_store_{rank}d", "edge", array, tensor_map, coords,
                         _tile("f16", 4096))
    array, tensor_map = _source("f16", (80, 40), box=(32, 16), element_strides=(1, 2), swizzle=64)
    yield store_case("tma_store_2d", "element-strides", array, tensor_map, (8, 20),
                     _tile("f16", 4096))
    for dtype in ("u8", "f32", "tf32", "u64"):
        box = (64 // ELEMENT_BYTES[dtype], 8)
        array, tensor_map = _source(dtype, (48, 12), box=box, swizzle=64)
        words = Array("in", "u32", (3, LANES), File(_words_file("random")))
        yield store_case("tma_store_2d", f"type-{dtype}", array, tensor_map, (4, 6), words)


def reduce_cases() -> Iterator[Case]:
    """Three CTAs add the same small integers: exact in any order."""
    for dtype in ("f32", "f16", "bf16", "s32", "u32", "u64"):
        yield _reduce("add", dtype, 3)
    for op in ("min", "max"):
        for dtype in ("f16", "bf16", "s32", "u32"):
            yield _reduce(op, dtype, 3)
    for op in ("and", "or", "xor", "inc", "dec"):
        yield _reduce(op, "u32", 3)


def _reduce(op: str, dtype: str, ctas: int) -> Case:
    size = ELEMENT_BYTES[dtype]
    array, tensor_map = _source(dtype, (40, 12), box=(64 // size, 8), swizzle=64)
    if dtype == "s32":
        array = replace(array, dtype="s32", fill=Integers(-99, 99, 53))
    return store_case(f"tma_reduce_{op}", dtype, array, tensor_map, (4, 6), _tile(dtype, 1024),
                      ctas=ctas)


def bulk_cases() -> Iterator[Case]:
    for kernel in ("bulk_load", "bulk_store"):
        arrays = [Array("in", "u32", (256,), Integers(0, 2**32 - 1, 61), role="in"),
                  Array("out", "u32", (257,))]
        yield Case(kernel, "tma", _launch(
            kernel, 64, arrays, [Pointer("in"), Pointer("out"), *_s32(1024)], SHARED))
    for dtype in ("f32", "f16", "bf16", "s32"):
        count = 512 if "16" in dtype else 256
        arrays = [Array("in", dtype, (count,), Integers(-50, 50, 62), role="in"),
                  Array("out", dtype, (count,), Integers(-50, 50, 63))]
        kernel = f"bulk_reduce_add_{dtype}"
        yield Case(kernel, "tma", _launch(
            kernel, 64, arrays, [Pointer("in"), Pointer("out"), *_s32(1024)], SHARED, 3))
    arrays = [Array("in", "u32", (256,), Integers(0, 2**32 - 1, 61), role="in"),
              Array("out", "u32", (257,))]
    yield Case("bulk_to_peer", "tma", _launch(
        "bulk_to_peer", 64, arrays, [Pointer("in"), Pointer("out"), *_s32(1024)], SHARED, 2, 2))


# ---------------------------------------------------------------- barriers


def sync_cases() -> Iterator[Case]:
    def case(kernel: str, threads: int, words: int, read: int = 0, ctas: int = 1,
             cluster: int = 1) -> Case:
        arrays = [Array("out", "u32", (words,), Poison())]
        if read:
            arrays.insert(0, Array("in", "u32", (read,), Integers(0, 1000, 71), role="in"))
        arguments: list[Argument] = [Pointer(a.name) for a in arrays]
        return Case(kernel, "sync",
                    _launch(kernel, threads, arrays, arguments, SHARED, ctas, cluster))

    yield case("mbarrier_counts", 32, 14)
    yield case("mbarrier_bytes", 32, 14)
    yield case("mbarrier_state", 32, 8)
    yield case("mbarrier_remote", 32, 4, ctas=2, cluster=2)
    yield case("named_barriers", 64, 96, read=32)
    yield case("barrier_reductions", 64, 64, read=64)
    yield case("cluster_memory", 32, 128, read=64, ctas=2, cluster=2)
    registers = case("special_registers", 64, 8 * 64 * 12, ctas=4, cluster=2)
    yield replace(registers, launch=replace(registers.launch, grid=(4, 2, 1), block=(8, 4, 2)))


@cache
def all_cases() -> dict[str, Case]:
    """Every case by name."""
    sources = (lane_cases, atomic_cases, mma_cases, matrix_cases, wgmma_cases, tma_load_cases,
               multicast_cases, tma_store_cases, reduce_cases, bulk_cases, sync_cases)
    cases = [case for source in sources for case in source()]
    found = {case.name: case for case in cases}
    assert len(found) == len(cases)
    return found
