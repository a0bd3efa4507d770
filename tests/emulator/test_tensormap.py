"""Tensor maps: the driver's limits (return codes recorded on an H200) and addresses by loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.emu.tensormap import ELEMENT_BYTES, TensorMap
from kgen.errors import EmulatorError


def f16_map(**changes) -> TensorMap:
    base = TensorMap("f16", "A", (1024, 1024), (2048,), (64, 64), swizzle=128)
    return replace(base, **changes)


ACCEPTED = {
    "box 256 x 256": f16_map(box=(256, 256), swizzle=0),
    "inner box equals the swizzle width": f16_map(),
    "inner box below the swizzle width": f16_map(box=(32, 64)),
    "64B swizzle": f16_map(box=(32, 64), swizzle=64),
    "inner box of 48 bytes": f16_map(box=(24, 64), swizzle=0),
    "stride 2000 bytes": f16_map(dims=(1000, 1024), strides=(2000,)),
    "stride below a row": f16_map(strides=(1024,)),
    "stride 0": f16_map(strides=(0,)),
    "address + 16": f16_map(offset=16),
    "inner dimension 1001": f16_map(dims=(1001, 1024), strides=(2016,)),
    "dimension 2^32": TensorMap("u8", "A", (2**32, 4), (2**32,), (64, 4)),
    "rank 1": TensorMap("f16", "A", (1024,), (), (256,)),
    "rank 5": TensorMap(
        "f16", "A", (64, 4, 4, 4, 4), (128, 512, 2048, 8192), (64, 4, 4, 4, 4), swizzle=128
    ),
    "box larger than the tensor": f16_map(dims=(64, 8), strides=(128,), box=(64, 256)),
    "element stride 8": f16_map(element_strides=(1, 8), swizzle=0),
    "NaN fill": f16_map(oob_fill="nan"),
}

REFUSED = {
    "box 257": (f16_map(box=(64, 257)), "box[1]", "1..256"),
    "box 0": (f16_map(box=(64, 0)), "box[1]", "1..256"),
    "inner box 256 bytes, 128B swizzle": (f16_map(box=(128, 64)), "box[0]", "128B swizzle"),
    "inner box 128 bytes, 64B swizzle": (f16_map(swizzle=64), "box[0]", "64B swizzle"),
    "inner box 64 bytes, 32B swizzle": (f16_map(box=(32, 64), swizzle=32), "box[0]", "32B swizzle"),
    "inner box 8 bytes": (f16_map(box=(4, 64), swizzle=0), "box[0]", "multiple of 16"),
    "inner box 24 bytes": (f16_map(box=(12, 64), swizzle=0), "box[0]", "multiple of 16"),
    "stride 2008 bytes": (f16_map(dims=(1000, 1024), strides=(2008,)), "strides[0]", "of 16"),
    "stride 2^40": (TensorMap("u8", "A", (1024, 4), (2**40,), (64, 4)), "strides[0]", "2^40"),
    "address + 8": (f16_map(offset=8), "offset", "multiple of 16"),
    "dimension 2^32 + 1": (
        TensorMap("u8", "A", (2**32 + 1, 4), (2**32 + 16,), (64, 4)),
        "dims[0]",
        "2^32",
    ),
    "dimension 0": (f16_map(dims=(0, 1024)), "dims[0]", "2^32"),
    "element stride 9": (f16_map(element_strides=(1, 9), swizzle=0), "element_strides[1]", "1..8"),
    "NaN fill of integers": (
        TensorMap("u8", "A", (1024, 1024), (1024,), (64, 64), oob_fill="nan"),
        "oob_fill",
        "float",
    ),
    "rank 6": (TensorMap("f16", "A", (8,) * 6, (16,) * 5, (8,) * 6), "dims", "rank 6"),
    "unknown type": (f16_map(dtype="fp8"), "dtype", "'fp8'"),
    "too few strides": (f16_map(strides=()), "strides", "0 entries"),
    "too many boxes": (f16_map(box=(64, 64, 1)), "box", "3 entries"),
    "unknown swizzle": (f16_map(swizzle=96), "swizzle", "96"),
    "interleave": (f16_map(interleave="16B"), "interleave", "16B"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name):
    assert ACCEPTED[name].validate() is ACCEPTED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    tensor_map, field, rule = REFUSED[name]
    with pytest.raises(EmulatorError) as caught:
        tensor_map.validate()
    assert str(caught.value).startswith(f"tensor map of A: {field}: ")
    assert rule in str(caught.value)


def test_the_base_address_counts():
    f16_map(offset=8).validate(base_address=0x1008)
    with pytest.raises(EmulatorError, match="global address 0x1008"):
        f16_map().validate(base_address=0x1008)


def swizzled(address: int, width: int) -> int:
    for bit in range({0: 0, 32: 1, 64: 2, 128: 3}[width]):
        address ^= (address >> (7 + bit) & 1) << (4 + bit)
    return address


@st.composite
def maps(draw) -> tuple[TensorMap, tuple[int, ...], int]:
    rank = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(["u8", "f16", "f32", "u64"]))
    size = ELEMENT_BYTES[dtype]
    width = draw(st.sampled_from([0, 32, 64, 128]))
    inner = draw(st.sampled_from([16, width or 48]))  # 16: mostly narrower than the swizzle
    box = (inner // size, *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    dims = tuple(draw(st.integers(1, 40 if i == 0 else 6)) for i in range(rank))
    strides = tuple(draw(st.integers(0, 30)) * 16 for _ in range(rank - 1))
    steps = (1, *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    coords = tuple(draw(st.integers(-5, 40 if i == 0 else 7)) for i in range(rank))
    shared = draw(st.integers(0, 15)) * 128
    return (
        TensorMap(dtype, "A", dims, strides, box, element_strides=steps, swizzle=width),
        coords,
        shared,
    )


@given(maps())
@settings(max_examples=120, deadline=None)
def test_box_addresses(case):
    """Against five nested loops: outermost coordinate slowest, rows as wide as the swizzle, which
    acts on absolute addresses; stores end on 16 bytes.
    """
    tensor_map, coords, shared = case
    tensor_map.validate()
    got = tensor_map.box_addresses(coords, shared)
    ranges = [range(0, b, s) for b, s in zip(tensor_map.box, tensor_map.steps, strict=True)]
    places = [tuple(reversed(p)) for p in product(*reversed(ranges))]
    assert got.global_bytes.shape == (len(places),)
    assert tensor_map.tx_bytes == len(places) * tensor_map.element_bytes
    for i, place in enumerate(places):
        index = [c + p for c, p in zip(coords, place, strict=True)]
        byte = index[0] * tensor_map.element_bytes
        byte += sum(x * s for x, s in zip(index[1:], tensor_map.strides, strict=True))
        assert int(got.global_bytes[i]) == byte
        inside = all(0 <= x < d for x, d in zip(index, tensor_map.dims, strict=True))
        assert bool(got.in_bounds[i]) == inside
        assert got.indices[:, i].tolist() == index
        size = tensor_map.element_bytes
        end = tensor_map.dims[0] * size
        if all(0 <= x < d for x, d in zip(index[1:], tensor_map.dims[1:], strict=True)):
            unit = index[0] * size // 16  # the 16 bytes that hold the element
            assert bool(got.written[i]) == (index[0] >= 0 and 16 * unit < end)
        else:
            assert not got.written[i]
        row, column = divmod(i, tensor_map.box[0])
        pitch = tensor_map.swizzle or tensor_map.box[0] * size
        linear = shared + row * pitch + column * size
        assert shared + int(got.shared_bytes[i]) == swizzled(linear, tensor_map.swizzle)


def test_out_of_bounds_elements_count():
    tensor_map = f16_map(dims=(40, 100), strides=(80,), box=(64, 128))
    box = tensor_map.box_addresses((0, 0))
    assert int(box.in_bounds.sum()) == 40 * 100
    assert tensor_map.tx_bytes == 64 * 128 * 2


def test_wrong_number_of_coordinates():
    with pytest.raises(EmulatorError, match="3 coordinates for a map of rank 2"):
        f16_map().box_addresses((0, 0, 0))


def test_extent():
    tensor_map = f16_map(dims=(40, 3), strides=(96,), offset=32)
    assert tensor_map.extent == (32, 32 + 2 * 96 + 80)


def test_types_that_change_values():
    """tf32 rounds; neither flushes subnormal numbers, as measured."""
    word = np.array([0x3F801001, 0x3F800FFF, 0x80000001, 0x000116C2, 0x7F800001], np.uint32)
    rounded = [0x3F802000, 0x3F800000, 0x80000000, 0x00012000, 0x7FFFE000]
    for dtype, expected in (("tf32", rounded), ("tf32_ftz", rounded), ("f32_ftz", word)):
        tensor_map = TensorMap(dtype, "A", (32,), (), (32,))
        np.testing.assert_array_equal(tensor_map.load_values(word), expected)
        assert tensor_map.converts_on_load() == dtype.startswith("tf32")


def test_fill_bits():
    assert f16_map().fill_bits == 0
    for dtype, bits in (
        ("f16", 0x7FF7),
        ("bf16", 0x7FF7),
        ("f32", 0x7FF77FF7),
        ("tf32", 0x7FF77FF7),
        ("f64", 0x7FF77FF77FF77FF7),
    ):
        assert TensorMap(dtype, "A", (32,), (), (16,), oob_fill="nan").fill_bits == bits


@pytest.mark.parametrize(
    ("dtype", "coords", "store", "reason"),
    [
        ("f16", (8, 3), False, ""),
        ("f16", (-8, -3), False, ""),
        ("f16", (200, -40), False, ""),
        ("f16", (4, 3), False, "coordinate 0 is 4: 4 x 2 B = 8 B is not a multiple of 16"),
        ("f16", (-1, 0), False, "coordinate 0 is -1"),
        ("u8", (8, 0), False, "8 x 1 B = 8 B"),
        ("f32", (4, 0), True, ""),
        ("f32", (2, 0), True, "coordinate 0 is 2"),
        ("f16", (-8, 0), True, "coordinate 0 is -8"),
        ("f16", (8, -3), True, "coordinate 1 is -3"),
    ],
)
def test_coordinates_that_the_hardware_refuses(dtype, coords, store, reason):
    got = TensorMap(dtype, "A", (1024, 64), (8192,), (16, 8)).refuses(coords, store)
    assert got.startswith(reason) if reason.startswith("coord") else reason in got
    assert bool(got) == bool(reason)
