"""TMA between CTAs and at the edges of tensors, bulk copies, reductions: what arrives, and what is found."""  # noqa: E501

from dataclasses import replace

import numpy as np
import pytest

from emulator import one_kernel
from kgen.emu import Launch, Report, emulate
from kgen.emu.launch import Array, Integers, Pointer
from kgen.emu.tensormap import TensorMap

SHARED = ".shared .align 1024 .b8 s[4096];"
PARAMS = ".param .align 64 .b8 map[128]"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
BEGIN = """
    mov.u32 %r1, s;
    add.u32 %r2, %r1, 2048;
    mov.b64 %rd4, map;
    mov.u32 %r5, {x};
    mov.u32 %r6, {y};
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
READY:
    {sync}
"""
WAIT = """
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
"""
READ = """
    mad.lo.u32 %r7, %r0, 4, %r1;
    ld.shared.u32 %r8, [%r7];
    cvt.u64.u32 %rd9, %r8;
"""
STORE = "    st.global.u64 [%rd0], %rd9;\n"
CLUSTER_SYNC = "barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;"


def launch(ctas: int = 1, rows: int = 4, columns: int = 8, role: str = "in") -> Launch:
    """One warp per CTA; `map` copies boxes of 4 x 8 words out of a tensor of rows x columns words."""  # noqa: E501
    source = Array("t", "u32", (rows, columns), Integers(1, 1000, 3), role=role)  # type: ignore[arg-type]
    tensor_map = TensorMap("u32", "t", (columns, rows), (4 * columns,), (8, 4))
    base = one_kernel.launch(32, ctas=ctas, cluster=ctas)
    return replace(base, arrays=(*base.arrays, source), arguments=(Pointer("out"), tensor_map))


def run(body: str, *schedules: str, **options) -> Report:
    text = one_kernel.text(body, params=PARAMS, shared=SHARED)
    return emulate(text, launch(**options), schedules or ("early", "late", "random:1"), 50_000)


def tensor(rows: int = 4, columns: int = 8) -> np.ndarray:
    return launch(1, rows, columns).array("t").contents()


LOAD_ONE = """
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    {load} [%r1], [%rd4, {{%r5, %r6}}], [%r2];
"""


@pytest.mark.parametrize(("x", "y"), [(0, 0), (-4, 0), (0, -2), (4, 3), (100, 100)])
def test_out_of_bounds_elements_are_zero_and_count(x, y):
    """The bytes expected are those of the whole box."""
    body = (
        BEGIN.format(x=x, y=y, sync="bar.sync 0;")
        + LOAD_ONE.format(load=LOAD)
        + WAIT
        + READ
        + STORE
    )
    report = run(body)
    assert report.verdict == "clean", str(report)
    padded = np.zeros((300, 300), np.uint32)
    padded[100:104, 100:108] = tensor()
    expected = padded[100 + y : 104 + y, 100 + x : 108 + x] if x < 100 else np.zeros((4, 8))
    assert np.array_equal(report.outputs["out"].reshape(4, 8), expected)


MULTICAST = """
    mov.u32 %r9, %cluster_ctarank;
    @%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    setp.ne.u32 %p3, %r9, 0;
    @%p3 bra WAIT;
    cvt.u16.u32 %h1, {mask};
    {load}.multicast::cluster [%r1], [%rd4, {{%r5, %r6}}], [%r2], %h1;
"""


def multicast(mask: str, sync: str = CLUSTER_SYNC, last: str = CLUSTER_SYNC) -> str:
    body = BEGIN.format(x=0, y=0, sync=sync) + f"    mov.u32 %r10, {mask};\n"
    body += MULTICAST.format(mask="%r10", load=LOAD) + WAIT + READ
    only_last = "    setp.eq.u32 %p4, %r9, 1;\n    @!%p4 bra END;\n" + STORE + "END:\n"
    return body + only_last + f"    {last}\n"


def test_multicast_reaches_every_cta_of_the_mask():
    """CTA 0 loads once; CTA 1 waits on its own mbarrier and finds the same bytes."""
    report = run(multicast("3"), ctas=2)
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs["out"].reshape(4, 8), tensor())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (multicast("1"), "deadlock"),  # CTA 1 is not in the mask
        (multicast("7"), "operand"),  # there is no CTA 2
        (multicast("3", sync="bar.sync 0;"), "race"),  # CTA 1 may not have initialised its mbarrier
    ],
)
def test_wrong_multicast(body, kind):
    kinds = {f.kind for f in run(body, ctas=2).findings}
    assert kind in kinds or (kind == "race" and "mbarrier-uninitialised" in kinds), kinds


def test_cta_that_does_not_wait_for_a_multicast_into_it():
    """CTA 1 ends at once, while the load of CTA 0 still writes its shared memory."""
    body = multicast("3", last="").replace(
        "    @%p1 bra WAIT;\n    mbarrier.arrive.expect",
        "    @%p1 bra LEAVE;\n    mbarrier.arrive.expect",
    )
    body = (
        body.replace("    @%p3 bra WAIT;", "    @%p3 bra LEAVE;").replace(WAIT + READ, WAIT + READ)
        + "LEAVE:\n"
    )
    assert "cluster-exit" in {f.kind for f in run(body, "late", ctas=2).findings}


REDUCE = """
    mad.lo.u32 %r7, %r0, 4, %r1;
    st.shared.u32 [%r7], %r0;
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    @%p1 bra END;
    {operation} [%rd4, {{%r5, %r6}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
"""


def test_reductions_of_many_ctas_add_up():
    """Five CTAs add their lane numbers; no order is needed between reductions."""
    operation = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
    body = BEGIN.format(x=0, y=0, sync="bar.sync 0;") + REDUCE.format(operation=operation)
    text = one_kernel.text(body, params=PARAMS, shared=SHARED)
    described = replace(launch(role="inout"), grid=(5, 1, 1))
    report = emulate(text, described, ("early", "latestore", "random:2"))
    assert report.verdict == "clean", str(report)
    expected = tensor().ravel() + 5 * np.arange(32, dtype=np.uint32)
    assert np.array_equal(report.outputs["t"].ravel(), expected)


def test_stores_of_two_ctas_to_one_box_are_a_race():
    operation = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    body = BEGIN.format(x=0, y=0, sync="bar.sync 0;") + REDUCE.format(operation=operation)
    text = one_kernel.text(body, params=PARAMS, shared=SHARED)
    report = emulate(text, replace(launch(role="inout"), grid=(2, 1, 1)), ("early",))
    assert {f.kind for f in report.findings} == {"race"}


def test_store_drops_what_is_out_of_bounds():
    operation = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    body = BEGIN.format(x=4, y=1, sync="bar.sync 0;") + REDUCE.format(operation=operation)
    report = run(body, role="inout")
    assert report.verdict == "clean", str(report)
    expected = tensor()
    expected[1:4, 4:8] = np.arange(32).reshape(4, 8)[0:3, 0:4]
    assert np.array_equal(report.outputs["t"], expected)


def test_store_past_the_end_of_rows_that_do_not_end_on_16_bytes():
    """Rows of 6 of the 8 words of a row in memory: words 6 and 7 are written as well."""
    operation = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    body = BEGIN.format(x=4, y=1, sync="bar.sync 0;") + REDUCE.format(operation=operation)
    whole = launch(role="inout")
    pointer, tensor_map = whole.arguments
    assert isinstance(tensor_map, TensorMap)
    ragged = replace(whole, arguments=(pointer, replace(tensor_map, dims=(6, 4))))
    report = emulate(one_kernel.text(body, params=PARAMS, shared=SHARED), ragged, ("early",))
    (finding,) = report.findings
    assert (finding.kind, finding.level) == ("store-past-extent", "error")
    assert "rows of 6 x 4 B = 24 B" in finding.text and "6 elements" in finding.text
    expected = tensor()
    expected[1:4, 4:8] = np.arange(32).reshape(4, 8)[0:3, 0:4]
    assert np.array_equal(report.outputs["t"], expected)


@pytest.mark.parametrize(
    ("operation", "x", "y"),
    [(LOAD, 3, 0), (LOAD, -1, 0), ("store", 2, 0), ("store", -4, 0), ("store", 0, -1)],
)
def test_coordinates_that_raise_an_illegal_instruction(operation, x, y):
    begin = BEGIN.format(x=x, y=y, sync="bar.sync 0;")
    if operation == "store":
        store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
        report = run(begin + REDUCE.format(operation=store), role="inout")
    else:
        report = run(begin + LOAD_ONE.format(load=LOAD) + WAIT + READ + STORE)
    assert {f.kind for f in report.findings} == {"tma-coordinate"}
    assert f"box of t at ({x}, {y}): coordinate {1 if y else 0} is" in report.findings[0].text


def test_bulk_copy_without_a_tensor_map():
    """Global to shared memory with an mbarrier, and back through a bulk group."""
    body = (
        BEGIN.format(x=0, y=0, sync="bar.sync 0;").replace(
            "mov.b64 %rd4, map;", "ld.param.u64 %rd4, [from];"
        )
        + "    @%p1 bra WAIT;\n    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;\n"
        + "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd4], 128, [%r2];\n"  # noqa: E501
        + WAIT
        + READ
        + STORE
    )
    text = one_kernel.text(body, params=".param .u64 from", shared=SHARED)
    described = replace(launch(), arguments=(Pointer("out"), Pointer("t")))
    report = emulate(text, described, ("early", "late"))
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs["out"], tensor().ravel())
