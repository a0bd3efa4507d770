"""Whole kernels in the emulator: shipped ones and variants clean and exact, planted faults found.

`make long` runs the shipped ones under every schedule, and their mutants (tests/long.py).
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from variants import VARIANTS, variant

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import compile_source
from kgen.cli.emulator_commands import verify_emulated
from kgen.emu import dump_launch, emulate, load_launch
from kgen.paths import data_folder
from kgen.plan import KernelPlan
from kgen.verify import emulator
from kgen.verify.emulator import expected, launch_of, shapes_of, verify_in_emulator
from kgen.verify.problem import tile_of
from kgen.verify.record import load_emulator_records
from kgen.verify.shapes import shape

# The emulator knows no tcgen05, so Blackwell and Rubin are not here.
SPECS = sorted((data_folder("specs") / "hopper").glob("*.yaml"))
FAST = sorted((data_folder("specs") / "hopper" / "fast").glob("*.yaml"))

SEVERAL_TURNS = "three cluster tiles"  # of a resident grid
LARGEST = 150_000_000  # multiplications of one shape; `make exhaustive` runs larger ones


def ptx_of(plan: KernelPlan) -> str:
    return build(plan, emit="ptx", line_info=True).data.decode()


@pytest.mark.parametrize("spec", SPECS, ids=[p.stem for p in SPECS])
def test_shipped_kernels_are_clean_exact_and_covered(spec: Path) -> None:
    plan = lower(load_spec(spec))
    registers = build(plan).resources[0].registers
    shapes = shapes_of(plan)
    cases, judgement = verify_in_emulator(plan, ptx_of(plan), shapes, registers=registers)
    assert judgement.verdict == "clean", str(judgement)
    assert len(cases) >= 12  # with one stage, some lengths of K coincide
    assert all(case.passed for case in cases), [c.first_wrong for c in cases if c.wrong]


@pytest.mark.parametrize("spec", FAST, ids=[p.stem for p in FAST])
def test_fast_kernels_are_clean_and_exact_over_several_turns(spec: Path) -> None:
    """One schedule: these tiles are large. Their variants run small tiles under two."""
    plan = lower(load_spec(spec))
    registers = build(plan).resources[0].registers
    turns = [s for s in shapes_of(plan) if s.why.startswith(SEVERAL_TURNS)]
    shapes = [s for s in turns if s.m * s.n * s.k <= LARGEST]
    assert len(shapes) >= 3
    cases, _ = verify_in_emulator(plan, ptx_of(plan), shapes, ("early",), registers)
    for case in cases:
        assert case.passed, f"{case.shape.label}: {case.report} {case.first_wrong}"


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_clean_and_exact(name: str) -> None:
    plan = lower(variant(name))
    tile = tile_of(plan)
    ring = tile.k * tile.stages
    shapes = [
        shape(tile, tile.m + 1, tile.n + 1, tile.k + 8, "cut in every direction"),
        shape(tile, tile.m, tile.n, min(2 * ring + 8, 1000), "two rings and a tail"),
        *(s for s in shapes_of(plan) if s.why.startswith(SEVERAL_TURNS)),
    ]
    registers = build(plan).resources[0].registers
    cases, _ = verify_in_emulator(plan, ptx_of(plan), shapes, ("early", "random:1"), registers)
    for case in cases:
        assert case.passed, f"{case.shape.label}: {case.report} {case.first_wrong}"


FAULTS = {
    # a line of the rendered source, its replacement, and what must be found
    "no proxy fence before the TMA store": (
        "        ptx::fence_proxy_async_shared();\n",
        "",
        "missing-proxy-fence",
    ),
    "no fence after the barriers' initialisation": (
        "        ptx::fence_mbarrier_init();\n",
        "",
        "missing-init-fence",
    ),
    "a stage released too early": ("ptx::wgmma_wait<1>();", "ptx::wgmma_wait<2>();", "race"),
    "the last wgmma not waited for": (
        "    ptx::wgmma_wait<0>();\n",
        "",
        "accumulator-in-flight",
    ),
    "the producer does not wait for the buffer": (
        "        ptx::tma_store_wait_read();",
        "        ;",
        "race",
    ),
    "a consumer that never releases": (
        "if (leader && k_tile > 0) ptx::mbarrier_arrive(&smem.empty[previous]);",
        ";",
        "deadlock",
    ),
    "half of the bytes expected": (
        "ptx::mbarrier_arrive_expect_tx(full, kStageBytes);",
        "ptx::mbarrier_arrive_expect_tx(full, kStageBytes / 2);",
        "mbarrier-bytes",
    ),
    "the wrong swizzle in A's descriptor": (
        "kLayoutA = 0x4000004000010000",
        "kLayoutA = 0x8000004000010000",
        "k-mismatch",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found_and_placed(fault: str) -> None:
    """Each fault is one a person makes in the .cu; the finding names a line of that file."""
    old, new, kind = FAULTS[fault]
    plan = lower(load_spec(data_folder("specs") / "hopper" / "v6.yaml"))
    source = render(plan).source
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the source"
    artifact = compile_source(
        source.replace(old, new), name=plan.name, target=plan.target, emit="ptx", line_info=True
    )
    tile = tile_of(plan)
    size = shape(tile, tile.m, tile.n, 10 * tile.k, "wraps every ring")
    launch = launch_of(plan, size, registers=96)
    report = emulate(artifact.data.decode(), launch, ("early", "late", "latestore", "random:1"))
    assert report.verdict == "error"
    found = [f for f in report.findings if f.kind == kind]
    assert found, [f.kind for f in report.findings]
    if kind not in ("deadlock", "mbarrier-bytes"):  # the state of a barrier has no line
        assert any("hopper_v6.cu:" in f.line for f in found), [str(f) for f in found]


LADDER_FAULTS = {
    # rung, a line of its source, its replacement, and what must be found
    "fragments before the bytes have landed": (
        "v0",
        "        ptx::mbarrier_wait(&smem.full[stage], phase);\n",
        "",
        "race",
    ),
    "a refill before every warp has read": (
        "v0",
        "        __syncthreads();\n        if (threadIdx.x == 0 && k_tile",
        "        if (threadIdx.x == 0 && k_tile",
        "race",
    ),
    "a refill while wgmma reads": ("v2", "ptx::wgmma_wait<0>();", ";", "race"),
    "one slab too far": (
        "v1",
        "ptx::wgmma(acc[1], a + 512, b)",
        "ptx::wgmma(acc[1], a + 1024, b)",
        "never-read",
    ),
    "the phase never flips": ("v1", "        phase ^= 1;\n", "", "race"),
    "the stage of the wrong K tile released": (
        "v4",
        "ptx::mbarrier_arrive(&smem.empty[previous]);",
        "ptx::mbarrier_arrive(&smem.empty[stage]);",
        "deadlock",
    ),
    "a stage released too early": ("v4", "ptx::wgmma_wait<1>();", "ptx::wgmma_wait<2>();", "race"),
    "an accumulator read before the last wait": (
        "v5",
        "    ptx::wgmma_wait<0>();\n",
        "",
        "accumulator-in-flight",
    ),
}


@pytest.mark.parametrize("fault", LADDER_FAULTS)
def test_faults_of_the_ladder_are_found(fault: str) -> None:
    rung, old, new, kind = LADDER_FAULTS[fault]
    plan = lower(load_spec(data_folder("specs") / "hopper" / f"{rung}.yaml"))
    source = render(plan).source
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in the source"
    artifact = compile_source(
        source.replace(old, new), name=plan.name, target=plan.target, emit="ptx", line_info=True
    )
    tile = tile_of(plan)
    size = shape(tile, tile.m, tile.n, 5 * tile.k, "more than every ring holds")
    schedules = ("early", "latestore")
    report = emulate(artifact.data.decode(), launch_of(plan, size), schedules)
    assert report.verdict == "error"
    assert kind in {f.kind for f in report.findings}, [str(f) for f in report.findings]


def test_a_launch_description_survives_its_text(tmp_path: Path) -> None:
    """What `kgen verify --keep` writes, `kgen emulate` reads back as the same launch."""
    plan = lower(load_spec(data_folder("specs") / "hopper" / "v6.yaml"))
    for one in shapes_of(plan):
        launch = launch_of(plan, one, registers=90)
        dump_launch(launch, tmp_path / "x.yaml")
        assert load_launch(tmp_path / "x.yaml") == launch


def test_the_expected_product_is_that_of_the_operands() -> None:
    plan = lower(variant("both_mn_major"))
    launch = launch_of(plan, shape(tile_of(plan), 3, 8, 5, "tiny"))
    a = launch.array("a").contents().view(np.float16).astype(float)
    b = launch.array("b").contents().view(np.float16).astype(float)
    assert a.shape == (5, 3)
    want = np.zeros((3, 8))
    for i in range(3):
        for j in range(8):
            want[i, j] = sum(a[k, i] * b[k, j] for k in range(5))
    assert np.array_equal(expected(plan, launch).view(np.float16).astype(float), want)


def test_shapes_of_the_spec_that_are_not_run_are_counted(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """The emulator's shapes follow from the tile; a large one of the spec's is for a GPU."""
    spec = data_folder("specs") / "hopper/v6.yaml"
    named = load_spec(spec).spec.verify.shapes
    monkeypatch.setattr(emulator, "shapes_of", lambda plan: shapes_of(plan)[:1])
    for as_json in (False, True):
        with contextlib.suppress(typer.Exit):  # one shape reaches too little for a verdict
            verify_emulated(spec, "late", "private", as_json, record=tmp_path)
    printed = capsys.readouterr().out
    assert f"not run: {len(named)} of the shapes that the spec names" in printed
    assert f'"named_shapes_left_out": {len(named)}' in printed
    (record,) = load_emulator_records(tmp_path)
    assert record.named_shapes_left_out == len(named) > 0


@pytest.mark.parametrize("also_wrong", [False, True])
def test_an_instruction_that_is_not_modelled_is_named(
    monkeypatch, tmp_path: Path, capsys, also_wrong: bool
) -> None:
    """It stops the second case; the first has no K tile, and is wrong if nothing is as wanted."""
    verify = emulator.verify_in_emulator

    def without_model(plan, ptx: str, *rest):
        assert ptx.count("wgmma.wait_group") == 1
        return verify(plan, ptx.replace("wgmma.wait_group", "wgmma.frobnicate"), *rest)

    monkeypatch.setattr(emulator, "verify_in_emulator", without_model)
    monkeypatch.setattr(emulator, "shapes_of", lambda plan: shapes_of(plan)[:2])
    if also_wrong:
        monkeypatch.setattr(emulator, "expected", lambda *given: ~expected(*given))
    spec = data_folder("specs") / "hopper/v1.yaml"
    with pytest.raises(typer.Exit) as end:
        verify_emulated(spec, "late,early", "private", False, record=tmp_path)
    verdict, code, right = ("error", 1, "0 of 2") if also_wrong else ("incomplete", 4, "1 of 2")
    assert end.value.exit_code == code
    (record,) = load_emulator_records(tmp_path)
    assert record.verdict == verdict
    printed = capsys.readouterr()
    states = [line.split()[0] for line in printed.err.splitlines()[:2]]
    assert states == ["FAIL" if also_wrong else "ok", "stop"]
    headline, stopped, *rest = printed.out.splitlines()
    assert headline.startswith(f"hopper_v1: {verdict}; {right} cases right in 4 runs ")
    assert re.fullmatch(
        r"1 of 2 cases were stopped: instruction wgmma\.frobnicate\.sync\.aligned is not modelled; "
        r"the run stops here: hopper_v1\.cu:\d+ .*ptx:\d+ wgmma\.frobnicate\.sync\.aligned.*",
        stopped,
    )
    assert sum("D is unfinished" in line for line in rest) == 1
    assert sum("elements of D are wrong" in line for line in rest) == also_wrong
    with pytest.raises(typer.Exit):
        verify_emulated(spec, "late", "private", True)
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == verdict
    assert [case["wrong_elements"] for case in data["cases"]] == [128 * 128 * also_wrong, None]
