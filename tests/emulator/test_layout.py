"""Shared-memory and register layouts against element-by-element definitions.

The wgmma cases rebuild, byte by byte, the tiles that TMA boxes leave in shared memory for each
swizzle and major; these box, LBO, SBO and advance values were checked on an H200.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.emu import fragments, layout
from kgen.emu.layout import MatrixDescriptor, descriptor_addresses


def swizzle_bits(address: int, width: int) -> int:
    """The published rule, bit by bit."""
    for row_bit in range({0: 0, 32: 1, 64: 2, 128: 3}[width]):
        if address >> (7 + row_bit) & 1:
            address ^= 1 << (4 + row_bit)
    return address


@given(st.integers(0, 2**18 - 1), st.sampled_from(layout.SWIZZLE_WIDTHS))
def test_swizzle(address, width):
    got = int(layout.swizzle(np.array([address]), width)[0])
    assert got == swizzle_bits(address, width)
    assert int(layout.swizzle(np.array([got]), width)[0]) == address


@given(
    st.integers(0, 2**14 - 1),
    st.integers(0, 2**14 - 1),
    st.integers(0, 2**14 - 1),
    st.integers(0, 7),
    st.sampled_from([(0, 0), (128, 1), (64, 2), (32, 3)]),
)
def test_descriptor_fields(start, leading, stride, base, mode):
    width, code = mode
    raw = start | leading << 16 | stride << 32 | base << 49 | code << 62
    desc = MatrixDescriptor.decode(raw)
    assert desc == MatrixDescriptor(16 * start, 16 * leading, 16 * stride, base, width)
    assert desc.encode() == raw


def write_box(
    memory: dict[int, tuple[int, int]],
    base: int,
    width: int,
    element_bytes: int,
    inner: range,
    outer: range,
    inner_is_row: bool,
) -> int:
    """One TMA box, `inner` along memory: stores (row, k) at each address; returns its bytes."""
    at = base
    for o in outer:
        for i in inner:
            memory[swizzle_bits(at, width)] = (i, o) if inner_is_row else (o, i)
            at += element_bytes
    return at - base


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("rows", [8, 64, 128, 256])
@pytest.mark.parametrize("width", [0, 32, 64, 128])
def test_k_major_tiles(width, rows, element_bytes):
    """Boxes of {width bytes of K, rows}; without swizzle, boxes of 16 bytes of K, LBO apart."""
    base, memory = 2048, {}
    box_k = (width or 16) // element_bytes
    k_step = 32 // element_bytes
    for box in range(128 // (width or 16)):
        bytes_ = write_box(
            memory,
            base + box * rows * (width or 16),
            width,
            element_bytes,
            range(box * box_k, (box + 1) * box_k),
            range(rows),
            False,
        )
        assert bytes_ == rows * (width or 16)
    steps = (width or 128) // 32
    for step in range(steps):
        if width:
            desc = MatrixDescriptor(base + 32 * step, 16, 8 * width, 0, width)
        else:
            desc = MatrixDescriptor(base + 2 * step * rows * 16, rows * 16, 128, 0, 0)
        got = descriptor_addresses(desc.encode(), rows, k_step, element_bytes)
        assert got.shape == (rows, k_step)
        for row in range(rows):
            for k in range(k_step):
                assert memory[int(got[row, k])] == (row, step * k_step + k)


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("width", [0, 32, 64, 128])
def test_mn_major_tiles(width, rows):
    """Boxes of {width bytes of MN, 64 K rows}, 16-bit elements."""
    base, memory, k_rows, row_bytes = 1024, {}, 64, width or 16
    box_mn = row_bytes // 2
    box_bytes = k_rows * row_bytes
    for box in range(rows // box_mn):
        write_box(
            memory,
            base + box * box_bytes,
            width,
            2,
            range(box * box_mn, (box + 1) * box_mn),
            range(k_rows),
            True,
        )
    group = 8 * row_bytes
    leading, stride = (box_bytes, group) if width else (group, box_bytes)
    for step in range(4):
        desc = MatrixDescriptor(base + step * 16 * row_bytes, leading, stride, 0, width)
        got = descriptor_addresses(desc.encode(), rows, 16, 2, "mn")
        for row in range(rows):
            for k in range(16):
                assert memory[int(got[row, k])] == (row, 16 * step + k)


@pytest.mark.parametrize(("major", "width"), [("k", 0), ("mn", 0), ("mn", 64), ("mn", 128)])
def test_swapping_the_offsets_changes_the_addresses(major, width):
    right = MatrixDescriptor(0, 8192, 1024, 0, width)
    swapped = MatrixDescriptor(0, 1024, 8192, 0, width)
    one = descriptor_addresses(right.encode(), 128, 16, 2, major)
    assert (one != descriptor_addresses(swapped.encode(), 128, 16, 2, major)).any()


def test_base_offset_shifts_the_pattern():
    """A pattern that starts at row 3 of the aligned one is read as if it started at row 0."""
    aligned = descriptor_addresses(MatrixDescriptor(0, 16, 1024, 0, 128).encode(), 64, 16, 2)
    shifted = descriptor_addresses(MatrixDescriptor(384, 16, 1024, 3, 128).encode(), 64, 16, 2)
    np.testing.assert_array_equal(shifted - 384, aligned)
    plain = descriptor_addresses(MatrixDescriptor(384, 16, 1024, 0, 128).encode(), 64, 16, 2)
    assert (plain != shifted).any()


def test_addresses_are_cached_and_read_only():
    raw = MatrixDescriptor(0, 16, 1024, 0, 128).encode()
    first = descriptor_addresses(raw, 64, 16, 2)
    assert first is descriptor_addresses(raw, 64, 16, 2)
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 1


@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_wgmma_accumulator(n):
    wide, packed = fragments.wgmma_accumulator(n), fragments.wgmma_accumulator(n, "f16")
    assert wide.rows.shape == (n // 2, 1, 128) and packed.rows.shape == (n // 4, 2, 128)
    for t in range(128):
        w, lane = t // 32, t % 32
        for j in range(n // 8):
            for h in range(2):
                for e in range(2):
                    row, column = 16 * w + lane // 4 + 8 * h, 8 * j + 2 * (lane % 4) + e
                    i = 4 * j + 2 * h + e
                    assert (wide.rows[i, 0, t], wide.columns[i, 0, t]) == (row, column)
                    i = 2 * j + h
                    assert (packed.rows[i, e, t], packed.columns[i, e, t]) == (row, column)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_wgmma_a_from_registers(element_bytes):
    """Register i: row l/4 + 8(i & 1), the 4 bytes at byte 16(i >> 1) + 4(l % 4) of the K row."""
    got = fragments.wgmma_a(element_bytes)
    per = 4 // element_bytes
    for t in range(128):
        w, lane = t // 32, t % 32
        for i in range(4):
            for e in range(per):
                byte = 16 * (i >> 1) + 4 * (lane % 4) + e * element_bytes
                assert got.rows[i, e, t] == 16 * w + lane // 4 + 8 * (i & 1)
                assert got.columns[i, e, t] * element_bytes == byte


# PTX ISA, matrix fragments for mma.m16n8: (k, bytes): rows and columns of each A and B element
# as functions of the element number i, with g = lane / 4 and t = lane % 4
ISA_A = {
    (8, 2): lambda i, g, t: (g + 8 * (i >= 2), 2 * t + (i & 1)),
    (16, 2): lambda i, g, t: (g + 8 * (2 <= i < 4 or i >= 6), 2 * t + (i & 1) + 8 * (i >= 4)),
    (4, 4): lambda i, g, t: (g + 8 * (i == 1), t),
    (8, 4): lambda i, g, t: (g + 8 * (i % 2), t + 4 * (i >= 2)),
    (16, 1): lambda i, g, t: (g + 8 * (i >= 4), 4 * t + (i & 3)),
    (32, 1): lambda i, g, t: (g + 8 * (4 <= i < 8 or i >= 12), 4 * t + (i & 3) + 16 * (i >= 8)),
}
ISA_B = {
    (8, 2): lambda i, g, t: (2 * t + i, g),
    (16, 2): lambda i, g, t: (2 * t + (i & 1) + 8 * (i >= 2), g),
    (4, 4): lambda i, g, t: (t, g),
    (8, 4): lambda i, g, t: (t + 4 * i, g),
    (16, 1): lambda i, g, t: (4 * t + i, g),
    (32, 1): lambda i, g, t: (4 * t + (i & 3) + 16 * (i >= 4), g),
}


@pytest.mark.parametrize(("k", "element_bytes"), ISA_A)
def test_mma_fragments(k, element_bytes):
    for isa, got in (
        (ISA_A, fragments.mma_a(k, element_bytes)),
        (ISA_B, fragments.mma_b(k, element_bytes)),
    ):
        per = 4 // element_bytes
        for lane in range(32):
            for i in range(got.registers * per):
                place = got.rows[i // per, i % per, lane], got.columns[i // per, i % per, lane]
                assert place == isa[k, element_bytes](i, lane // 4, lane % 4)


def test_mma_accumulator():
    wide, packed = fragments.mma_accumulator(), fragments.mma_accumulator("f16")
    for lane in range(32):
        for i in range(4):
            place = (lane // 4 + 8 * (i >= 2), 2 * (lane % 4) + (i & 1))
            assert (wide.rows[i, 0, lane], wide.columns[i, 0, lane]) == place
            assert (packed.rows[i // 2, i % 2, lane], packed.columns[i // 2, i % 2, lane]) == place


@pytest.mark.parametrize(
    "fragment",
    [
        fragments.wgmma_accumulator(40),
        fragments.wgmma_accumulator(40, "f16"),
        fragments.wgmma_a(1),
        fragments.wgmma_a(2),
        fragments.mma_a(16, 2),
        fragments.mma_b(32, 1),
        fragments.mma_accumulator(),
    ],
)
def test_fragments_hold_every_element_once(fragment):
    matrix = np.arange(np.prod(fragment.shape)).reshape(fragment.shape)
    elements = fragment.gather(matrix)
    assert sorted(elements.ravel()) == list(range(matrix.size))
    np.testing.assert_array_equal(fragment.scatter(elements), matrix)


@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix_lanes(matrices):
    """Rows at arbitrary places; memory holds (matrix, row, column) codes."""
    rng = np.random.default_rng(3)
    rows = rng.permutation(64)[:32] * 16
    memory = np.zeros(64 * 8, int)
    for lane in range(8 * matrices):
        for column in range(8):
            memory[rows[lane] // 2 + column] = 100 * (lane // 8) + 10 * (lane % 8) + column
    plain = memory[fragments.matrix_access(matrices).addresses(rows) // 2]
    trans = memory[fragments.matrix_access(matrices, trans=True).addresses(rows) // 2]
    for i in range(matrices):
        for lane in range(32):
            for e in range(2):
                row, column = lane // 4, 2 * (lane % 4) + e
                assert plain[i, e, lane] == 100 * i + 10 * row + column
                assert trans[i, e, lane] == 100 * i + 10 * column + row


def test_stmatrix_x4_stores_the_accumulator():
    """The epilogue form: lane l passes row l & 15, chunk l >> 4; 16 columns per instruction."""
    tile = np.arange(16 * 16).reshape(16, 16)
    registers = fragments.wgmma_accumulator(16, "f16").gather(np.tile(tile, (4, 1)))[:, :, :32]
    lane = np.arange(32)
    addresses = (lane & 15) * 32 + (lane >> 4) * 16
    memory = np.full(256, -1)
    memory[fragments.matrix_access(4).addresses(addresses) // 2] = registers
    np.testing.assert_array_equal(memory.reshape(16, 16), tile)
