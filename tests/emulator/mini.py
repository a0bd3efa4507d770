"""A small warp-specialised GEMM in PTX, right as it stands, and ways to break it.

D[64, 8] f32 = A[64, K] bf16 x B[8, K]^T bf16. Four consumer warps (one warpgroup) and a producer
warp share a ring of two stages; the result is staged in shared memory and leaves by a TMA store.
"""

from __future__ import annotations

import numpy as np

from kgen.emu import Launch, Report, emulate
from kgen.emu.launch import Array, Integers, Scalar, bits_of, values_of
from kgen.emu.tensormap import TensorMap

STAGE_BYTES = 9216  # A 64 x 128 bytes, B 8 x 128 bytes
SHARED_BYTES = 24576  # two stages, D at 18432, four mbarriers at 20480, the rest unused

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];

.visible .entry mini(
    .param .align 64 .b8 map_a[128],
    .param .align 64 .b8 map_b[128],
    .param .align 64 .b8 map_d[128],
    .param .u32 steps
)
.maxntid 160
{
    .reg .pred %p<12>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<20>;
    .reg .f32 %f<4>;
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffffffff;
    mov.u32 %r3, smem;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra INITIALISED;
    mbarrier.init.shared::cta.b64 [%r3+20480], 1;
    mbarrier.init.shared::cta.b64 [%r3+20488], 1;
    mbarrier.init.shared::cta.b64 [%r3+20496], 4;
    mbarrier.init.shared::cta.b64 [%r3+20504], 4;
    fence.mbarrier_init.release.cluster;
INITIALISED:
    bar.sync 0;
    ld.param.u32 %r4, [steps];
    and.b32 %r13, %r0, 31;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    setp.eq.u32 %p1, %r2, 4;
    @%p1 bra PRODUCER;
CONSUME:
    shl.b32 %r8, %r6, 3;
    add.u32 %r9, %r3, %r8;
WAIT_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r9+20480], %r7;
    @!%p2 bra WAIT_FULL;
    mul.lo.u32 %r10, %r6, 9216;
    add.u32 %r11, %r3, %r10;
    and.b32 %r12, %r11, 0x3FFFF;
    shr.u32 %r12, %r12, 4;
    cvt.u64.u32 %rd1, %r12;
    or.b64 %rd2, %rd1, 0x4000004000010000;
    add.u64 %rd3, %rd2, 512;
    setp.ne.u32 %p3, %r5, 0;
    setp.eq.u32 %p4, %r5, %r5;
    add.u64 %rd4, %rd2, 2;
    add.u64 %rd5, %rd3, 2;
    add.u64 %rd6, %rd2, 4;
    add.u64 %rd7, %rd3, 4;
    add.u64 %rd8, %rd2, 6;
    add.u64 %rd9, %rd3, 6;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd2, %rd3, %p3, 1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd4, %rd5, %p4, 1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd6, %rd7, %p4, 1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd8, %rd9, %p4, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    setp.ne.u32 %p5, %r13, 0;
    @%p5 bra RELEASED;
    mbarrier.arrive.shared::cta.b64 _, [%r9+20496];
RELEASED:
    add.u32 %r5, %r5, 1;
    xor.b32 %r6, %r6, 1;
    setp.eq.u32 %p6, %r6, 0;
    selp.u32 %r14, 1, 0, %p6;
    xor.b32 %r7, %r7, %r14;
    setp.lt.u32 %p6, %r5, %r4;
    @%p6 bra CONSUME;
    shr.u32 %r15, %r13, 2;
    and.b32 %r16, %r13, 3;
    mad.lo.u32 %r17, %r1, 16, %r15;
    shl.b32 %r17, %r17, 5;
    shl.b32 %r16, %r16, 3;
    add.u32 %r18, %r3, %r17;
    add.u32 %r18, %r18, %r16;
    st.shared.v2.f32 [%r18+18432], {%f0, %f1};
    st.shared.v2.f32 [%r18+18688], {%f2, %f3};
    fence.proxy.async.shared::cta;
    bar.sync 1, 128;
    setp.ne.u32 %p7, %r0, 0;
    @%p7 bra DONE;
    mov.b64 %rd10, map_d;
    mov.u32 %r19, 0;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd10, {%r19, %r19}], [%r3+18432];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    bra DONE;
PRODUCER:
    elect.sync _|%p8, 0xffffffff;
    @!%p8 bra DONE;
    mov.b64 %rd11, map_a;
    mov.b64 %rd12, map_b;
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
PRODUCE:
    shl.b32 %r8, %r6, 3;
    add.u32 %r9, %r3, %r8;
    xor.b32 %r22, %r7, 1;
WAIT_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r9+20496], %r22;
    @!%p9 bra WAIT_EMPTY;
    mul.lo.u32 %r10, %r6, 9216;
    add.u32 %r11, %r3, %r10;
    add.u32 %r12, %r11, 8192;
    add.u32 %r23, %r9, 20480;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r23], 9216;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r11], [%rd11, {%r20, %r21}], [%r23];
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%rd12, {%r20, %r21}], [%r23];
    add.u32 %r20, %r20, 64;
    add.u32 %r5, %r5, 1;
    xor.b32 %r6, %r6, 1;
    setp.eq.u32 %p10, %r6, 0;
    selp.u32 %r14, 1, 0, %p10;
    xor.b32 %r7, %r7, %r14;
    setp.lt.u32 %p11, %r5, %r4;
    @%p11 bra PRODUCE;
DONE:
    ret;
}
"""  # noqa: E501 - one instruction, one line


def launch(k: int = 384, threads: int = 160) -> Launch:
    """The launch for one K; 384 is six steps, so the ring wraps twice."""
    arrays = (
        Array("a", "bf16", (64, k), Integers(-3, 3, 1), role="in"),
        Array("b", "bf16", (8, k), Integers(-3, 3, 2), role="in"),
        Array("d", "f32", (64, 8), role="out"),
    )
    maps = (
        TensorMap("bf16", "a", (k, 64), (2 * k,), (64, 64), swizzle=128),
        TensorMap("bf16", "b", (k, 8), (2 * k,), (64, 8), swizzle=128),
        TensorMap("f32", "d", (8, 64), (32,), (8, 64)),
    )
    return Launch(
        "mini",
        (1, 1, 1),
        (threads, 1, 1),
        arrays,
        (*maps, Scalar("u32", -(-k // 64))),
        dynamic_shared_bytes=SHARED_BYTES,
    )


def expected(k: int = 384) -> np.ndarray:
    """Bits of D."""
    a, b, _ = launch(k).arrays
    product = values_of(a.contents(), "bf16") @ values_of(b.contents(), "bf16").T
    return bits_of(product, "f32")


def broken(*changes: tuple[str, str]) -> str:
    """The kernel with pieces of text replaced; every piece must be there."""
    text = PTX
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def kinds(text: str, *schedules: str, k: int = 384) -> set[str]:
    """Kinds of the findings on a kernel."""
    return {finding.kind for finding in run(text, *schedules, k=k).findings}


def run(text: str, *schedules: str, k: int = 384) -> Report:
    return emulate(
        text, launch(k), schedules or ("early", "late", "latestore", "random:1"), 200_000
    )
