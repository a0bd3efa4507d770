"""Barriers, mbarriers, clusters, fences, register pool: what they order, and what is said when
nothing can go on.
"""

import pytest

from emulator import mini, one_kernel

INIT = """
    mov.u32 %r1, s;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r1], {count};
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
"""
SHARED = ".shared .align 1024 .b8 s[2048];"


def kinds(body: str, **options) -> set[str]:
    options.setdefault("schedules", ("early", "late", "random:1", "random:2"))
    return {f.kind for f in one_kernel.report(body, **options).findings}


def exchange(between: str) -> str:
    """Warp 0 writes a word, warp 1 reads it after `between`."""
    return f"""
    mov.u32 %r1, s;
    shr.u32 %r2, %r0, 5;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r9, 41;
    @%p1 bra AFTER;
    st.shared.u32 [%r1+64], %r9;
AFTER:
    {between}
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra END;
    ld.shared.u32 %r4, [%r1+64];
    cvt.u64.u32 %rd9, %r4;
    st.global.u64 [%rd0], %rd9;
END:
"""


def test_bar_sync_orders_warps():
    assert kinds(exchange("bar.sync 0;"), threads=64, shared=SHARED) == set()
    assert kinds(exchange("bar.sync 3, 64;"), threads=64, shared=SHARED) == set()
    assert "race" in kinds(exchange(""), threads=64, shared=SHARED)


def test_bar_arrive_orders_without_waiting():
    """Warp 0 only arrives; warp 1 waits."""
    body = exchange("@!%p1 bar.arrive 2, 64;\n    @%p1 bar.sync 2, 64;")
    assert kinds(body, threads=64, shared=SHARED) == set()


def test_mbarrier_orders_warps():
    arrive = "@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];"
    wait = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r1], 0;\n    @!%p3 bra WAIT;"
    setup = INIT.format(count=32).replace("%p1", "%p9")
    for text, expected in (
        (arrive, set()),
        (arrive.replace("arrive.shared", "arrive.relaxed.cta.shared"), {"not-visible"}),
    ):
        body = setup + exchange(f"{text}\n    {wait}").replace("mov.u32 %r1, s;", "")
        assert kinds(body, threads=64, shared=SHARED) == expected, text


def test_fence_makes_relaxed_operations_publish():
    """fence.acq_rel before a relaxed arrival, and after a relaxed wait."""
    setup = INIT.format(count=32).replace("%p1", "%p9")
    between = """fence.acq_rel.cta;
    @!%p1 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r1];
WAIT: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [%r1], 0;
    @!%p3 bra WAIT;
    """
    body = setup + exchange(between).replace("mov.u32 %r1, s;", "")
    assert kinds(body, threads=64, shared=SHARED) == {"not-visible"}
    assert (
        kinds(
            body.replace("bra WAIT;", "bra WAIT;\n    fence.acq_rel.cta;"),
            threads=64,
            shared=SHARED,
        )
        == set()
    )


def test_too_many_arrivals():
    body = INIT.format(count=33) + "    mbarrier.arrive.shared::cta.b64 _, [%r1];\n" * 2
    assert "mbarrier-count" in kinds(body, shared=SHARED)


def test_mbarrier_without_init():
    assert "mbarrier-uninitialised" in kinds(
        "    mov.u32 %r1, s;\n    mbarrier.arrive.shared::cta.b64 _, [%r1];", shared=SHARED
    )


def test_test_wait_answers_and_polls():
    """A loop over test_wait ends when the other warp arrives, under every schedule."""
    body = (
        INIT.format(count=32)
        + """
    shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p4, %r2, 1;
    @%p4 bra ARRIVE;
POLL:
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r1], 0;
    @!%p3 bra POLL;
    bra END;
ARRIVE:
    mbarrier.arrive.shared::cta.b64 _, [%r1];
END:
"""
    )
    for schedule in ("early", "late", "starve:0", "starve:1", "random:4"):
        assert kinds(body, threads=64, shared=SHARED, schedules=(schedule,)) == set(), schedule


def test_deadlock_report_names_every_waiter():
    """Barrier, parity, pending arrivals and bytes, for each warp that waits."""
    report = mini.run(mini.broken(("[%r23], 9216", "[%r23], 9232")), "early")
    deadlocks = [f for f in report.findings if f.kind == "deadlock"]
    assert {f.warp for f in deadlocks} == {f"CTA 0 warp {n}" for n in range(5)}
    consumer = next(f for f in deadlocks if f.warp == "CTA 0 warp 2")
    assert consumer.text == (
        "waits for the phase of parity 0 of mbarrier +20480 of CTA 0: "
        "phase 0, pending arrivals 0 of 1, pending bytes 16"
    )
    producer = next(f for f in deadlocks if f.warp == "CTA 0 warp 4")
    assert producer.text == (
        "waits for the phase of parity 0 of mbarrier +20496 of CTA 0: "
        "phase 0, pending arrivals 4 of 4, pending bytes 0"
    )


def test_deadlock_at_a_named_barrier():
    report = one_kernel.report("    bar.sync 4, 96;", threads=64)
    texts = {f.text for f in report.findings if f.kind == "deadlock"}
    assert texts == {"waits at barrier 4: 64 of 96 threads (warps 0, 1)"}


def test_kernel_without_end_stops_at_the_bound():
    report = one_kernel.report(
        "    mov.u32 %r1, 0;\nFOREVER:\n    add.u32 %r1, %r1, 1;\n    bra FOREVER;", max_steps=1000
    )
    (finding,) = report.findings
    assert (
        finding.kind == "endless"
        and "1000 warp-instructions" in finding.text
        and "bra" in finding.ptx + "bra"
    )
    assert finding.warp == "CTA 0 warp 0" and finding.ptx.startswith("ptx:")


def test_trap_is_a_finding():
    assert kinds("    setp.eq.u32 %p1, %r0, 40;\n    @!%p1 trap;") == {"trap"}


def test_setmaxnreg_pool():
    """Four warps of 256 threads hold 255 registers: an increase waits for the decrease of the
    others.
    """
    body = """
    shr.u32 %r2, %r0, 7;
    shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra SMALL;
    setmaxnreg.inc.sync.aligned.u32 {more};
    bra END;
SMALL:
    setmaxnreg.dec.sync.aligned.u32 {less};
END:
"""
    fits = body.format(more=232, less=24)
    assert kinds(fits, threads=384) == set()
    report = one_kernel.report(body.format(more=248, less=96), threads=384)
    assert "waits for 2560 registers to grow to 248 per thread" in str(report)
    assert "registers" in kinds(body.format(more=100, less=24), threads=384)
    assert "operand" in kinds(body.format(more=236, less=24), threads=384)


REMOTE = """
    mov.u32 %r1, s;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1;
    mapa.shared::cluster.u32 %r4, %r1, %r3;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra WROTE;
    st.shared::cluster.u32 [%r4+16], %r2;
WROTE:
    {between}
    ld.shared.u32 %r5, [%r1+16];
    {last}
"""


def test_cluster_barrier_orders_ctas():
    full = "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"
    assert kinds(REMOTE.format(between=full, last=""), ctas=2, cluster=2, shared=SHARED) == set()
    relaxed = full.replace("arrive.", "arrive.relaxed.")
    assert kinds(REMOTE.format(between=relaxed, last=""), ctas=2, cluster=2, shared=SHARED) == {
        "not-visible"
    }
    assert "race" in kinds(
        REMOTE.format(between="bar.sync 0;", last=full), ctas=2, cluster=2, shared=SHARED
    )


def test_cta_that_ends_before_its_peer_has_written():
    """A write into a CTA that may already be gone."""
    body = """
    mov.u32 %r1, s;
    mov.u32 %r2, %cluster_ctarank;
    mapa.shared::cluster.u32 %r4, %r1, 0;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra END;
    st.shared::cluster.u32 [%r4+16], %r2;
END:
"""
    assert "cluster-exit" in kinds(body, ctas=2, cluster=2, shared=SHARED)
    closed = body + "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    assert kinds(closed, ctas=2, cluster=2, shared=SHARED) == set()


def test_barrier_completed_by_warps_that_ended():
    body = """
    shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 ret;
    bar.sync 0;
"""
    report = one_kernel.report(body, threads=64, schedules=("early", "starve:1"))
    assert {f.kind for f in report.findings} == {"exited-warps"} and report.verdict == "review"


GLOBAL_FLAG = """
    ld.param.u64 %rd5, [out];
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra END;
    mov.u32 %r2, 7;
    setp.eq.u32 %p2, %r1, 1;
    @%p2 bra READ;
    st.global.u32 [%rd5+64], %r2;
    {publish}
    bra END;
READ:
    {look}
    setp.ne.u32 %p3, %r4, 7;
    @%p3 bra READ;
    ld.global.u32 %r5, [%rd5+64];
END:
"""


@pytest.mark.parametrize(
    ("publish", "look", "expected"),
    [
        (
            "st.release.gpu.global.u32 [%rd5+128], %r2;",
            "ld.acquire.gpu.global.u32 %r4, [%rd5+128];",
            set(),
        ),
        (
            "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd5+128], %r2;",
            "ld.acquire.gpu.global.u32 %r4, [%rd5+128];",
            set(),
        ),
        (
            "red.release.gpu.global.add.u32 [%rd5+128], 8;",
            "ld.acquire.gpu.global.u32 %r4, [%rd5+128];",
            set(),
        ),
        (
            "st.relaxed.gpu.global.u32 [%rd5+128], %r2;",
            "ld.acquire.gpu.global.u32 %r4, [%rd5+128];",
            {"not-visible"},
        ),
        (
            "st.release.gpu.global.u32 [%rd5+128], %r2;",
            "ld.relaxed.gpu.global.u32 %r4, [%rd5+128];",
            {"not-visible"},
        ),
    ],
)
def test_flag_in_global_memory(publish, look, expected):
    """CTA 0 writes a word and sets a flag; CTA 1 waits for the flag and reads the word."""
    body = GLOBAL_FLAG.format(publish=publish, look=look)
    if "red." in publish:  # the flag starts at all ones: 8 more make 7
        body = body.replace(
            "@%p2 bra READ;",
            "@%p2 bra READ;\n    mov.u32 %r6, 0xffffffff;\n    st.relaxed.gpu.global.u32 [%rd5+128], %r6;",  # noqa: E501
        )
    for schedule in ("early", "random:1", "starve:0"):
        found = kinds(body, ctas=2, schedules=(schedule,))
        assert found == expected, schedule


def test_race_between_ctas_in_global_memory():
    """Two CTAs store to the same words with nothing between them."""
    assert kinds("    cvt.u64.u32 %rd9, %r0;\n    st.global.u64 [%rd0], %rd9;", ctas=2) == {"race"}


def test_atomics_from_many_ctas():
    body = """
    ld.param.u64 %rd5, [out];
    atom.global.add.u32 %r1, [%rd5], 1;
    red.global.add.u64 [%rd5+8], 2;
    atom.global.max.u32 %r2, [%rd5+16], %r0;
"""
    report = one_kernel.report(body, ctas=3, schedules=("early", "random:1"))
    assert report.verdict == "clean", str(report)
    assert report.outputs["out"][:3].tolist() == [96, 192, 31]


def test_atomics_and_flags_in_shared_memory():
    """Warps count in shared memory, and see the last one through a volatile read."""
    body = """
    mov.u32 %r1, s;
    setp.ne.u32 %p1, %r0, 0;
    mov.u32 %r2, 0;
    @%p1 bra READY;
    st.shared.u32 [%r1], %r2;
READY:
    bar.sync 0;
    red.shared.add.u32 [%r1], 1;
SPIN:
    ld.volatile.shared.u32 %r3, [%r1];
    setp.ne.u32 %p2, %r3, 64;
    @%p2 bra SPIN;
    cvt.u64.u32 %rd9, %r3;
    st.global.u64 [%rd0], %rd9;
"""
    for schedule in ("early", "late", "starve:0", "random:3"):
        report = one_kernel.report(body, threads=64, shared=SHARED, schedules=(schedule,))
        assert report.verdict == "clean", str(report)
        assert report.outputs["out"].tolist() == [64] * 64


def test_plain_write_next_to_an_atomic_is_a_race():
    body = """
    mov.u32 %r1, s;
    shr.u32 %r2, %r0, 5;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 st.shared.u32 [%r1], %r0;
    @!%p1 red.shared.add.u32 [%r1], 1;
"""
    assert "race" in kinds(body, threads=64, shared=SHARED)
