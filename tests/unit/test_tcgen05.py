"""Legality and descriptor bits of tcgen05.mma.

Constants without a comment of their own are the ones that NVIDIA's own compiler emitted for the
same shapes (CuTe DSL 4.8.1, compiled without a device).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kgen.arch import ARCHS, SM_90A, SM_100A, SM_103A, SM_107A
from kgen.dtypes import dtype
from kgen.nearest import nearest_multiples
from kgen.scales import TILE_SCALES
from kgen.spec.rules.tcgen05 import ROW_BYTES
from kgen.tcgen05 import IllegalMma, MmaRequest, k_major, kind_of, mma_form, mn_major, scale_block
from kgen.tcgen05.forms import scale_id_bits
from kgen.tcgen05.kinds import KINDS, UE4M3_16, UE5M3_16, UE8M0_16, UE8M0_32

NVFP4 = MmaRequest("mxf4nvf4", 256, 256, 64, 2, "e2m1", "e2m1", scale=UE4M3_16)
MXFP4 = replace(NVFP4, kind="mxf4", scale=UE8M0_32)
MXFP8 = MmaRequest("mxf8f6f4", 256, 256, 64, 2, "e4m3", "e4m3", scale=UE8M0_32)
FP8 = MmaRequest("f8f6f4", 256, 256, 64, 2, "e4m3", "e4m3")
BF16 = MmaRequest("f16", 256, 256, 32, 2, "bf16", "bf16")
ONE = {"cta_group": 1, "m": 128, "n": 128}
E5M2 = {"a": "e5m2", "b": "e5m2"}


@pytest.mark.parametrize(
    ("arch", "request_", "k", "idesc"),
    [
        (SM_107A, NVFP4, 128, 0x10400488),
        (SM_107A, MXFP4, 128, 0x10C00488),
        (SM_107A, replace(NVFP4, scale=UE5M3_16), 128, 0x11400488),
        (SM_107A, replace(NVFP4, **ONE), 128, 0x08200488),
        (SM_100A, replace(NVFP4, k_bytes=32), 64, 0x10400480),
        (SM_107A, replace(NVFP4, k_bytes=32), 64, 0x10400480),
        (SM_100A, replace(MXFP4, k_bytes=32), 64, 0x10C00480),
        (SM_107A, MXFP8, 64, 0x90C00000),
        (SM_107A, replace(MXFP8, **ONE), 64, 0x88A00000),
        (SM_100A, replace(MXFP8, k_bytes=32), 32, 0x10C00000),
        (SM_103A, replace(MXFP8, k_bytes=32, **ONE), 32, 0x08A00000),
        (SM_107A, FP8, 64, 0x30400010),
        (SM_107A, replace(FP8, n=128, **E5M2), 64, 0x30200490),
        (SM_100A, replace(FP8, k_bytes=32), 32, 0x10400010),
        (SM_103A, replace(FP8, k_bytes=32), 32, 0x10400010),
        (SM_107A, replace(FP8, b_major="n"), 64, 0x30410010),
        (SM_100A, replace(FP8, k_bytes=32, b_major="n"), 32, 0x10410010),
        # By hand: D f32 at 4, A and B bf16 at 7 and 10, N 256 at 17, M 256 at 24.
        (SM_100A, BF16, 16, 1 << 4 | 1 << 7 | 1 << 10 | 32 << 17 | 16 << 24),
        (SM_100A, replace(BF16, **ONE), 16, 1 << 4 | 1 << 7 | 1 << 10 | 16 << 17 | 8 << 24),
        # f16 operands have code 0; an f16 accumulator has code 0.
        (
            SM_107A,
            replace(BF16, a="f16", b="f16", accumulator="f16"),
            16,
            32 << 17 | 16 << 24,
        ),
        # tf32 has code 2 in both fields.
        (
            SM_100A,
            MmaRequest("tf32", 128, 128, 32, 1, "tf32", "tf32"),
            8,
            1 << 4 | 2 << 7 | 2 << 10 | 16 << 17 | 8 << 24,
        ),
        # Mixed fp8 operands, and a block of 16 with power-of-two scales.
        (SM_100A, replace(FP8, k_bytes=32, b="e5m2"), 32, 0x10400010 | 1 << 10),
        (SM_100A, replace(NVFP4, k_bytes=32, scale=UE8M0_16), 64, 0x10C00480),
    ],
)  # fmt: skip
def test_k_and_descriptor(arch, request_, k, idesc):
    form = mma_form(arch, request_)
    assert (form.k, f"{form.idesc:#010x}") == (k, f"{idesc:#010x}")


@pytest.mark.parametrize("operand", ["a", "b"])
def test_major_bits(operand):
    plain = mma_form(SM_107A, FP8).idesc
    other = "m" if operand == "a" else "n"
    turned = mma_form(SM_107A, replace(FP8, **{f"{operand}_major": other})).idesc
    assert turned ^ plain == {"a": 1 << 15, "b": 1 << 16}[operand]


@pytest.mark.parametrize(
    ("kind", "bit"),
    [(FP8, 29), (MXFP8, 31), (MXFP4, 3), (NVFP4, 3)],
    ids=["fp8", "mxfp8", "mxfp4", "nvfp4"],
)
def test_the_wide_step_is_one_bit_and_another_one_per_kind(kind, bit):
    wide, narrow = mma_form(SM_107A, kind), mma_form(SM_107A, replace(kind, k_bytes=32))
    assert wide.idesc ^ narrow.idesc == 1 << bit
    assert wide.k == 2 * narrow.k


@pytest.mark.parametrize(
    ("request_", "scales", "words"),
    [
        (replace(NVFP4, k_bytes=32), 4, 1),
        (NVFP4, 8, 2),
        (replace(MXFP4, k_bytes=32), 2, 1),
        (MXFP4, 4, 1),
        (replace(MXFP8, k_bytes=32), 1, 1),
        (MXFP8, 2, 1),
        (FP8, 0, 0),
    ],
)
def test_scales_per_row_and_mma(request_, scales, words):
    form = mma_form(SM_107A, request_)
    assert (form.scales, form.scale_words) == (scales, words)


@pytest.mark.parametrize(
    ("request_", "mnemonic"),
    [
        (BF16, "tcgen05.mma.cta_group::2.kind::f16"),
        (NVFP4, "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16"),
        (replace(MXFP8, **ONE), "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32"),
    ],
)
def test_mnemonics(request_, mnemonic):
    form = mma_form(SM_107A, request_)
    assert form.mnemonic == mnemonic
    assert form.rows_per_cta == 128


@pytest.mark.parametrize(
    ("arch", "request_", "field", "what"),
    [
        (SM_90A, BF16, "target", "sm_90a has no tcgen05.mma"),
        (SM_100A, FP8, "k_bytes", "sm_100a has no 64-byte K step; sm_107a has"),
        (SM_103A, NVFP4, "k_bytes", "sm_103a has no 64-byte K step; sm_107a has"),
        (
            SM_107A,
            replace(BF16, k_bytes=64),
            "k_bytes",
            "f16 has no 64-byte K step; its K is always 16 (32 bytes)",
        ),
        (
            SM_107A,
            MmaRequest("tf32", 256, 256, 64, 2, "tf32", "tf32"),
            "k_bytes",
            "tf32 has no 64-byte K step; its K is always 8 (32 bytes)",
        ),
        (SM_107A, replace(FP8, k_bytes=48), "k_bytes", "48 bytes; an MMA takes 32 or 64 bytes"),
        (SM_107A, replace(FP8, accumulator="f16"), "accumulator", "not confirmed"),
        (SM_107A, replace(FP8, m=128), "m", "cta_group 2 takes 256 with a 64-byte K step"),
        (SM_107A, replace(FP8, **ONE | {"m": 64}), "m", "takes 128 with a 64-byte K step"),
        (SM_100A, replace(MXFP8, k_bytes=32, m=128), "m", "takes 256 with block scales"),
        (SM_100A, replace(BF16, m=64), "m", "64 rows; cta_group 2 takes 128 or 256"),
        (SM_100A, replace(BF16, n=272), "n", "must be a multiple of 32 up to 256"),
        (SM_100A, replace(BF16, n=16), "n", "must be a multiple of 32 up to 256"),
        (SM_100A, replace(BF16, **ONE | {"n": 24}), "n", "must be a multiple of 16 up to 256"),
        (
            SM_100A,
            replace(FP8, k_bytes=32, cta_group=1, m=64, n=24, b_major="n"),
            "n",
            "must be a multiple of 16 up to 256",
        ),
        (SM_100A, replace(BF16, cta_group=3), "cta_group", "3; an MMA runs on 1 CTA"),
        (SM_100A, replace(BF16, b="f16"), "b", "A is bf16, B is f16; kind f16 takes equal types"),
        (SM_100A, replace(BF16, accumulator="f16"), "accumulator", "f16 of bf16 does not"),
        (
            SM_100A,
            replace(BF16, a="e2m1"),
            "a",
            "e2m1 is no operand of kind f16, which takes f16 and bf16",
        ),
        (SM_100A, replace(FP8, k_bytes=32, a="e2m1"), "a", "e2m1 is no operand of kind f8f6f4"),
        (SM_107A, replace(MXFP8, b="e2m1"), "b", "e2m1 is no operand of kind mxf8f6f4"),
        (SM_107A, replace(NVFP4, a_major="m"), "a_major", "mxf4nvf4 operands must be K-major"),
        (SM_107A, replace(MXFP4, b_major="n"), "b_major", "mxf4 operands must be K-major"),
        (SM_107A, replace(MXFP8, scale=None), "scale", "needs a scale of ue8m0 per 32"),
        (SM_107A, replace(MXFP4, scale=UE4M3_16), "scale", "needs a scale of ue8m0 per 32"),
        (SM_107A, replace(FP8, scale=UE8M0_32), "scale", "f8f6f4 takes no block scales"),
        (
            SM_100A,
            replace(NVFP4, k_bytes=32, scale=UE5M3_16),
            "scale",
            "sm_100a has no ue5m3 scales",
        ),
        (SM_107A, replace(FP8, kind="i8"), "kind", "i8 is none of f16, tf32"),
    ],
)
def test_what_does_not_exist_is_refused_with_its_field(arch, request_, field, what):
    with pytest.raises(IllegalMma) as caught:
        mma_form(arch, request_)
    found = {f.field: f.what for f in caught.value.findings}
    assert what in found[field], found
    assert f"{field}: " in str(caught.value)


def test_every_finding_is_reported_at_once():
    with pytest.raises(IllegalMma) as caught:
        mma_form(SM_100A, replace(NVFP4, m=64, n=20, a_major="m"))
    assert [f.field for f in caught.value.findings] == ["a_major", "k_bytes", "m", "n"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda k: k.name)
@pytest.mark.parametrize("k_bytes", [32, 64])
@pytest.mark.parametrize("cta_group", [1, 2])
def test_no_two_legal_forms_share_a_descriptor_and_reserved_bits_stay_clear(
    kind, k_bytes, cta_group
):
    """Over every M, N, type and target: the bits tell the forms apart, and never touch a hole."""
    seen: dict[int, tuple] = {}
    for arch in ARCHS.values():
        for a in kind.codes:
            for scale in kind.scales or (None,):
                for m in (64, 128, 256):
                    for n in range(8, 265, 8):
                        asked = MmaRequest(kind.name, m, n, k_bytes, cta_group, a, a, "f32", scale)
                        try:
                            form = mma_form(arch, asked)
                        except IllegalMma:
                            continue
                        told = (m, n, a, scale)
                        assert seen.setdefault(form.idesc, told) == told
                        assert form.idesc < 1 << 32
                        # Sparsity, saturation (K bit of fp4), negation, and what no form sets.
                        holes = 0b111 | 1 << 6 | 0b11 << 13
                        if kind.is_scaled:
                            holes |= 0b11 << 4 | 0b11 << 25 | 0b11 << 29
                        assert not form.idesc & holes
                        assert form.idesc >> 17 & 63 == n // 8
    legal = k_bytes == 32 or kind.wide_bit is not None
    assert bool(seen) == legal


def test_scale_ids_are_the_bits_the_descriptor_keeps_for_them():
    assert scale_id_bits(0, 0) == 0
    assert scale_id_bits(3, 0) == 0x60000000
    assert scale_id_bits(0, 3) == 0x30


@pytest.mark.parametrize(
    ("a", "scale", "kind"),
    [
        ("bf16", None, "f16"),
        ("f16", None, "f16"),
        ("tf32", None, "tf32"),
        ("e4m3", None, "f8f6f4"),
        ("e5m2", UE8M0_32, "mxf8f6f4"),
        ("e2m1", UE8M0_32, "mxf4"),
        ("e2m1", UE4M3_16, "mxf4nvf4"),
        ("e2m1", None, None),
        ("bf16", UE8M0_32, None),
        ("s8", None, None),
    ],
)
def test_the_kind_follows_from_types_and_scales(a, scale, kind):
    found = kind_of(a, scale)
    assert (found.name if found else None) == kind


# --- shared-memory descriptors


def test_descriptor_constants():
    assert f"{k_major(128).bits:#018x}" == "0x4000404000010000"
    assert f"{scale_block().bits:#018x}" == "0x0000400800010000"


@pytest.mark.parametrize(
    ("swizzle", "code", "stride"), [(128, 2, 1024), (64, 4, 512), (32, 6, 256)]
)
def test_k_major_fields(swizzle, code, stride):
    """By the field table: version 1 at 46, swizzle at 61, 8 rows of the swizzle width as stride."""
    bits = k_major(swizzle).bits
    assert bits >> 61 == code
    assert bits >> 46 & 7 == 1
    assert (bits >> 32 & 0x3FFF) * 16 == stride
    assert bits & 0x7FFF == 0 and bits >> 49 & 0xFFF == 0


def test_mn_major_fields():
    """The leading offset steps over a chunk of the swizzle width: here 64 K rows of 128 bytes."""
    bits = mn_major(128, 64 * 128).bits
    assert (bits >> 16 & 0x3FFF) * 16 == 64 * 128
    assert (bits >> 32 & 0x3FFF) * 16 == 1024


# --- targets


def test_limits_of_the_targets():
    """Published limits: 227 KiB, and 327 KiB in the oversized mode; 512 and 576 columns."""
    rows = {
        a.target: (a.smem_per_cta, a.smem_oversized_per_cta, a.tmem_columns, a.minimum_cuda)
        for a in ARCHS.values()
    }
    assert rows == {
        "sm_90a": (227 * 1024, 0, 0, (12, 5)),
        "sm_100a": (227 * 1024, 0, 512, (12, 8)),
        "sm_103a": (227 * 1024, 0, 512, (12, 9)),
        "sm_107a": (227 * 1024, 327 * 1024, 512, (13, 4)),
    }
    assert {a.target: a.tmem_exclusive_columns for a in ARCHS.values()} == {
        "sm_90a": 0, "sm_100a": 0, "sm_103a": 0, "sm_107a": 576,
    }  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda a: a.target)
def test_a_descriptor_reaches_all_of_shared_memory(arch):
    """The start address field, in units of 16 bytes, must cover the largest CTA."""
    largest = max(arch.smem_per_cta, arch.smem_oversized_per_cta)
    assert largest <= 16 << arch.descriptor_address_bits


@pytest.mark.parametrize(
    ("value", "step", "largest", "words"),
    [
        (200, 64, None, "the nearest are 192 and 256"),
        (40, 64, None, "the nearest is 64"),
        (0, 64, None, "the nearest is 64"),
        (300, 128, 256, "the nearest is 256"),
        (200, 128, 256, "the nearest are 128 and 256"),
        (1000, 48, 256, "the nearest is 240"),
    ],
)
def test_the_nearest_legal_values(value, step, largest, words):
    """On either side, never none and never beyond the largest."""
    assert nearest_multiples(value, step, largest) == words


def test_a_row_of_every_scaled_type_holds_whole_groups_of_scales():
    """So a stage, which is cut in rows of 128 bytes, never ends inside four scales."""
    for kind in KINDS.values():
        for name, scale in itertools.product(kind.codes, kind.scales):
            assert dtype(name).elements_in(ROW_BYTES) % (TILE_SCALES * scale.block) == 0
