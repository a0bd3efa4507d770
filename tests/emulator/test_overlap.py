"""A grid that starts before the one in front of it ends (programmatic stream serialisation)."""

from __future__ import annotations

from dataclasses import replace

from emulator import mini, one_kernel
from kgen.emu import Launch, emulate

WAIT = "    griddepcontrol.wait;\n"
BODY = """
    ld.global.u64 %rd5, [%rd0];
    add.u64 %rd5, %rd5, 1;
    st.global.u64 [%rd0], %rd5;
"""
SCHEDULES = ("early", "late", "random:1")


def kinds(text: str, launch: Launch) -> set[str]:
    """Kinds of the findings under every schedule of this file."""
    return {f.kind for f in emulate(text, launch, SCHEDULES, 200_000).findings}


def overlapping(launch: Launch, *constant: str) -> Launch:
    arrays = tuple(replace(a, constant=a.name in constant) for a in launch.arrays)
    return replace(launch, arrays=arrays, overlaps_previous=True)


def test_reads_and_writes_before_the_wait():
    launch = overlapping(one_kernel.launch())
    assert kinds(one_kernel.text(WAIT + BODY), launch) == set()
    assert kinds(one_kernel.text(BODY), launch) == {"missing-grid-wait"}
    assert kinds(one_kernel.text(BODY), one_kernel.launch()) == set()
    store = "    st.global.u64 [%rd0], %rd1;\n"
    assert kinds(one_kernel.text(store + WAIT), launch) == {"missing-grid-wait"}
    only_launches = one_kernel.text("    griddepcontrol.launch_dependents;\n" + BODY)
    assert kinds(only_launches, launch) == {"missing-grid-wait"}


def test_constant_arrays_may_be_read_before():
    load = "    ld.global.u64 %rd5, [%rd0];\n"
    launch = one_kernel.launch()
    assert kinds(one_kernel.text(load), overlapping(launch)) == {"missing-grid-wait"}
    assert kinds(one_kernel.text(load), overlapping(launch, "out")) == set()


def test_a_flag_of_the_grid_before_is_memory_too():
    load = "    ld.acquire.gpu.global.u64 %rd5, [%rd0];\n"
    assert kinds(one_kernel.text(load), overlapping(one_kernel.launch())) == {"missing-grid-wait"}


def test_one_warp_waits_for_all():
    """The wait of one warp reaches the others through a barrier, and not without it."""
    one = "    setp.lt.u32 %p1, %r0, 32;\n    @%p1 griddepcontrol.wait;\n"
    launch = overlapping(one_kernel.launch(64))
    assert kinds(one_kernel.text(one + "    bar.sync 0;\n" + BODY), launch) == set()
    assert kinds(one_kernel.text(one + BODY), launch) == {"missing-grid-wait"}


def test_tma_loads_and_stores():
    """The producer must wait before it loads. The consumers' store is ordered behind the loads,
    and with them behind the producer's wait.
    """
    launch = overlapping(mini.launch())
    assert kinds(mini.PTX, launch) == {"missing-grid-wait"}
    for label in ("INITIALISED:\n", "PRODUCER:\n"):
        assert kinds(mini.broken((label, label + WAIT)), launch) == set()
    late = mini.broken(("DONE:\n", f"DONE:\n{WAIT}"))
    assert kinds(late, launch) == {"missing-grid-wait"}


def test_the_findings_name_the_arrays():
    weights = overlapping(mini.launch(), "b")
    report = emulate(mini.PTX, weights, ("early",), 200_000)
    touched = sorted(f.text.split(",")[0] for f in report.findings)
    assert touched == ["reads a", "writes d"], str(report)
