"""No fence of the whole GPU inside a main loop: what counts as one, and that a build fails by it."""

from __future__ import annotations

import pytest
from persistent import plan_of
from provoke import MAIN_LOOP
from variants import VARIANTS, variant

from kgen.api import build, load_spec, lower
from kgen.build import sass
from kgen.build.compile import compile_source, disassemble
from kgen.errors import CompileError
from kgen.paths import data_folder
from kgen.plan import KernelPlan
from kgen.render import render

FAST = sorted((data_folder("specs") / "hopper" / "fast").glob("*.yaml"))
ARRIVE = "mbarrier.arrive.shared::cluster.b64 _, [%0];"
SLOW_ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"


def loops(text: str) -> list[list[str]]:
    """Instructions of every main loop of a disassembly, in order."""
    return [
        [f.code[i] for i in sorted(loop)]
        for f in sass.functions(text)
        for loop in sass.main_loops(f)
    ]


def listing(*lines: str) -> str:
    """A disassembly of these lines; one that ends in a colon is a label."""
    rows = [
        line if line.endswith(":") else f"        /*{16 * i:04x}*/                   {line} ;"
        for i, line in enumerate(lines)
    ]
    return "\n".join([".text.k:", *rows])


def test_the_innermost_loop_that_multiplies_is_the_main_loop():
    text = listing(
        *(
            "MOV R1, R2",
            ".L_x_0:",
            "MEMBAR.SC.GPU",
            ".L_x_1:",
            "HGMMA.64x256x16.F32 R24, gdesc[UR4]",
        ),
        *("@P0 BRA `(.L_x_1)", "ERRBAR", "@P1 BRA `(.L_x_0)", "EXIT"),
    )
    assert [len(x) for x in loops(text)] == [2]
    assert sass.fences(text) == []


@pytest.mark.parametrize("fence", ["MEMBAR.SC.GPU", "MEMBAR.ALL.GPU", "MEMBAR.SC.SYS", "ERRBAR"])
def test_a_fence_in_the_main_loop_is_found(fence):
    text = listing(
        ".L_x_1:", "HGMMA.64x8x16.F32 R24, gdesc[UR4]", fence, "@P0 BRA `(.L_x_1)", "EXIT"
    )
    assert sass.fences(text) == [f"k: {fence}"]
    inside = text.replace(fence, "MEMBAR.ALL.CTA")
    assert sass.fences(inside) == []


def test_a_retry_behind_the_end_belongs_to_the_loop_that_it_returns_to():
    """ptxas puts the retries of a wait behind everything; what lies between is not in the loop."""
    text = listing(
        *(".L_x_1:", "SYNCS.TRYWAIT P0, [UR4]", "@!P0 BRA `(.L_x_8)", ".L_x_2:"),
        *(
            "HGMMA.64x8x16.F32 R24, gdesc[UR4]",
            "@P1 BRA `(.L_x_1)",
            "MEMBAR.SC.GPU",
            "ERRBAR",
            "EXIT",
        ),
        *(".L_x_8:", "SYNCS.TRYWAIT P0, [UR4]", "@!P0 BRA `(.L_x_8)", "BRA `(.L_x_2)"),
    )
    assert [len(x) for x in loops(text)] == [7]
    assert sass.fences(text) == []


def test_what_the_main_loop_calls_is_part_of_it():
    text = listing(
        *(".L_x_1:", "HGMMA.64x8x16.F32 R24, gdesc[UR4]", "CALL.REL.NOINC `($refill)"),
        *("@P1 BRA `(.L_x_1)", "EXIT", "$refill:", "MEMBAR.SC.GPU", "RET.REL.NODEC R2 `(k)"),
    )
    assert sass.fences(text) == ["k: MEMBAR.SC.GPU"]


def test_code_without_a_loop_that_multiplies_has_no_main_loop():
    text = listing("HGMMA.64x8x16.F32 R24, gdesc[UR4]", "MEMBAR.SC.GPU", "EXIT")
    assert loops(text) == []


def test_the_main_loop_of_real_code():
    artifact = compile_source(MAIN_LOOP, name="probe", target="sm_90a")
    found = loops(disassemble(artifact.path))
    assert found
    assert all(any("HGMMA" in x for x in loop) for loop in found)


def _has_a_clean_main_loop(plan: KernelPlan) -> None:
    text = disassemble(build(plan).path)
    found = loops(text)
    assert found, "a kernel that multiplies in a loop"
    assert any("SYNCS" in x for loop in found for x in loop), "the wait for a stage is in it"
    assert sass.fences(text) == []


@pytest.mark.parametrize("spec", FAST, ids=[p.stem for p in FAST])
def test_shipped_kernels_have_no_fence_in_the_main_loop(spec):
    _has_a_clean_main_loop(lower(load_spec(spec)))


@pytest.mark.parametrize("name", [x for x in VARIANTS if x.startswith("persistent")])
def test_variants_have_no_fence_in_the_main_loop(name):
    _has_a_clean_main_loop(lower(variant(name)))


def test_cut_tiles_fence_outside_the_main_loop():
    """So the check must know loops: the line of a fence alone says nothing."""
    text = disassemble(build(plan_of()).path)
    assert "MEMBAR.SC.GPU" in text
    assert sass.fences(text) == []


def test_a_slow_arrive_fails_the_build():
    plan = plan_of()
    source = render(plan).source
    assert source.count(ARRIVE) == 1
    slow = compile_source(source.replace(ARRIVE, SLOW_ARRIVE), name=plan.name, target=plan.target)
    assert {f.code for f in slow.findings} == {"fence"}
    with pytest.raises(CompileError, match="fence in a main loop: sample: ") as error:
        slow.require_clean()
    assert "MEMBAR.ALL.GPU" in str(error.value)
    assert "a fault of the template" in str(error.value)
