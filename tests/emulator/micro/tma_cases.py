"""Tensor and bulk copies: swizzles, ranks, types, edges, multicast, stores, reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kgen.emu.launch import Array, File, Integers, Pointer, Scalar
from kgen.emu.tensormap import ELEMENT_BYTES, TensorMap

from .case import SHARED, Case, launch_of, s32, words_file
from .inputs import LANES


def _source(dtype: str, dims: tuple[int, ...], **map_fields: object) -> tuple[Array, TensorMap]:
    """A dense tensor (rows padded to 16 bytes) with random contents, and its map."""
    size = ELEMENT_BYTES[dtype]
    row = -(-dims[0] * size // 16) * 16
    strides, step = [], row
    for dim in dims[1:]:
        strides.append(step)
        step *= dim
    memory = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}.get(
        dtype, {1: "u8", 2: "u16", 4: "u32", 8: "u64"}[size]
    )
    fill = Integers(-99, 99, 51) if memory in ("f16", "bf16", "f32", "f64") else Integers(0, 99, 51)
    array = Array("src", memory, tuple(reversed(dims)), fill, row // size, role="in")
    fields = {"strides": tuple(strides), "offset": 0, **map_fields}
    return array, TensorMap(dtype, "src", dims, **fields)  # type: ignore[arg-type]


def load_case(
    name: str,
    array: Array,
    tensor_map: TensorMap,
    coords: tuple[int, ...],
    offset: int = 0,
    dump: int = 0,
) -> Case:
    """dump: bytes of the tile to record, by default the copy itself."""
    dump = dump or offset + tensor_map.tx_bytes
    xyzwv = (*coords, 0, 0, 0, 0)[:5]
    out = Array("out", "u32", (dump // 4 + 1,), role="out")
    kernel = f"tma_load_{tensor_map.rank}d"
    arguments = [
        tensor_map.validate(),
        Pointer("out"),
        *s32(dump, tensor_map.tx_bytes, offset, *xyzwv),
    ]
    return Case(f"{kernel}/{name}", "tma", launch_of(kernel, 64, [array, out], arguments, SHARED))


def tma_load_cases() -> Iterator[Case]:
    for width in (0, 32, 64, 128):
        source = _source("f16", (80, 24), box=((width or 48) // 2, 16), swizzle=width)
        for name, coords in (
            ("inside", (8, 5)),
            ("before", (-8, -3)),
            ("behind", (72, 15)),
            ("outside", (200, -40)),
        ):
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
            array = Array("src", "u32", (3, LANES), File(words_file(words)), role="in")
            tensor_map = TensorMap(dtype, "src", (LANES, 3), (256,), (LANES, 3))
            yield load_case(f"values-{dtype}-{words}", array, tensor_map, (0, 0))
    for rank, dims, box, coords in (
        (1, (300,), (256,), (100,)),
        (3, (40, 9, 5), (32, 4, 3), (8, 7, 3)),
        (4, (40, 5, 4, 3), (32, 2, 3, 2), (-4, 1, 2, 2)),
        (5, (40, 4, 3, 3, 2), (32, 2, 2, 2, 2), (8, 3, -1, 1, 1)),
    ):
        width = 64 if rank > 1 else 0
        source = _source("f16", dims, box=box, swizzle=width)
        yield load_case(f"rank{rank}", *source, coords)
    for steps in ((1, 2), (1, 3), (2, 1)):
        source = _source("f16", (80, 40), box=(32, 16), element_strides=steps, swizzle=64)
        yield load_case(f"element-strides-{steps[0]}-{steps[1]}", *source, (8, 30), dump=2048)
    array, tensor_map = _source("f16", (80, 24), box=(64, 8), swizzle=128)
    for extent in (33, 36, 39):
        ragged = replace(tensor_map, dims=(extent, 24))
        yield load_case(f"ragged-{extent}", array, ragged, (8, 5))
    for inner in (-1, -3, 77):
        yield load_case(f"inner-{inner}", array, tensor_map, (inner, 5))
    array, tensor_map = _source("f16", (64, 16), box=(64, 8), swizzle=128)
    yield load_case("stride-0", array, replace(tensor_map, strides=(0,)), (0, 3))
    yield load_case("overlapping-rows", array, replace(tensor_map, strides=(32,)), (0, 3))
    yield load_case("offset-in-array", array, replace(tensor_map, offset=48), (0, 3))
    hints = load_case("x", array, tensor_map, (8, 2))
    arguments = list(hints.launch.arguments)
    yield Case(
        "tma_load_hints",
        "tma",
        replace(hints.launch, kernel="tma_load_hints", arguments=(*arguments[:4], *arguments[5:7])),
    )
    # too many bytes expected: the wait must give up
    yield Case(
        "tma_load_2d/one-byte-too-many",
        "tma",
        replace(hints.launch, arguments=(*arguments[:3], Scalar("s32", 1025), *arguments[4:])),
        waits_forever=True,
    )


def multicast_cases() -> Iterator[Case]:
    array, tensor_map = _source("f16", (80, 24), box=(64, 8), swizzle=128)
    box = tensor_map.tx_bytes
    for name, tx0, tx1, mask0, mask1 in (
        ("both-to-both", 2 * box, 2 * box, 3, 3),
        ("each-to-itself", box, box, 1, 2),
        ("each-to-the-other", box, box, 2, 1),
        ("first-to-both", 2 * box, box, 3, 1),
    ):
        out = Array("out", "u32", (2, 2 * box // 4 + 1), role="out")
        arguments = [tensor_map, Pointer("out"), *s32(box, tx0, tx1, mask0, mask1, 8, 5, 8)]
        yield Case(
            f"tma_load_multicast/{name}",
            "tma",
            launch_of("tma_load_multicast", 64, [array, out], arguments, SHARED, 2, 2),
        )


def store_case(
    kernel: str,
    name: str,
    array: Array,
    tensor_map: TensorMap,
    coords: tuple[int, ...],
    source: Array,
    offset: int = 0,
    ctas: int = 1,
) -> Case:
    arguments = [
        replace(tensor_map, array="dst").validate(),
        Pointer("in"),
        *s32(offset + tensor_map.tx_bytes, offset, *(*coords, 0, 0)[:3]),
    ]
    arrays = [replace(source, name="in", role="in"), replace(array, name="dst", role="inout")]
    return Case(f"{kernel}/{name}", "tma", launch_of(kernel, 64, arrays, arguments, SHARED, ctas))


def _tile(dtype: str, nbytes: int) -> Array:
    size = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "u64": 8}.get(dtype, 4)
    lo = 0 if dtype[0] == "u" else -50
    return Array("in", dtype, (nbytes // size,), Integers(lo, 50, 52))


def tma_store_cases() -> Iterator[Case]:
    for width in (0, 32, 64, 128):
        array, tensor_map = _source("f16", (80, 24), box=((width or 48) // 2, 16), swizzle=width)
        tile = _tile("f16", 4096)
        for name, coords in (("inside", (8, 5)), ("before", (-8, -3)), ("behind", (72, 15))):
            yield store_case(
                "tma_store_2d", f"swizzle{width}-{name}", array, tensor_map, coords, tile
            )
        yield store_case(
            "tma_store_2d",
            f"swizzle{width}-in-pattern",
            array,
            tensor_map,
            (8, 5),
            tile,
            offset=384,
        )
    for rank, dims, box, coords in (
        (1, (300,), (256,), (100,)),
        (3, (40, 9, 5), (32, 4, 3), (16, 7, 3)),
    ):
        array, tensor_map = _source("f16", dims, box=box, swizzle=64 if rank > 1 else 0)
        yield store_case(
            f"tma_store_{rank}d", "edge", array, tensor_map, coords, _tile("f16", 4096)
        )
    array, tensor_map = _source("f16", (80, 40), box=(32, 16), element_strides=(1, 2), swizzle=64)
    yield store_case(
        "tma_store_2d", "element-strides", array, tensor_map, (8, 20), _tile("f16", 4096)
    )
    yield from ragged_store_cases()
    for dtype in ("u8", "f32", "tf32", "u64"):
        box = (64 // ELEMENT_BYTES[dtype], 8)
        array, tensor_map = _source(dtype, (48, 12), box=box, swizzle=64)
        words = Array("in", "u32", (3, LANES), File(words_file("random")))
        yield store_case("tma_store_2d", f"type-{dtype}", array, tensor_map, (4, 6), words)


def ragged_store_cases() -> Iterator[Case]:
    """Rows that end or begin inside 16 bytes; the array behind them shows what was written."""
    for dtype, extents in (("f16", range(33, 41)), ("u8", (65, 72, 79)), ("f32", (17, 18, 19))):
        size = ELEMENT_BYTES[dtype]
        array, tensor_map = _source(dtype, (160 // size, 12), box=(64 // size, 8), swizzle=64)
        for extent in extents:
            ragged = replace(tensor_map, dims=(extent, 12))
            for kernel in ("tma_store_2d", "tma_reduce_add"):
                if dtype == "u8" and kernel == "tma_reduce_add":
                    continue
                case = store_case(
                    kernel,
                    f"ragged-{dtype}-{extent}",
                    array,
                    ragged,
                    (32 // size, 6),
                    _tile("u32" if dtype == "u8" else dtype, 1024),
                )
                past = extent * size % 16 != 0
                yield replace(case, finding="store-past-extent" if past else "")
    array, tensor_map = _source("f16", (80, 24), box=(32, 16), swizzle=64)
    for inner in (-1, -3, -9, 71, 77):
        yield store_case(
            "tma_store_2d", f"inner-{inner}", array, tensor_map, (inner, 5), _tile("f16", 4096)
        )


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
    return store_case(
        f"tma_reduce_{op}", dtype, array, tensor_map, (4, 6), _tile(dtype, 1024), ctas=ctas
    )


def bulk_cases() -> Iterator[Case]:
    for kernel in ("bulk_load", "bulk_store"):
        arrays = [
            Array("in", "u32", (256,), Integers(0, 2**32 - 1, 61), role="in"),
            Array("out", "u32", (257,)),
        ]
        yield Case(
            kernel,
            "tma",
            launch_of(kernel, 64, arrays, [Pointer("in"), Pointer("out"), *s32(1024)], SHARED),
        )
    for dtype in ("f32", "f16", "bf16", "s32"):
        count = 512 if "16" in dtype else 256
        arrays = [
            Array("in", dtype, (count,), Integers(-50, 50, 62), role="in"),
            Array("out", dtype, (count,), Integers(-50, 50, 63)),
        ]
        kernel = f"bulk_reduce_add_{dtype}"
        yield Case(
            kernel,
            "tma",
            launch_of(kernel, 64, arrays, [Pointer("in"), Pointer("out"), *s32(1024)], SHARED, 3),
        )
    arrays = [
        Array("in", "u32", (256,), Integers(0, 2**32 - 1, 61), role="in"),
        Array("out", "u32", (257,)),
    ]
    yield Case(
        "bulk_to_peer",
        "tma",
        launch_of(
            "bulk_to_peer", 64, arrays, [Pointer("in"), Pointer("out"), *s32(1024)], SHARED, 2, 2
        ),
    )
