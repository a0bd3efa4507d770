"""A small persistent kernel as rendered: clean where right, found out where a part is missing.

`make long` runs all mutants of the same kernel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.api import build, load_spec, lower
from kgen.emu import emulate
from kgen.verify.emulator import expected, launch_of
from kgen.verify.problem import tile_of
from kgen.verify.shapes import several_turns

SPEC = Path(__file__).parent.parent / "persistent.yaml"


@pytest.fixture(scope="module")
def kernel():
    """The PTX, and the launch of three cluster tiles on two clusters, one K tile each."""
    plan = lower(load_spec(SPEC))
    ptx = build(plan, emit="ptx", line_info=True).data.decode()
    shape = next(s for s in several_turns(tile_of(plan)) if s.k == tile_of(plan).k)
    return ptx, launch_of(plan, shape, registers=build(plan).resources[0].registers), plan


def test_right_as_rendered(kernel):
    ptx, launch, plan = kernel
    report = emulate(ptx, launch, ("early", "random:3"))
    assert report.verdict == "clean", str(report)
    assert (report.outputs["d"] == expected(plan, launch)).all()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("griddepcontrol.wait;", "missing-grid-wait"),  # the host says that launches overlap
        ("mbarrier.arrive.shared::cluster.b64", "deadlock"),  # a stage is freed in both CTAs
    ],
)
def test_a_missing_part_is_found(kernel, line, kind):
    ptx, launch, _ = kernel
    lines = ptx.splitlines(keepends=True)
    assert any(line in text for text in lines)
    broken = "".join("" if line in text else text for text in lines)
    report = emulate(broken, launch, ("early",), max_steps=300_000)
    assert kind in {finding.kind for finding in report.findings}, str(report)
