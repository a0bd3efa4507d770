"""Plans field by field: loads, descriptors, K steps, tensor maps, constants and statuses.

Descriptor values: PTX ISA, wgmma matrix descriptor; bits 16-29 leading and 32-45 stride byte offset
in units of 16, bits 62-63 the swizzle (1 = 128, 2 = 64, 3 = 32 bytes). One pattern is 8 rows.
"""

from __future__ import annotations

import pytest

SWIZZLE = "producer: warp\n  swizzle_bytes: "
A_M = {"a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}"}
B_N = {"b: {dtype: f16, major: k}": "b: {dtype: f16, major: n}"}
SMALL = {
    "m: 256": "m: 128",
    "n: 256, k": "n: 128, k",
    "consumers: 4": "consumers: 2",
    "stages: 3": "stages: 2",
}


def loads(rows) -> list[tuple[object, ...]]:
    """(slab, offset in elements, row or column, k) of each load."""
    return [(x.slab, x.offset, x.mn_offset, x.k_offset) for x in rows]


def descriptor(bits: str) -> dict[str, int]:
    value = int(bits, 16)
    assert value & 0x3FFF == 0, "the start address is added at run time"
    return {
        "leading": (value >> 16 & 0x3FFF) * 16,
        "stride": (value >> 32 & 0x3FFF) * 16,
        "base": value >> 49 & 7,
        "swizzle": value >> 62,
    }


# --- order of the loads ---------------------------------------------------------------------------


def test_the_order_of_v6_loads_slab_1_last(plan_of):
    plan = plan_of({"producer: warp": "producer: warp\n  a_order: [0, 2, 3, 1]"})
    assert loads(plan.producer.a_loads) == [
        (0, 0, 0, 0),
        (2, 0, 128, 0),
        (3, 0, 192, 0),
        (1, 0, 64, 0),
    ]
    assert loads(plan.producer.b_loads) == [(None, 0, 0, 0)]


def test_slabs_are_loaded_in_order_unless_the_spec_says_otherwise(plan_of):
    plan = plan_of()
    assert [x.slab for x in plan.producer.a_loads] == [0, 1, 2, 3]
    plan = plan_of({"producer: warp": "producer: warp\n  a_order: [3, 1, 0, 2]"})
    assert [x.slab for x in plan.producer.a_loads] == [3, 1, 0, 2]


def test_a_k_tile_of_two_swizzle_rows_is_loaded_in_two_panels(plan_of):
    plan = plan_of({**SMALL, "k: 64": "k: 128"})
    assert loads(plan.producer.a_loads) == [
        (0, 0, 0, 0),
        (0, 4096, 0, 64),  # 64 rows x 64 elements further
        (1, 0, 64, 0),
        (1, 4096, 64, 64),
    ]
    assert loads(plan.producer.b_loads) == [(None, 0, 0, 0), (None, 8192, 0, 64)]
    assert [(s.a, s.b) for s in plan.consumer.k_steps] == [
        (0, 0),
        (2, 2),
        (4, 4),
        (6, 6),
        (512, 1024),  # 8192 and 16384 bytes in units of 16
        (514, 1026),
        (516, 1028),
        (518, 1030),
    ]


def test_a_narrow_swizzle_splits_the_k_tile_into_boxes(plan_of):
    plan = plan_of({"producer: warp": SWIZZLE + "64"})
    assert loads(plan.producer.a_loads)[:2] == [(0, 0, 0, 0), (0, 2048, 0, 32)]
    assert loads(plan.producer.b_loads) == [(None, 0, 0, 0), (None, 8192, 0, 32)]
    assert len(plan.producer.a_loads) == 8
    assert [(s.a, s.b) for s in plan.consumer.k_steps] == [
        (0, 0),
        (2, 2),
        (256, 1024),  # 64 and 256 rows of 64 bytes
        (258, 1026),
    ]


def test_mn_major_operands_are_loaded_in_boxes_of_one_swizzle_row(plan_of):
    plan = plan_of({**A_M, **B_N})
    assert loads(plan.producer.a_loads) == [
        (0, 0, 0, 0),
        (1, 0, 64, 0),
        (2, 0, 128, 0),
        (3, 0, 192, 0),
    ]
    assert loads(plan.producer.b_loads) == [
        (None, 0, 0, 0),
        (None, 4096, 64, 0),  # 64 columns x 64 K elements
        (None, 8192, 128, 0),
        (None, 12288, 192, 0),
    ]
    assert not any(x.k_is_inner for x in (*plan.producer.a_loads, *plan.producer.b_loads))
    assert all(x.k_is_inner for x in plan_of().producer.a_loads)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {**SMALL, "k: 64": "k: 128"},
        {"producer: warp": SWIZZLE + "32"},
        {**A_M, **B_N},
        {**A_M, **B_N, "producer: warp": SWIZZLE + "64"},
    ],
)
def test_the_loads_of_a_stage_bring_the_bytes_that_full_expects(plan_of, changes):
    plan = plan_of(changes)
    a, b, _ = plan.budget.boxes
    landed = len(plan.producer.a_loads) * a.bytes + len(plan.producer.b_loads) * b.bytes
    full = next(x for x in plan.budget.barriers if x.name == "full")
    assert landed == full.tx_bytes == plan.constant("kStageBytes")


# --- descriptors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swizzle", "bits", "stride", "code"),
    [
        (128, "0x4000004000010000", 1024, 1),
        (64, "0x8000002000010000", 512, 2),
        (32, "0xc000001000010000", 256, 3),
    ],
)
def test_k_major_descriptors(plan_of, swizzle, bits, stride, code):
    a, b = (x.descriptor for x in plan_of({"producer: warp": SWIZZLE + str(swizzle)}).layouts)
    assert a.bits == b.bits == bits
    assert descriptor(bits) == {"leading": 16, "stride": stride, "base": 0, "swizzle": code}
    assert a.note == (f"K-major, {swizzle}-byte swizzle, stride {stride} bytes (8 rows)")


# Leading: step between neighbouring boxes, 64 K rows x swizzle bytes. Advance: 16 K rows.
@pytest.mark.parametrize(
    ("swizzle", "leading", "stride", "code", "advance", "b_boxes"),
    [
        (128, 8192, 1024, 1, 2048, 4),
        (64, 4096, 512, 2, 1024, 8),
        (32, 2048, 256, 3, 512, 16),
    ],
)
def test_mn_major_descriptors(plan_of, swizzle, leading, stride, code, advance, b_boxes):
    plan = plan_of({**A_M, **B_N, "producer: warp": SWIZZLE + str(swizzle)})
    expected = {"leading": leading, "stride": stride, "base": 0, "swizzle": code}
    assert descriptor(plan.layouts[0].descriptor.bits) == expected
    assert descriptor(plan.layouts[1].descriptor.bits) == expected
    assert [16 * s.a for s in plan.consumer.k_steps] == [0, advance, 2 * advance, 3 * advance]
    assert [16 * s.b for s in plan.consumer.k_steps] == [0, advance, 2 * advance, 3 * advance]
    assert len(plan.producer.b_loads) == b_boxes
    assert plan.layouts[1].descriptor.note == (
        f"N-major, {swizzle}-byte swizzle, stride {stride} bytes (8 of K), "
        f"leading {leading} bytes (next box)"
    )


@pytest.mark.parametrize(
    ("k", "swizzle", "steps"),
    [(16, 32, [0]), (32, 64, [0, 2]), (64, 128, [0, 2, 4, 6]), (48, 32, [0, 128, 256])],
)
def test_k_steps_walk_the_swizzled_row_then_the_next_panel(plan_of, k, swizzle, steps):
    plan = plan_of({"k: 64": f"k: {k}", "stages: 3": "stages: 2"})
    assert plan.budget.swizzle_bytes == swizzle
    assert [s.a for s in plan.consumer.k_steps] == steps


@pytest.mark.parametrize(
    ("changes", "trans"), [({}, (0, 0)), (A_M, (1, 0)), (B_N, (0, 1)), ({**A_M, **B_N}, (1, 1))]
)
def test_trans_flags_are_per_operand(plan_of, changes, trans):
    mma = plan_of(changes).mma
    assert mma.immediates == (1, 1, *trans)


# --- the MMA --------------------------------------------------------------------------------------


def test_the_f16_mma(plan_of):
    mma = plan_of().mma
    assert mma.instruction == "wgmma.mma_async.sync.aligned.m64n256k16.f16.f16.f16"
    assert (mma.registers, mma.register_type, mma.constraint) == (64, "uint32_t", "r")
    assert mma.operand_rows[0] == (0, 1, 2, 3, 4, 5, 6, 7)
    assert mma.operand_rows[-1] == (56, 57, 58, 59, 60, 61, 62, 63)
    assert mma.register_rows[-1] == (60, 61, 62, 63)
    assert (mma.a_operand, mma.b_operand) == (64, 65)


def test_the_bf16_mma_with_f32_accumulators(plan_of, f32):
    plan = plan_of(
        {
            **f32,
            "a: {dtype: f16": "a: {dtype: bf16",
            "b: {dtype: f16": "b: {dtype: bf16",
            "d: {dtype: f16": "d: {dtype: bf16",
        }
    )
    mma = plan.mma
    assert mma.instruction == "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
    assert (mma.registers, mma.register_type, mma.constraint) == (128, "float", "f")
    assert (plan.consumer.store.converts, plan.consumer.slabs[0].out) == ("pack_bf16x2", "out")
    assert plan.map_a.dtype.tensor_map == "BFLOAT16"


def test_an_f16_accumulator_is_d_as_it_is(plan_of):
    consumer = plan_of().consumer
    assert (consumer.store.converts, consumer.slabs[0].out) == (None, "acc")


def test_f32_may_be_stored_as_either_16_bit_type(plan_of, f32):
    mixed = plan_of({**f32, "d: {dtype: f16": "d: {dtype: bf16"})
    assert mixed.consumer.store.converts == "pack_bf16x2"
    assert (mixed.map_a.dtype.name, mixed.map_d.dtype.name) == ("f16", "bf16")


# --- maps, constants, problem, statuses -----------------------------------------------------------


def maps(plan) -> list[tuple[object, ...]]:
    return [
        (m.pointer, m.inner, m.outer, m.ld, m.box, m.swizzle_bytes, m.promotion_name)
        for m in plan.maps
    ]


def test_tensor_maps_of_v6(plan_of):
    assert maps(plan_of()) == [
        ("a", "k", "m", "lda", (64, 64), 128, "L2_128B"),
        ("b", "k", "n", "ldb", (64, 256), 128, "L2_128B"),
        ("d", "n", "m", "ldd", (64, 64), 128, "L2_128B"),
    ]


def test_tensor_maps_of_transposed_operands(plan_of):
    plan = plan_of({**A_M, **B_N, "promotion_bytes: 128": "promotion_bytes: 0"})
    assert maps(plan) == [
        ("a", "m", "k", "lda", (64, 64), 128, "NONE"),
        ("b", "n", "k", "ldb", (64, 64), 128, "NONE"),
        ("d", "n", "m", "ldd", (64, 64), 128, "NONE"),
    ]
    assert plan.interface[0] == (
        "A as [K,M], B as [K,N], D[M,N] row-major; D overlaps neither. Leading dimensions in "
        "elements."
    )


def test_constants_of_v6(plan_of):
    assert {c.name: c.value for c in plan_of().constants} == {
        "kTileM": 256,
        "kTileN": 256,
        "kTileK": 64,
        "kConsumers": 4,
        "kSlabM": 64,
        "kStages": 3,
        "kStageBytes": 65536,
        "kAccRegisters": 64,
        "kOutRegisters": 64,
        "kStoreBoxN": 64,
        "kStoreBoxes": 4,
        "kStoreBuffers": 1,
        "kRasterGroup": 8,
        "kWarpgroup": 128,
        "kThreads": 544,
        "kSmemBytes": 230400,
    }


def test_limits_of_a_launch(plan_of):
    plan = plan_of()
    assert plan.extent_limit == 2**31 - 1 - 512
    assert plan.max_tiles == 2**31 - 1
    assert plan.map_a.max_ld == 2**39  # 2^40 bytes of 16-bit elements
    assert plan.map_a.multiple == 8
    assert plan.compute_capability == (9, 0)


def test_the_header_states_the_limits_of_f16_accumulation(plan_of, f32):
    assert plan_of().interface[-1] == (
        "f16 accumulation: partial sums overflow at 65504 and lose increments below 1 from 2048 on."
    )
    assert not any("65504" in row for row in plan_of(f32).interface)


def test_statuses_of_v6_are_numbered_in_the_order_of_the_checks(plan_of):
    assert [(s.value, s.name) for s in plan_of().statuses] == [
        (0, "ok"),
        (1, "m_out_of_range"),
        (2, "n_out_of_range"),
        (3, "k_out_of_range"),
        (4, "too_many_tiles"),
        (5, "a_null"),
        (6, "a_unaligned"),
        (7, "lda_too_small"),
        (8, "lda_unaligned"),
        (9, "lda_too_large"),
        (10, "b_null"),
        (11, "b_unaligned"),
        (12, "ldb_too_small"),
        (13, "ldb_unaligned"),
        (14, "ldb_too_large"),
        (15, "d_null"),
        (16, "d_unaligned"),
        (17, "ldd_too_small"),
        (18, "d_not_on_device"),
        (19, "wrong_device"),
        (20, "driver_too_old"),
        (21, "tensor_map_refused"),
        (22, "cuda_error"),
    ]


def test_status_texts_name_the_rule(plan_of):
    texts = {s.name: s.text for s in plan_of(A_M).statuses}
    assert texts["m_out_of_range"] == "m must be 0 to 2147483135"
    assert texts["a_unaligned"] == "a must be 16-byte aligned (TMA base address)"
    assert texts["lda_too_small"] == "lda must be at least m, the contiguous extent"
    assert texts["ldb_too_small"] == "ldb must be at least k, the contiguous extent"
    assert texts["lda_unaligned"] == "lda must be a multiple of 8 elements, 16 bytes (TMA stride)"
    assert texts["d_unaligned"] == "d must be aligned to its element, 2 bytes"
