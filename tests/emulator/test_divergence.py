"""Lanes that part and meet again, and the instructions that exchange values between them."""

from dataclasses import replace

import numpy as np

from emulator import one_kernel
from kgen.emu import emulate


def out(register: str) -> str:
    return f"    cvt.u64.u32 %rd9, {register};\n    st.global.u64 [%rd0], %rd9;\n"


def test_if_else():
    body = """
    setp.lt.u32 %p1, %r0, 10;
    @%p1 bra LOW;
    mul.lo.u32 %r1, %r0, 3;
    bra JOIN;
LOW:
    add.u32 %r1, %r0, 100;
JOIN:
"""
    found = one_kernel.values(body + out("%r1"))
    assert found.tolist() == [t + 100 if t < 10 else 3 * t for t in range(32)]


def test_loop_with_a_different_count_in_each_lane():
    body = """
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
LOOP:
    add.u32 %r1, %r1, %r2;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r0;
    @%p1 bra LOOP;
"""
    assert one_kernel.values(body + out("%r1")).tolist() == [t * (t + 1) // 2 for t in range(32)]


def test_nested_branches_and_early_return():
    """Odd lanes below 16 leave; the others go on, and a vote sees who is left."""
    body = """
    mov.u32 %r5, 7;
    setp.ge.u32 %p1, %r0, 16;
    @%p1 bra JOIN;
    and.b32 %r1, %r0, 1;
    setp.eq.u32 %p2, %r1, 1;
    @%p2 ret;
    mov.u32 %r5, 9;
JOIN:
    activemask.b32 %r2;
    mad.lo.u32 %r3, %r5, 0, %r2;
"""
    found = one_kernel.values(body + out("%r3"))
    alive = [t for t in range(32) if t >= 16 or t % 2 == 0]
    mask = sum(1 << t for t in alive)
    assert found.tolist() == [mask if t in alive else 0 for t in range(32)]


def test_guarded_instructions():
    body = """
    setp.lt.u32 %p1, %r0, 4;
    mov.u32 %r1, 5;
    @%p1 add.u32 %r1, %r1, %r0;
    @!%p1 mov.u32 %r1, 1;
    @%p1 mul.lo.u32 %r1, %r1, 2;
"""
    assert one_kernel.values(body + out("%r1")).tolist() == [
        2 * (5 + t) if t < 4 else 1 for t in range(32)
    ]


def test_branch_that_a_uniform_register_crosses():
    """A value set on one side only must not leak into the lanes of the other side."""
    body = """
    mov.u32 %r1, 1;
    setp.eq.u32 %p1, %r0, 3;
    @!%p1 bra OTHERS;
    mov.u32 %r1, 50;
OTHERS:
    add.u32 %r2, %r1, 1;
"""
    assert one_kernel.values(body + out("%r2")).tolist() == [51 if t == 3 else 2 for t in range(32)]


def test_shuffles():
    cases = {
        "idx.b32 %r1, %r0, 5, 31, -1": lambda t: 5,
        "up.b32 %r1, %r0, 3, 0, -1": lambda t: t - 3 if t >= 3 else t,
        "down.b32 %r1, %r0, 3, 31, -1": lambda t: t + 3 if t + 3 < 32 else t,
        "bfly.b32 %r1, %r0, 1, 31, -1": lambda t: t ^ 1,
        "idx.b32 %r1, %r0, 2, 0x181f, -1": lambda t: t // 8 * 8 + 2,
    }
    for text, expected in cases.items():
        found = one_kernel.values(f"    shfl.sync.{text};\n" + out("%r1"))
        assert found.tolist() == [expected(t) for t in range(32)], text


def test_votes_elect_and_redux():
    body = """
    setp.lt.u32 %p1, %r0, 4;
    vote.sync.ballot.b32 %r1, %p1, -1;
    vote.sync.any.pred %p2, %p1, -1;
    vote.sync.all.pred %p3, !%p1, -1;
    elect.sync %r2|%p4, -1;
    redux.sync.add.u32 %r3, %r0, -1;
    selp.u32 %r4, 256, 0, %p2;
    selp.u32 %r5, 512, 0, %p3;
    selp.u32 %r6, 1024, 0, %p4;
    add.u32 %r7, %r1, %r4;
    add.u32 %r7, %r7, %r5;
    add.u32 %r7, %r7, %r6;
    mad.lo.u32 %r7, %r3, 4096, %r7;
"""
    found = one_kernel.values(body + out("%r7"))
    assert found.tolist() == [15 + 256 + (1024 if t == 0 else 0) + 496 * 4096 for t in range(32)]


def test_partial_warp_at_an_aligned_instruction_is_for_review():
    body = """
    setp.lt.u32 %p1, %r0, 8;
    @!%p1 bra JOIN;
    bar.sync 0;
JOIN:
"""
    report = one_kernel.report(body + out("%r0"))
    assert [f.kind for f in report.findings] == ["partial-warp"] and report.verdict == "review"


def test_parked_lanes_do_not_hold_up_the_others():
    """Lane 0 waits for a flag that lane 1 of the same warp sets: both make progress."""
    body = """
    setp.eq.u32 %p1, %r0, 0;
    ld.param.u64 %rd5, [out];
    @!%p1 bra OTHERS;
WAIT:
    ld.acquire.gpu.global.u32 %r1, [%rd5+8];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra WAIT;
    bra END;
OTHERS:
    setp.eq.u32 %p3, %r0, 1;
    mov.u32 %r2, 6;
    @%p3 st.release.gpu.global.u32 [%rd5+8], %r2;
    bra END;
END:
"""
    report = one_kernel.report(body, schedules=("early", "late", "random:2"), max_steps=5000)
    assert report.verdict == "clean", str(report)
    assert int(report.outputs["out"][1]) == 6


def test_lanes_that_wait_for_parked_lanes_are_a_deadlock():
    """Lane 0 waits for an mbarrier that nobody completes, the others at an aligned instruction."""
    body = """
    mov.u32 %r1, s;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
    mbarrier.init.shared::cta.b64 [%r1], 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
    @!%p2 bra WAIT;
OTHERS:
    bar.sync 0;
"""
    for schedule in ("early", "late", "random:1"):
        report = one_kernel.report(
            body, shared=".shared .align 8 .b8 s[8];", schedules=(schedule,), max_steps=1000
        )
        texts = [f.text for f in report.findings if f.kind == "deadlock"]
        assert "waits for the other lanes of its warp" in texts, str(report)


def test_kernel_that_ends_without_ret():
    """Lanes that fall off the end one after the other."""
    body = "    setp.ne.u32 %p1, %r0, 0;\n    @%p1 bra END;\n    st.global.u32 [%rd0], %r0;\nEND:\n"
    text = one_kernel.text(body).replace("    ret;\n", "")
    report = emulate(text, one_kernel.launch(), ("early", "random:1"))
    assert report.verdict == "clean", str(report)


def test_block_of_three_dimensions():
    body = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %tid.y;
    mov.u32 %r3, %tid.z;
    mad.lo.u32 %r4, %r3, 3, %r2;
    mad.lo.u32 %r4, %r4, 4, %r1;
    ld.param.u64 %rd5, [out];
    mul.wide.u32 %rd6, %r4, 8;
    add.u64 %rd5, %rd5, %rd6;
    mad.lo.u32 %r5, %r3, 100, %r2;
    mad.lo.u32 %r5, %r5, 100, %r1;
    cvt.u64.u32 %rd9, %r5;
    st.global.u64 [%rd5], %rd9;
"""
    launch = replace(one_kernel.launch(24), block=(4, 3, 2))
    report = emulate(one_kernel.text(body), launch, ("early",))
    assert report.verdict == "clean", str(report)
    expected = [(z * 100 + y) * 100 + x for z in range(2) for y in range(3) for x in range(4)]
    assert np.array_equal(report.outputs["out"], expected)
