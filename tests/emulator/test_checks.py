"""Every check of the emulator: the kernel that triggers it, and the right kernel that does not."""

from dataclasses import replace

import numpy as np
import pytest

from emulator import mini
from kgen.emu import emulate

ALL = ("early", "late", "latestore", "random:1", "random:2", "starve")


@pytest.mark.parametrize("k", [64, 128, 192, 384, 200])
def test_right_kernel_is_clean_and_exact(k):
    """K shorter than the ring, not a multiple of the tile, and long enough to wrap."""
    report = mini.run(mini.PTX, *ALL, k=k)
    assert report.verdict == "clean", str(report)
    assert report.outputs_agree
    assert np.array_equal(report.outputs["d"], mini.expected(k))


FAULTS = {
    "no proxy fence before the store": (
        [("fence.proxy.async.shared::cta;", "")],
        "missing-proxy-fence",
    ),
    "no fence after mbarrier.init": (
        [("fence.mbarrier_init.release.cluster;", "")],
        "missing-init-fence",
    ),
    "no wgmma.fence": ([("wgmma.fence.sync.aligned;", "")], "missing-wgmma-fence"),
    "accumulators read in flight": (
        [("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;")],
        "accumulator-in-flight",
    ),
    "stage released while products read it": (
        [("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;")],
        "race",
    ),
    "producer starts with the other parity": (
        [("xor.b32 %r22, %r7, 1", "mov.u32 %r22, %r7")],
        "deadlock",
    ),
    "consumer waits for the other parity": (
        [
            ("[%r9+20480], %r7;", "[%r9+20480], %r22;"),
            ("mov.u32 %r7, 0;", "mov.u32 %r7, 0; mov.u32 %r22, 1;"),
        ],
        "race",
    ),
    "empty barrier expects too many": ([("[%r3+20496], 4", "[%r3+20496], 5")], "deadlock"),
    "empty barrier expects too few": ([("[%r3+20496], 4", "[%r3+20496], 2")], "deadlock"),
    "too few bytes expected": ([("[%r23], 9216", "[%r23], 8192")], "race"),
    "too many bytes expected": ([("[%r23], 9216", "[%r23], 9232")], "deadlock"),
    "producer does not wait for empty": (
        [
            (
                "mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r9+20496], %r22;",
                "setp.eq.u32 %p9, %r5, %r5;",
            )
        ],
        "race",
    ),
    "no barrier after init": ([("bar.sync 0;", "")], "race"),
    "no barrier before the store": ([("bar.sync 1, 128;", "")], "race"),
    "barrier of too few threads": ([("bar.sync 1, 128;", "bar.sync 1, 96;")], "race"),
    "barrier of too many threads": ([("bar.sync 1, 128;", "bar.sync 1, 160;")], "deadlock"),
    "descriptor with another swizzle": (
        [("0x4000004000010000", "0x8000004000010000")],
        "k-mismatch",
    ),
    "coordinates of A one tile late": (
        [("[%rd11, {%r20, %r21}]", "[%rd11, {%r5, %r21}]")],
        "k-mismatch",
    ),
    "one product missing": (
        [
            (
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd8, %rd9, %p4, 1, 1, 0, 0;",  # noqa: E501
                "",
            )
        ],
        "never-read",
    ),
    "store left out": (
        [
            (
                "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd10, {%r19, %r19}], [%r3+18432];",  # noqa: E501
                "",
            )
        ],
        "output-not-stored",
    ),
    "ended before the store has read": (
        [("cp.async.bulk.wait_group.read 0;", "")],
        "exit-in-flight",
    ),
    "load past shared memory": (
        [("add.u32 %r12, %r11, 8192;", "add.u32 %r12, %r11, 30720;")],
        "shared-bounds",
    ),
    "load to an odd address": (
        [("add.u32 %r12, %r11, 8192;", "add.u32 %r12, %r11, 8200;")],
        "alignment",
    ),
    "bytes nobody wrote": (
        [("[%r18+18688], {%f2, %f3}", "[%r18+18432], {%f2, %f3}")],
        "unwritten-read",
    ),
    "data over an mbarrier": (
        [("[%r18+18432], {%f0, %f1}", "[%r18+19456], {%f0, %f1}")],
        "mbarrier-overwritten",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    changes, kind = FAULTS[name]
    report = mini.run(mini.broken(*changes))
    assert kind in {finding.kind for finding in report.findings}, str(report)
    assert report.verdict == "error"


def test_finding_names_both_parties_bytes_and_line():
    """The proxy fence: found at the TMA store, with the warps that wrote."""
    report = mini.run(mini.broken(("fence.proxy.async.shared::cta;", "")), "early")
    finding = next(f for f in report.findings if f.kind == "missing-proxy-fence")
    assert "cp.async.bulk.tensor.2d.global" in finding.ptx
    assert finding.warp == "CTA 0 warp 0"
    assert finding.bytes == "shared bytes +18432..+20480"
    assert finding.other.startswith("CTA 0 warp ")


def test_line_of_the_cuda_source():
    """.loc and .file lead to the line of the .cu, and to the call that it was inlined at."""
    marked = mini.broken(
        (
            "    cp.async.bulk.tensor.2d.global",
            "    .loc 1 77 0, function_name $f, inlined_at 1 99 3\n    cp.async.bulk.tensor.2d.global",  # noqa: E501
        ),
        ("fence.proxy.async.shared::cta;", ""),
    )
    report = mini.run(marked + '.file 1 "/some/where/mini.cu"\n', "early")
    assert {f.line for f in report.findings} == {"mini.cu:77 (called at 99)"}


def test_order_is_not_visibility():
    """The two clocks: TMA completion orders its issuer before the reader, yet publishes none of the
    issuer's writes.

    The producer writes a word, then loads; consumers wait for the load only, and read the word.
    """
    word = "st.shared.u32 [%r3+18432], %r5;"
    read = "ld.shared.u32 %r30, [%r3+18432];"
    unpublished = mini.broken(
        ("    elect.sync _|%p8", f"    {word}\n    elect.sync _|%p8"),
        (
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r23]",
            "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%r23]",
        ),
        ("    shr.u32 %r15, %r13, 2;", f"    {read}\n    shr.u32 %r15, %r13, 2;"),
    )
    report = mini.run(unpublished, "early")
    found = {(f.kind, "ld.shared" in f.ptx) for f in report.findings}
    assert ("not-visible", True) in found, str(report)
    published = unpublished.replace("expect_tx.relaxed.cta", "expect_tx.release.cta")
    assert "not-visible" not in {f.kind for f in mini.run(published, "early").findings}


def test_phase_lag_is_found_in_any_schedule():
    """A sixth warp watches the first stage, and nobody waits for it: the ring may run two phases
    ahead.
    """
    lagging = mini.broken(
        (".maxntid 160", ".maxntid 192"),
        (
            "    @%p1 bra PRODUCER;",
            "    @%p1 bra PRODUCER;\n    setp.eq.u32 %p1, %r2, 5;\n    @%p1 bra WATCH;",
        ),
        (
            "PRODUCER:\n",
            "WATCH:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+20480], %r7;\n"
            "    @!%p2 bra WATCH;\n    bra DONE;\nPRODUCER:\n",
        ),
    )
    for schedule in ("early", "late", "random:3"):
        report = emulate(lagging, mini.launch(threads=192), (schedule,))
        assert "phase-lag" in {f.kind for f in report.findings}, schedule


def test_reused_staging_shows_in_the_result_only_under_latestore():
    """A race is reported by every schedule; the value goes wrong when the store reads late."""
    reused = mini.broken(
        (
            "    cp.async.bulk.wait_group.read 0;",
            "    st.shared.u32 [%r3+18432], %r5;\n    cp.async.bulk.wait_group.read 0;",
        ),
    )
    for schedule in ("early", "latestore"):
        report = mini.run(reused, schedule)
        assert "race" in {f.kind for f in report.findings}
        assert np.array_equal(report.outputs["d"], mini.expected()) == (schedule == "early")


def test_input_written():
    """A store into an array that the launch declares an input."""
    launch = mini.launch()
    arrays = (*launch.arrays[:2], replace(launch.arrays[2], role="in"))
    report = emulate(mini.PTX, replace(launch, arrays=arrays), ("early",))
    assert {f.kind for f in report.findings} == {"input-written"}


def test_store_between_rows():
    """Padding between the rows of D belongs to nobody."""
    padded = mini.launch()
    arrays = (*padded.arrays[:2], replace(padded.arrays[2], row_stride=12))
    wide = replace(padded.arguments[2], dims=(12, 64), strides=(48,))  # type: ignore[arg-type]
    narrow = replace(wide, dims=(8, 64))
    for tensor_map, kinds in ((narrow, set()), (replace(wide, box=(12, 64)), {"global-padding"})):
        arguments = (*padded.arguments[:2], tensor_map, padded.arguments[3])
        changed = replace(padded, arrays=arrays, arguments=arguments)
        report = emulate(mini.PTX, changed, ("early",))
        assert kinds <= {f.kind for f in report.findings}
        assert ("global-padding" in {f.kind for f in report.findings}) == bool(kinds)


def test_a_slow_warp_need_not_free_the_stage_itself():
    """Three of the four warps of a warpgroup free the stage. The fourth sleeps between its wgmma
    and its commit while the stage is loaded again: its share of the products was read before that.
    """
    slow = "    setp.eq.u32 %p9, %r2, 3;\n" + 60 * "    @%p9 nanosleep.u32 20;\n"
    commit = "    wgmma.commit_group.sync.aligned;\n"
    text = mini.broken(
        ("[%r3+20496], 4;", "[%r3+20496], 3;"),
        ("[%r3+20504], 4;", "[%r3+20504], 3;"),
        ("    @%p5 bra RELEASED;", "    setp.eq.or.u32 %p5, %r2, 3, %p5;\n    @%p5 bra RELEASED;"),
        (commit, slow + commit),
    )
    assert mini.kinds(text, *ALL, k=768) == set()
