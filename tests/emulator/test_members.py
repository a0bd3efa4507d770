"""Lanes that part, where they come together again, and lanes that wait for one another by name."""

from __future__ import annotations

import pytest

from emulator import one_kernel
from emulator.test_divergence import out

SCHEDULES = ("early", "late", "random:2")
WORD = ".shared .align 8 .b8 s[8];"


def kinds(body: str, **options) -> set[str]:
    """Kinds of the findings under every schedule of this file."""
    report = one_kernel.report(body, schedules=SCHEDULES, max_steps=20_000, **options)
    return {finding.kind for finding in report.findings}


def texts(body: str, **options) -> str:
    return str(one_kernel.report(body, schedules=SCHEDULES, max_steps=20_000, **options))


LANE_0_COMES_LATE = """
    mov.u32 %r1, s;
    mov.u32 %r9, 0;
    setp.ne.u32 %p1, %r0, 0;
    ld.param.u64 %rd5, [out];
    setp.lt.u32 %p5, %r0, 32;
    @!%p5 bra OTHER_WARP;
    @%p1 bra MEET;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%rd5+8];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra WAIT;
    st.shared.u32 [%r1], 77;
MEET:
    bar.warp.sync -1;
    ld.shared.u32 %r9, [%r1];
    setp.eq.u32 %p4, %r0, 1;
    @%p4 bra DONE;
    cvt.u64.u32 %rd9, %r9;
    st.global.u64 [%rd0], %rd9;
    bra DONE;
OTHER_WARP:
    setp.ne.u32 %p3, %r0, 32;
    @%p3 bra DONE;
    mov.u32 %r3, 6;
    st.release.gpu.global.u32 [%rd5+8], %r3;
DONE:
"""


def test_named_lanes_wait_at_the_warp_barrier():
    """Lane 0 waits for a flag of another warp, then writes what all lanes read behind the
    barrier.
    """
    for schedule in SCHEDULES:
        report = one_kernel.report(
            LANE_0_COMES_LATE, 64, (schedule,), shared=WORD, max_steps=20_000
        )
        assert report.verdict == "clean", str(report)
        assert report.outputs["out"][2:32].tolist() == [77] * 30


def test_without_the_warp_barrier_the_others_do_not_wait():
    body = LANE_0_COMES_LATE.replace("    bar.warp.sync -1;\n", "")
    report = one_kernel.report(body, 64, ("early",), shared=WORD, max_steps=20_000)
    assert {f.kind for f in report.findings} == {"unwritten-read"}, str(report)


def test_an_aligned_instruction_waits_for_parked_lanes():
    """The other lanes pass the join without lane 0, run into a second round of the loop, and stop
    there at an instruction that all lanes execute together.
    """
    body = """
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    ld.param.u64 %rd5, [out];
    setp.lt.u32 %p5, %r0, 32;
    @!%p5 bra OTHER_WARP;
ROUND:
    bar.sync 1, 32;
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p1, %r6, 3;
    @%p1 bra DONE;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra ROUND;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%rd5+8];
    setp.eq.u32 %p3, %r2, 0;
    @%p3 bra WAIT;
    add.u32 %r7, %r7, %r2;
    bra ROUND;
OTHER_WARP:
    setp.ne.u32 %p4, %r0, 32;
    mov.u32 %r3, 6;
    @!%p4 st.release.gpu.global.u32 [%rd5+8], %r3;
    ret;
DONE:
    setp.eq.u32 %p6, %r0, 1;
    @%p6 ret;
"""
    for schedule in (*SCHEDULES, "starve:1"):
        report = one_kernel.report(body + out("%r7"), 64, (schedule,), max_steps=20_000)
        assert report.verdict == "clean", str(report)
        assert report.outputs["out"][:3].tolist() == [12, 6, 0]


def test_lanes_meet_at_a_join_that_lies_before_the_branch():
    """The compiler rotates loops: the join of a branch at the end of the body is the head, lower in
    the code. Lanes that jump there at once must wait for the one that is still in the body.
    """
    body = """
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
HEAD:
    bar.sync 0;
    add.u32 %r5, %r5, 1;
    setp.eq.u32 %p1, %r5, 4;
    @%p1 bra DONE;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra HEAD;
    add.u32 %r6, %r6, %r5;
    bra HEAD;
DONE:
"""
    found = one_kernel.values(body + out("%r6"), schedules=SCHEDULES)
    assert found.tolist() == [6 if t == 0 else 0 for t in range(32)]


def test_lanes_in_different_rounds_of_a_loop_stay_apart():
    """Lane 0 spins in round 0 until lane 1 has come to round 1. They meet at the loop's head with
    different counters, and each lane still makes its three rounds.
    """
    body = """
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    ld.param.u64 %rd5, [out];
ROUND:
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
WAIT:
    ld.acquire.gpu.global.u32 %r1, [%rd5+8];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra WAIT;
OTHERS:
    setp.ne.u32 %p3, %r0, 1;
    setp.ne.or.u32 %p3, %r5, 1, %p3;
    @%p3 bra NEXT;
    mov.u32 %r2, 5;
    st.release.gpu.global.u32 [%rd5+8], %r2;
NEXT:
    add.u32 %r5, %r5, 1;
    mad.lo.u32 %r6, %r5, %r5, %r6;
    setp.lt.u32 %p4, %r5, 3;
    @%p4 bra ROUND;
"""
    for schedule in SCHEDULES:
        report = one_kernel.report(body + out("%r6"), schedules=(schedule,), max_steps=20_000)
        assert report.verdict == "clean", str(report)
        assert report.outputs["out"].tolist() == [1 + 4 + 9] * 32


def test_warp_barriers_at_different_places_belong_together():
    """Mask and opcode count, not the place."""
    body = """
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
    mov.u32 %r1, 1;
    bar.warp.sync -1;
    bra JOIN;
OTHERS:
    mov.u32 %r1, 2;
    bar.warp.sync -1;
JOIN:
"""
    assert one_kernel.values(body + out("%r1")).tolist() == [1] + [2] * 31


@pytest.mark.parametrize(
    "instruction",
    [
        "shfl.sync.idx.b32 %r1, %r0, 3, 31, -1;",
        "vote.sync.ballot.b32 %r1, %p1, -1;",
        "redux.sync.add.u32 %r1, %r0, -1;",
        "match.any.sync.b32 %r1, %r0, -1;",
        "elect.sync %r1|%p3, -1;",
    ],
)
def test_exchange_between_different_places_is_not_modelled(instruction):
    body = f"""
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
    {instruction}
    bra JOIN;
OTHERS:
    {instruction}
JOIN:
"""
    assert kinds(body) == {"unmodelled"}


def test_exchange_waits_for_lanes_that_are_elsewhere():
    """Lane 0 takes a longer way that ends in a spin; the sum is over all lanes."""
    body = """
    ld.param.u64 %rd5, [out];
    mov.u32 %r1, %r0;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
WAIT:
    ld.acquire.gpu.global.u32 %r2, [%rd5+8];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra WAIT;
    mov.u32 %r1, 1000;
    bra SUM;
OTHERS:
    setp.eq.u32 %p3, %r0, 1;
    mov.u32 %r3, 6;
    @%p3 st.release.gpu.global.u32 [%rd5+8], %r3;
SUM:
    redux.sync.add.u32 %r4, %r1, -1;
"""
    for schedule in SCHEDULES:
        report = one_kernel.report(body + out("%r4"), schedules=(schedule,), max_steps=20_000)
        assert report.verdict == "clean", str(report)
        assert report.outputs["out"].tolist() == [496 + 1000] * 32


def test_a_guard_parts_the_lanes_that_wait():
    """Lane 0 skips the barrier that names all lanes, and reaches the next one: the same mask."""
    body = """
    setp.ne.u32 %p1, %r0, 0;
    mov.u32 %r1, 0;
    @%p1 bar.warp.sync -1;
    add.u32 %r1, %r1, 1;
    @!%p1 bar.warp.sync -1;
    add.u32 %r1, %r1, 1;
"""
    assert one_kernel.values(body + out("%r1")).tolist() == [2] * 32


def test_lanes_that_never_come_are_a_deadlock():
    body = """
    mov.u32 %r1, s;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OTHERS;
    mbarrier.init.shared::cta.b64 [%r1], 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
    @!%p2 bra WAIT;
OTHERS:
    bar.warp.sync -1;
"""
    assert kinds(body, shared=WORD) == {"deadlock"}
    assert "lanes 0xfffffffe wait at bar.warp.sync" in texts(body, shared=WORD)


def test_lanes_that_have_ended_are_not_waited_for():
    """The exchanges speak of lanes that have not exited; the barrier promises nothing."""
    body = """
    setp.eq.u32 %p1, %r0, 0;
    @%p1 bra LEAVE;
    redux.sync.add.u32 %r4, %r0, -1;
    {more}
    cvt.u64.u32 %rd9, %r4;
    st.global.u64 [%rd0], %rd9;
    bra END;
LEAVE:
    ret;
END:
"""
    found = one_kernel.values(body.format(more=""))
    assert found.tolist() == [0] + [496] * 31
    assert kinds(body.format(more="bar.warp.sync -1;")) == {"exited-warps"}


def test_a_lane_outside_its_own_mask():
    assert kinds("    bar.warp.sync 0xffff;\n") == {"operand"}


def test_a_mask_of_its_own_in_each_lane():
    """Groups of lanes with equal values, as match.any finds them, add up separately."""
    body = """
    shr.u32 %r1, %r0, 3;
    match.any.sync.b32 %r2, %r1, -1;
    redux.sync.add.u32 %r3, %r0, %r2;
    setp.gt.u32 %p1, %r0, 9;
    vote.sync.ballot.b32 %r4, %p1, %r2;
    bar.warp.sync %r2;
    shl.b32 %r4, %r4, 8;
    xor.b32 %r3, %r3, %r4;
"""
    groups = [[t for t in range(32) if t // 8 == g] for g in range(4)]
    expected = [
        sum(groups[t // 8]) ^ (sum(1 << x for x in groups[t // 8] if x > 9) << 8) & 0xFFFFFFFF
        for t in range(32)
    ]
    assert one_kernel.values(body + out("%r3")).tolist() == expected


def test_the_first_lane_that_is_left_speaks_for_the_others():
    """An operand that one value stands for is not read from a lane that has returned."""
    body = """
    setp.eq.u32 %p1, %r0, 0;
    selp.u32 %r1, 99, 1, %p1;
    @%p1 ret;
    bar.sync %r1;
"""
    assert kinds(body) == set()
