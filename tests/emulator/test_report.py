"""Verdicts, coverage over several cases, JSON and the timeline."""

import json
from xml.etree import ElementTree

from emulator import mini, one_kernel
from kgen.emu import emulate, judge
from kgen.emu.picture import svg
from kgen.emu.report import Coverage, Finding, worst
from kgen.emu.timeline import chrome_trace


def test_worst_level_decides():
    assert worst([]) == "clean"
    assert worst(["review", "clean"]) == "review"
    assert worst(["review", "incomplete"]) == "incomplete"
    assert worst(["review", "incomplete", "error"]) == "error"


def test_one_case_does_not_cover_a_ring():
    """K of three tiles: the ring of two wraps once. Six tiles in another case do the rest."""
    short = emulate(mini.PTX, mini.launch(192), ("early", "late"))
    judged = judge([short])
    assert short.verdict == "clean" and judged.verdict == "incomplete"
    assert any(gap.startswith("ring mbarrier +20480: 2 phases") for gap in judged.gaps)
    long = emulate(mini.PTX, mini.launch(384), ("early", "late"))
    assert judge([short, long]).verdict == "clean", judge([short, long]).gaps


def test_rings_can_be_declared():
    report = emulate(mini.PTX, mini.launch(64), ("early", "late"))
    assert not [gap for gap in report.coverage.gaps() if "ring" in gap]
    assert "ring mbarrier +20480: 1 phases" in " ".join(report.coverage.gaps({20480, 20488}))
    assert "mbarrier +20488 never completed a phase" in report.coverage.gaps()


def test_code_that_no_case_reaches_is_named():
    text = one_kernel.text(
        "    setp.eq.u32 %p1, %r0, 99;\n    @!%p1 bra END;\n    add.u32 %r1, %r0, 1;\n    add.u32 %r1, %r0, 2;\nEND:\n"  # noqa: E501
    )
    judged = judge([emulate(text, one_kernel.launch(), ("early",))])
    assert judged.verdict == "incomplete"
    assert [gap.split()[-1] for gap in judged.gaps] == ["add.u32", "add.u32"]
    reached = judge([emulate(text, one_kernel.launch(128), ("early",))])
    assert reached.verdict == "clean"


def test_the_long_way_of_a_64_bit_division_is_exempt():
    """Compilers divide in 32 bits where the operands fit, and keep a block for the rest."""
    body = """
    mov.u64 %rd5, 1000;
    shr.u64 %rd6, %rd5, 32;
    setp.eq.u64 %p1, %rd6, 0;
    @%p1 bra SHORT;
    rem.u64 %rd7, %rd5, 7;
    bra JOIN;
SHORT:
    cvt.u32.u64 %r1, %rd5;
    rem.u32 %r2, %r1, 7;
    cvt.u64.u32 %rd7, %r2;
JOIN:
    st.global.u64 [%rd0], %rd7;
"""
    report = one_kernel.report(body)
    assert report.outputs["out"].tolist() == [6] * 32 and not report.coverage.missing
    more = one_kernel.report(body.replace("    rem.u64", "    add.u64 %rd5, %rd5, 1;\n    rem.u64"))
    assert len(more.coverage.missing) == 3


def test_the_long_way_may_compute_its_operands_again():
    """Behind the test of the upper halves; other work there counts."""
    body = """
    mov.u64 %rd5, 999;
    add.u64 %rd6, %rd5, 1;
    and.b64 %rd7, %rd6, -4294967296;
    setp.eq.s64 %p1, %rd7, 0;
    @%p1 bra SHORT;
    add.u64 %rd6, %rd5, 1;
    rem.u64 %rd7, %rd6, 7;
    bra JOIN;
SHORT:
    cvt.u32.u64 %r1, %rd6;
    rem.u32 %r2, %r1, 7;
    cvt.u64.u32 %rd7, %r2;
JOIN:
    st.global.u64 [%rd0], %rd7;
"""
    report = one_kernel.report(body)
    assert report.outputs["out"].tolist() == [6] * 32 and not report.coverage.missing
    stores = body.replace("    rem.u64", "    st.global.u64 [%rd0], %rd6;\n    rem.u64")
    assert len(one_kernel.report(stores).coverage.missing) == 4
    another = body.replace("-4294967296", "-2147483648")
    assert len(one_kernel.report(another).coverage.missing) == 3


def test_code_that_only_leads_to_a_trap_is_exempt():
    body = "    setp.ne.u32 %p1, %r0, 99;\n    @%p1 bra END;\n    add.u32 %r1, %r0, 1;\n    trap;\nEND:\n"  # noqa: E501
    assert judge([one_kernel.report(body)]).verdict == "clean"


def test_a_jump_alone_is_exempt_and_what_it_leads_to_is_not():
    body = """
    setp.ne.u32 %p1, %r0, 99;
    @%p1 bra DO;
    bra.uni END;
DO:
    add.u32 %r1, %r0, 1;
END:
"""
    assert judge([one_kernel.report(body)]).verdict == "clean"
    judged = judge([one_kernel.report(body.replace("setp.ne", "setp.eq"))])
    assert [gap.split()[-1] for gap in judged.gaps] == ["add.u32"]


def test_coverage_is_a_union():
    first = Coverage(4, {0, 1}, {8: 1})
    first.merge(Coverage(4, {0, 2}, {8: 3, 16: 0}))
    assert first.missing == [3]
    assert first.gaps() == ["never executed: 3", "mbarrier +16 never completed a phase"]


def test_json_holds_everything_a_reader_needs():
    report = mini.run(mini.broken(("fence.proxy.async.shared::cta;", "")), "early", "late")
    data = json.loads(report.to_json())
    assert data["verdict"] == "error" and data["note"] == "emulated, not run on hardware"
    assert data["schedules"] == ["early", "late"]
    assert {"kind", "line", "ptx", "warp", "bytes", "other", "count"} <= set(data["findings"][0])
    assert data["coverage"]["mbarrier_phases"] == {"20480": 3, "20488": 3, "20496": 3, "20504": 3}


def test_text_of_a_finding():
    finding = Finding(
        "race",
        "error",
        "overwrites it",
        "a.cu:3",
        "ptx:9 st",
        "CTA 0 warp 1",
        "bytes",
        "CTA 0 warp 2",
        "late",
        3,
    )
    assert (
        str(finding)
        == "error: race: overwrites it [other: CTA 0 warp 2]: a.cu:3 ptx:9 st CTA 0 warp 1 bytes under late (x3)"  # noqa: E501
    )


def test_timeline_of_loads_products_and_waits():
    report = emulate(mini.PTX, mini.launch(), ("late",), timeline=True)
    trace = json.loads(chrome_trace(report.runs[0].timeline))["traceEvents"]
    spans = [event for event in trace if event["ph"] == "X"]
    names = {event["name"] for event in spans}
    assert {"TMA load", "TMA store", "wgmma"} <= names
    assert any(name.startswith("wait: waits for the phase of parity 0") for name in names)
    assert sum(event["name"] == "TMA load" for event in spans) == 12
    assert all(event["dur"] >= 1 for event in spans)
    labels = {e["args"]["name"] for e in trace if e["ph"] == "M"}
    assert {"TMA", "wgmma", "CTA 0", "warp 4: TMA load", "warp 0: TMA store, wgmma"} <= labels


def test_picture_of_a_timeline():
    """One row per warp and engine, one bar per span, well-formed XML."""
    events = emulate(mini.PTX, mini.launch(), ("late",), timeline=True).runs[0].timeline
    root = ElementTree.fromstring(svg(events))
    space = "{http://www.w3.org/2000/svg}"
    bars = [bar for bar in root.iter(f"{space}rect") if bar.find(f"{space}title") is not None]
    assert len(bars) == sum(event["ph"] == "X" for event in events)
    texts = {text.text for text in root.iter(f"{space}text")}
    assert {"CTA 0 warp 4: TMA load", "CTA 0 TMA", "CTA 0 wgmma"} <= texts


TICKETS = """
    ld.param.u64 %rd2, [out];
    atom.global.add.u32 %r1, [%rd2+4], 1;
    st.global.u32 [%rd0], %r1;
"""


def test_schedules_that_disagree_are_an_error():
    """Each thread stores its ticket: which warp comes first shows in the result."""
    report = one_kernel.report(TICKETS, threads=64, schedules=("early", "starve:0"))
    (finding,) = report.findings
    assert finding.kind == "schedules-disagree" and finding.level == "error"
    assert finding.text.startswith("out[0] is 0x0000004000000000 under early, 0x")
    assert finding.text.endswith("under starve:0; 64 elements differ")
    assert report.verdict == "error" and not report.outputs_agree
    assert json.loads(report.to_json())["verdict"] == "error"
    assert judge([report]).verdict == "error"
    assert one_kernel.report(TICKETS, threads=64).verdict == "clean"


def test_a_run_that_stopped_has_no_results_to_compare():
    report = one_kernel.report(TICKETS + "    trap;", 64, ("early", "starve:0"))
    assert {finding.kind for finding in report.findings} == {"trap"} and report.outputs_agree


def test_same_input_same_report():
    """Seeded schedules and findings are reproducible."""
    broken = mini.broken(("bar.sync 1, 128;", ""))
    texts = {str(mini.run(broken, "random:7", "random:8")) for _ in range(2)}
    assert len(texts) == 1
