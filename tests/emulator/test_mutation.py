"""The emulator measured: a deleted, skipped or altered instruction of a kernel must show."""

import pytest

from emulator import mini, one_kernel
from kgen.emu.api import load_program
from kgen.emu.mutation import Case, Mutant, apply, measure, mutants, summary
from kgen.emu.ptx import Imm

SCHEDULES = ("early", "latestore", "random:5")


@pytest.fixture(scope="module")
def program():
    return load_program(mini.PTX)


def cases() -> list[Case]:
    """Twelve tiles, so that counts that drift have time to show; one tile only."""
    return [Case(mini.launch(k), {"d": mini.expected(k)}) for k in (768, 64)]


def test_mutants_cover_every_synchronising_instruction(program):
    found = mutants(program.kernel)
    roots = {program.code[m.pc].opcode.split(".sync")[0] for m in found}
    for opcode in ("mbarrier.init.shared::cta.b64", "wgmma.fence", "wgmma.wait_group", "bar"):
        assert any(root.startswith(opcode) for root in roots), opcode
    assert any("bytes 9216 -> 9232" in m.name for m in found)
    assert any("count 4 -> 5" in m.name for m in found)
    assert any(m.name.startswith("skip mbarrier.try_wait") for m in found)
    assert any("no flip" in m.name for m in found)


def test_mutants_of_clusters_and_overlapped_launches():
    """Each bit of a multicast mask; one store of an unrolled loop stands for all."""
    body = """
    griddepcontrol.wait;
    setmaxnreg.dec.sync.aligned.u32 40;
    mov.b64 %rd5, map;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd5, {%r2}], [%r3], %h1;
    st.global.u64 [%rd0], %rd1;
    st.global.u64 [%rd0+8], %rd1;
    st.release.gpu.global.u64 [%rd0], %rd1;
    barrier.cluster.arrive.aligned;
    mbarrier.arrive.shared::cluster.b64 _, [%r1];
"""  # noqa: E501 - one instruction, one line
    text = one_kernel.text(body, ".param .align 64 .b8 map[128]")
    names = [m.name.split(".")[0] for m in mutants(load_program(text).kernel)]
    assert names == [
        "delete griddepcontrol",
        "delete setmaxnreg",
        "delete cp",
        "only to CTA 0: cp",
        "only to CTA 1: cp",
        "delete st",
        "delete st",
        "delete barrier",
        "delete mbarrier",
    ]


def test_edit_changes_one_instruction_only(program):
    mutant = next(m for m in mutants(program.kernel) if "threads 128 -> 160" in m.name)
    changed = apply(program.kernel, [mutant.edit])
    differences = [
        pc for pc, (a, b) in enumerate(zip(program.code, changed.code, strict=True)) if a != b
    ]
    assert differences == [mutant.pc]
    assert changed.code[mutant.pc].operands[1] == Imm(160)
    assert program.code[mutant.pc].operands[1] == Imm(128)


def test_score_of_the_small_kernel(program):
    """Every mutant is caught by a finding, or has a partner that makes it redundant."""
    outcomes = measure(program, cases(), SCHEDULES, 100_000)
    assert len(outcomes) == 39
    caught = sum(bool(outcome.findings) for outcome in outcomes)
    assert caught / len(outcomes) >= 0.95, summary(outcomes)
    survivors = [outcome for outcome in outcomes if not outcome.caught]
    assert all(outcome.partners for outcome in survivors), summary(outcomes)


def test_partner_of_a_redundant_fence():
    """Two fences where one is enough: neither is missed alone, and each names the other."""
    twice = mini.broken(
        ("fence.proxy.async.shared::cta;", "fence.proxy.async.shared::cta;\n    fence.proxy.async;")
    )
    program = load_program(twice)
    fences: list[Mutant] = [
        m for m in mutants(program.kernel) if m.name.startswith("delete fence.proxy")
    ]
    outcomes = measure(program, cases()[:1], ("early",), 100_000, only=fences)
    assert [outcome.caught for outcome in outcomes] == [False, False]
    places = [outcome.place for outcome in outcomes]
    assert [p.split(" at ")[1] for o in outcomes for p in o.partners] == places[::-1]
    assert "2 mutants: 0 caught by a finding, 0 in all (0.0 %)" in summary(outcomes)


def test_arrival_that_nobody_waits_for():
    """With one tile the producer never waits for a stage to be released."""
    program = load_program(mini.PTX)
    arrivals = [
        m for m in mutants(program.kernel) if m.name.startswith("delete mbarrier.arrive.shared")
    ]
    one_tile = [Case(mini.launch(64), {"d": mini.expected(64)})]
    (outcome,) = measure(program, one_tile, ("early",), 100_000, only=arrivals)
    assert not outcome.caught
    assert outcome.partners == ["no wait: nobody waits for the phase that this arrival completes"]
    (outcome,) = measure(program, cases(), ("early",), 100_000, only=arrivals)
    assert "deadlock" in {kind for kind, _, _ in outcome.findings}


def test_copies_of_an_unrolled_loop_stand_in_for_each_other():
    """Three fences in a row: no single one of the others is the partner, all together are."""
    fence = "fence.proxy.async.shared::cta;"
    program = load_program(mini.broken((fence, f"{fence}\n    {fence}\n    {fence}")))
    fences = [m for m in mutants(program.kernel) if m.name.startswith("delete fence.proxy")]
    outcomes = measure(program, cases()[1:], ("early",), 100_000, only=fences)
    assert [len(outcome.partners) for outcome in outcomes] == [2, 2, 2]
