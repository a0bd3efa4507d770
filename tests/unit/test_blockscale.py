"""Layout of block scales against an index-by-index definition, and the quantiser by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.blockscale import pack_scales, quantise, unpack_scales, unpacked_elements
from kgen.dtypes import dtype
from kgen.minifloat import decode, table
from kgen.scales import ScaleLayout
from kgen.verify.quantise import quantise_tensor

MX = [("e4m3", "ue8m0", 32), ("e5m2", "ue8m0", 32), ("e2m1", "ue8m0", 32), ("e2m1", "ue4m3", 16)]


def defined_offset(row: int, scale: int, scales_per_row: int) -> int:
    """The published definition, one index at a time: tiles of 128 x 4, K first."""
    tiles_along_k = (scales_per_row + 3) // 4
    tile = row // 128 * tiles_along_k + scale // 4
    return 512 * tile + row % 32 * 16 + row % 128 // 32 * 4 + scale % 4


@given(
    st.integers(1, 300),
    st.integers(1, 40),
    st.sampled_from([16, 32]),
    st.integers(0, 255),
)
@settings(max_examples=40, deadline=None)
def test_packing_is_the_definition_and_round_trips(rows, scales, block, padding):
    layout = ScaleLayout(rows, scales * block - block // 2, block)
    assert layout.scales == scales
    given_scales = np.random.default_rng(rows).integers(0, 256, (rows, scales), "uint8")
    packed = pack_scales(layout, given_scales, padding)
    assert packed.shape == (layout.bytes,)
    expected = np.full(layout.bytes, padding, "uint8")
    for row in range(rows):
        for scale in range(scales):
            assert layout.offset(row, scale) == defined_offset(row, scale, scales)
            expected[defined_offset(row, scale, scales)] = given_scales[row, scale]
    np.testing.assert_array_equal(packed, expected)
    np.testing.assert_array_equal(unpack_scales(layout, packed), given_scales)


@pytest.mark.parametrize(
    ("rows", "tiles"), [(96, 1), (192, 2), (1856, 15), (128, 1), (1, 1), (129, 2)]
)
def test_padded_sizes_of_real_problems(rows, tiles):
    """flashinfer-ai/flashinfer#4653: 1856 rows are 15 tiles of 128, not 29 of 64; K = 2688."""
    nvfp4, mx = ScaleLayout(rows, 2688, 16), ScaleLayout(rows, 2688, 32)
    assert (nvfp4.row_tiles, nvfp4.k_tiles, nvfp4.bytes) == (tiles, 42, tiles * 42 * 512)
    assert (mx.row_tiles, mx.k_tiles, mx.bytes) == (tiles, 21, tiles * 21 * 512)
    scales = np.random.default_rng(0).integers(0, 255, (rows, nvfp4.scales), "uint8")
    # 0x7F is a NaN of ue4m3: whatever fills the padding, the scales come back.
    for padding in (0, 0x7F, 0xFF):
        np.testing.assert_array_equal(
            unpack_scales(nvfp4, pack_scales(nvfp4, scales, padding)), scales
        )


def test_no_scale_of_a_whole_k_tile_is_padding():
    """Where K is a multiple of four blocks, all padding belongs to rows outside the matrix."""
    layout = ScaleLayout(100, 256, 16)
    packed = pack_scales(layout, np.zeros((100, 16), "uint8"), padding=0x7F)
    rows_of_padding = {
        row for row in range(128) for s in range(16) if packed[layout.offset(row, s)] == 0x7F
    }
    assert rows_of_padding == set(range(100, 128))


def test_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"scales \(4, 3\), expected \(4, 2\)"):
        pack_scales(ScaleLayout(4, 64, 32), np.zeros((4, 3), "uint8"))


def test_nvfp4_by_hand():
    """Largest 12 in a block of 16: scale 2, so 12 is 6, 5 is 2.5 -> 2 (even), 1 is 0.5."""
    row = np.zeros((1, 16))
    row[0, :4] = [12, 5, 1, -3]
    q = quantise(row, "e2m1", "ue4m3", 16)
    assert decode(q.scales, "ue4m3").tolist() == [[2.0]]
    assert decode(q.elements, "e2m1")[0, :5].tolist() == [6.0, 2.0, 0.5, -1.5, 0.0]
    assert q.values()[0, :4].tolist() == [12.0, 4.0, 1.0, -3.0]
    assert q.storage.shape == (1, 8) and q.storage[0, 0] == 0x47


def test_mx_scales_are_powers_of_two_and_elements_saturate_when_rounded_down():
    """Largest 500 of e4m3: 500 / 448 = 1.116 rounds to 1, so 500 saturates to 448."""
    row = np.zeros((1, 32))
    row[0, 0] = 500.0
    q = quantise(row, "e4m3", "ue8m0", 32)
    assert decode(q.scales, "ue8m0").tolist() == [[1.0]]
    assert q.values()[0, 0] == 448.0
    row[0, 0] = 800.0  # 1.786 rounds to 2: no saturation, 400 -> 384 or 416
    q = quantise(row, "e4m3", "ue8m0", 32)
    assert decode(q.scales, "ue8m0").tolist() == [[2.0]]
    assert abs(q.values()[0, 0] - 800) <= 32


def test_the_global_scale_keeps_small_matrices_alive():
    values = np.random.default_rng(2).standard_normal((8, 64)) * 1e-6
    assert not quantise(values, "e2m1", "ue4m3", 16).values().any()
    q = quantise(values, "e2m1", "ue4m3", 16, with_global=True)
    error = np.abs(q.values() * q.global_scale - values)
    largest = np.abs(values).reshape(8, 4, 16).max(axis=2).repeat(16, axis=1)
    # Half the widest gap of e2m1 (4 to 6) is 1 of 6, and the scale is off by at most 1/16.
    assert (error <= largest * (1 / 6 + 1 / 16)).all()
    assert decode(q.scales, "ue4m3").max() == 448.0


@pytest.mark.parametrize(("name", "scale", "block"), MX)
def test_zeros_and_whole_numbers_survive(name, scale, block):
    zeros = quantise(np.zeros((3, 2 * block)), name, scale, block)
    assert not zeros.values().any()
    # A block whose largest is the type's largest has scale 1 and keeps every number of the type.
    numbers = table(name)[np.isfinite(table(name))]
    rows = np.zeros((len(numbers), block))
    rows[:, 0], rows[:, 1] = np.abs(numbers).max(), numbers
    q = quantise(rows, name, scale, block)
    np.testing.assert_array_equal(q.values(), rows)
    np.testing.assert_array_equal(unpacked_elements(q.storage, name), q.elements)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_elements_round_as_torch_rounds(name):
    torch = pytest.importorskip("torch", reason="torch is not installed: no second definition")
    kind = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[name]
    values = np.random.default_rng(3).standard_normal((16, 256)).astype("float32") * 5
    q = quantise(values, name, "ue8m0", 32)
    scales = decode(q.scales, "ue8m0").repeat(32, axis=1)
    largest = dtype(name).largest
    scaled = np.clip(values / scales, -largest, largest)
    theirs = torch.from_numpy(scaled).to(kind).view(torch.uint8).numpy()
    np.testing.assert_array_equal(q.elements, theirs)


@pytest.mark.parametrize(
    ("name", "scale", "block", "with_global", "limit"),
    [
        ("e2m1", "ue4m3", 16, True, 0.15),
        ("e2m1", "ue8m0", 32, False, 0.25),
        ("e4m3", "ue8m0", 32, False, 0.2),  # a power of two rounded down saturates the largest
    ],
)
def test_a_torch_tensor_is_quantised_as_an_array(name, scale, block, with_global, limit):
    """The launch's bytes, and values whose product is near the truth."""
    torch = pytest.importorskip("torch", reason="torch is not installed: no tensor to quantise")
    tensors = torch.randn(2, 96, 256, generator=torch.Generator().manual_seed(5)).bfloat16()
    found = [quantise_tensor(x, name, scale, block, with_global=with_global) for x in tensors]
    for x, q in zip(tensors, found, strict=True):
        array = quantise(x.double().numpy(), name, scale, block, with_global=with_global)
        assert np.array_equal(q.elements.numpy(), array.storage)
        assert np.array_equal(unpack_scales(array.layout, q.scales.numpy()), array.scales)
        assert np.array_equal(q.values.numpy(), array.values())
        assert q.global_scale == array.global_scale and (q.global_scale != 1) == with_global
    alpha = found[0].global_scale * found[1].global_scale
    product = alpha * (found[0].values @ found[1].values.T)
    truth = tensors[0].float() @ tensors[1].float().T
    spread = (product - truth).pow(2).mean().sqrt() / truth.pow(2).mean().sqrt()
    assert spread < limit, float(spread)
