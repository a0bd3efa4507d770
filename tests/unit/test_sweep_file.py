"""Sweep files: what they may say, what they mean, and the answer to those that are wrong."""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import F32, V6, changed
from hypothesis import given
from hypothesis import strategies as st

from kgen.errors import KgenError, SpecError
from kgen.paths import data_folder
from kgen.spec import KernelSpec, parse_spec
from kgen.sweep.axes import Axis, Constraint, ConstraintError, overlap, with_value
from kgen.sweep.candidate import prepare
from kgen.sweep.load import Sweep, load_sweep
from kgen.sweep.space import _code_digest, chosen_points, points_of
from kgen.sweep.survey import require_points, survey

HEAD = """\
base: base.yaml
axes:
  schedule.stages: [2, 3, auto]
problems: [[512, 512, 256]]
"""


@pytest.fixture
def sweep_of(tmp_path: Path) -> Callable[..., Sweep]:
    """A sweep around an f32 kernel with two consumers, from text."""
    (tmp_path / "base.yaml").write_text(changed(F32, V6))
    (tmp_path / "f16.yaml").write_text(V6)

    def load(text: str = HEAD, name: str = "tiny.sweep.yaml") -> Sweep:
        (tmp_path / name).write_text(text)
        return load_sweep(tmp_path / name)

    return load


def head(axes: str, rest: str = "") -> str:
    """A sweep file with these axes."""
    lines = "".join(f"  {line}\n" for line in axes.splitlines())
    return f"base: base.yaml\naxes:\n{lines}problems: [[512, 512, 256]]\n{rest}"


def test_every_combination_is_a_point_and_the_last_axis_is_fastest(sweep_of) -> None:
    sweep = sweep_of(head("schedule.stages: [2, 3]\nschedule.raster.group: {from: 1, to: 3}"))
    points = points_of(sweep)
    assert [tuple(p.values.values()) for p in points] == [
        (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3),
    ]  # fmt: skip
    assert all(p.fits and p.loaded for p in points)
    assert points[4].loaded is not None
    assert points[4].loaded.spec.schedule.raster.group == 2
    assert {p.loaded.spec.name.rsplit("_", 1)[0] for p in points if p.loaded} == {"tiny"}


@pytest.mark.parametrize(
    ("given_range", "values"),
    [
        ("{from: 2, to: 6, step: 2}", [2, 4, 6]),
        ("{from: 2, to: 7, step: 2}", [2, 4, 6]),
        ("{from: 1, to: 8, times: 2}", [1, 2, 4, 8]),
        ("{from: 3, to: 3}", [3]),
    ],
)
def test_ranges(sweep_of, given_range: str, values: list[int]) -> None:
    axis = sweep_of(head(f"schedule.raster.group: {given_range}")).axes[0]
    assert list(axis.values) == values


def test_a_map_sets_several_fields_together(sweep_of) -> None:
    axes = "schedule: [{tile: {m: 64}, consumers: 1}, {tile: {m: 128}, consumers: 2}]"
    points = points_of(sweep_of(head(axes)))
    assert [p.fits for p in points] == [True, True]
    assert [p.loaded.spec.schedule.tile.n for p in points if p.loaded] == [256, 256]


def test_auto_and_the_number_it_means_are_one_kernel(sweep_of) -> None:
    """Its name is the digest of the resolved spec, so axes may come and go without renaming it."""
    points = points_of(sweep_of(head("schedule.stages: [4, auto]")))
    assert [p.twin for p in points] == [-1, 0]
    one, other = (prepare(p) for p in points)
    assert one.source == other.source
    alone = points_of(sweep_of(head("schedule.stages: [auto]\nschedule.raster.group: [8]")))
    assert prepare(alone[0]).source == one.source


def test_a_new_field_of_specs_renames_no_kernel(sweep_of) -> None:
    """So that a results file and a cache of kernels survive it; another value is another kernel."""

    class Wider(KernelSpec):
        extra: bool = False

    (point,) = points_of(sweep_of(head("schedule.raster.group: [8]")))
    assert point.loaded
    data = point.loaded.tree.data
    found = [_code_digest(x) for x in (KernelSpec.model_validate(data), Wider.model_validate(data))]
    assert found[0] == found[1] != _code_digest(Wider.model_validate(data | {"extra": True}))


def test_the_recorded_spec_renders_to_the_same_code(sweep_of) -> None:
    candidate = prepare(points_of(sweep_of())[0])
    from kgen.api import lower, render

    assert render(lower(parse_spec(candidate.spec_text))).digest == candidate.source


def test_several_bases_are_one_more_axis(sweep_of, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(changed(F32 | {"n: 256": "n: 128"}, V6))
    text = HEAD.replace("base: base.yaml", "base: [base.yaml, other.yaml]")
    points = points_of(sweep_of(text))
    assert [p.values["base"] for p in points] == ["base.yaml"] * 3 + ["other.yaml"] * 3
    assert points[5].loaded and points[5].loaded.spec.schedule.tile.n == 128


def test_an_axis_of_another_kind_leaves_one_point(sweep_of, tmp_path: Path) -> None:
    """Schedules of several kinds in one sweep: each has the axes that its kind has."""
    fast = (data_folder("specs") / "hopper" / "fast" / "bf16.yaml").read_text()
    fast = fast.replace("dtype: bf16", "dtype: f16")
    (tmp_path / "fast.yaml").write_text(fast)
    axes = "schedule.cluster.m: [1, 2]\nschedule.raster.group: [4, 8]"
    sweep = sweep_of(head(axes).replace("base.yaml", "[base.yaml, fast.yaml]"))
    points = points_of(sweep)
    plain, clustered = points[:4], points[4:]
    assert [p.fits for p in plain] == [True, True, False, False]
    assert [p.values["schedule.cluster.m"] for p in plain[:2]] == [None, None]
    assert plain[2].losses[0].rule.startswith("schedule.cluster.m: no field of this kind")
    names = {p.loaded.spec.name for p in clustered if p.loaded}
    assert all(p.fits for p in clustered) and len(names) == 4


# --- what each rule removes


def test_the_survey_counts_what_each_rule_removes(sweep_of) -> None:
    sweep = sweep_of(
        head(
            "schedule.stages: {from: 3, to: 6}\nschedule.epilogue.store_buffers: [1, 2, 3]",
            "constraints: {shallow: schedule.stages <= 5, lean: smem_bytes < 200000}\n",
        )
    )
    found = survey(sweep, points_of(sweep))
    counts = {r.rule: (r.points, r.alone) for r in found.rules}
    # A stage is 49152 bytes and a buffer 32768. Three buffers break a rule at all four depths, six
    # stages the first constraint with each of them; figures are not computed for these. Of the
    # rest, 3 x 49152 + 32768 alone is below 200000, and 4 x 49152 + 32768 the last that fits.
    assert counts == {
        "schedule.epilogue.store_buffers: N buffers for N consumers; each consumer stores once, "
        "so more are never used": (4, 3),
        "constraint shallow: schedule.stages <= 5": (3, 2),
        "constraint lean: smem_bytes < 200000": (5, 2),
        "schedule.stages: N stages do not fit in sm_90a shared memory": (3, 0),
    }
    assert (found.points, found.fit, found.kernels) == (12, 1, 1)
    assert any(
        w.startswith("schedule.stages = 6: none of 3 points survives") for w in found.warnings
    )
    assert any("store_buffers = 3" in w for w in found.warnings)


def test_a_lost_point_says_why_with_its_numbers(sweep_of) -> None:
    point = points_of(sweep_of(head("schedule.stages: [7]")))[0]
    text = point.losses[0].reason
    assert text.startswith("schedule.stages: 7 stages do not fit in sm_90a shared memory")
    assert "7 stages x 128 x 64 x 2 B" in text and "over by" in text


def test_a_value_of_the_wrong_type_loses_its_points_only(sweep_of) -> None:
    points = points_of(sweep_of(head("schedule.stages: [2, many]\nschedule.raster.group: [8, 99]")))
    assert [p.fits for p in points] == [True, False, False, False]
    assert points[1].losses[0].rule.startswith("schema: schedule.raster.group")


def test_an_empty_space_is_refused_with_its_commonest_rules(sweep_of) -> None:
    sweep = sweep_of(head("schedule.stages: [8, 9]"))
    with pytest.raises(KgenError, match="the space is empty: none of 2 points fits\n +2 points"):
        require_points(sweep, survey(sweep, points_of(sweep)))


def test_a_budget_of_points_is_a_spread_that_only_grows(sweep_of) -> None:
    sweep = sweep_of(head("schedule.stages: [2, 3]\nschedule.raster.group: {from: 1, to: 32}"))
    points = points_of(sweep)
    few, more = (chosen_points(sweep.within(n, None), points) for n in (10, 30))
    assert len(few) == 10 and {p.index for p in few} < {p.index for p in more}
    assert few == chosen_points(sweep.within(10, None), points)
    assert len({p.values["schedule.stages"] for p in few}) == 2


def test_every_point_is_told_as_it_is_found(sweep_of) -> None:
    """Meanwhile the cycle collector is off; afterwards it is as it was, also after Ctrl-C."""
    sweep = sweep_of(head("schedule.stages: [2, 99, auto]"))
    told: list[str] = []
    points = points_of(sweep, told.append)
    assert (
        told
        == ["fits", "infeasible", "fits"]
        == ["fits" if p.fits else "infeasible" for p in points]
    )

    def stop(status: str) -> None:
        assert not gc.isenabled()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        points_of(sweep, stop)
    assert gc.isenabled()


def test_a_thousand_points_are_explained_in_two_seconds(sweep_of) -> None:
    axes = (
        "schedule.stages: {from: 1, to: 10}\nschedule.raster.group: {from: 1, to: 25}\n"
        "schedule.epilogue.store_buffers: [1, 2]\nschedule.release: [same, previous]"
    )
    sweep = sweep_of(head(axes, "constraints: {deep: ring_bytes >= 65536}\n"))
    start = time.process_time()  # what a machine that does nothing else would take
    found = survey(sweep, points_of(sweep))
    assert time.process_time() - start < 2
    assert found.points == 1000 and found.fit > 100


# --- what is wrong with a file


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (head("schedule.stagse: [2]"), "3:3", "no field of a spec; the nearest is schedule.stages"),
        (head("stages: [2]"), "3:3", "no field of a spec; the nearest is schedule.stages"),
        (head("name: [a]"), "3:3", "kernels of a sweep get a name"),
        (head("verify.shapes: [[1, 2, 3]]"), "3:3", "set it in the base spec"),
        (head("schedule.stages: []"), "3:20", "no value, so the space is empty"),
        (head("schedule.stages: [2, 2]"), "3:20", "2 stands twice"),
        (
            head("schedule.tile: [{m: 64}]\nschedule.tile.m: [128]"),
            "4:3",
            "schedule.tile.m is also set by the axis schedule.tile",
        ),
        (
            head("schedule: [{stages: 2}]\nschedule.stages: [3]"),
            "4:3",
            "schedule.stages is also set by the axis schedule",
        ),
        (head("schedule.tile: [{q: 1}]"), "3:18", "schedule.tile.q: no field of a spec"),
        (head("schedule.stages: {from: 5}"), "3:20", "missing"),
        (head("schedule.stages: {from: 1, to: 9, times: 2, step: 1}"), "3:20", "not both"),
        (head("schedule.stages: {from: 1, to: 99999}"), "3:20", "more than 1000 values"),
        (head("schedule.stages: [2]", "axis: {}\n"), "5:1", "unknown key, the nearest is `axes`"),
        (head("schedule.stages: [2]", "screen: {windows: 3}\n"), "5:10", "`window`"),
        (head("schedule.stages: [2]", "constraints: {a: stages <}\n"), "5:18", "not an expression"),
        (
            head("schedule.stages: [2]", "constraints: {a: stages < 3}\n"),
            "5:18",
            "stages: no field",
        ),
        (head("schedule.stages: [2]", "constraints: {a: 1 < 3}\n"), "5:18", "names no field"),
        (HEAD.replace("[[512, 512, 256]]", "[]"), "4:11", "at least 1 item"),
        (HEAD.replace("[[512, 512, 256]]", "[[512, 512]]"), "4:12", "2 numbers"),
        (HEAD.replace("[[512, 512, 256]]", "[[512, 512, 0]]"), "4:12", "k: "),
        (HEAD.replace("[[512, 512, 256]]", "none.csv"), "4:11", "No such file"),
        (HEAD.replace("base.yaml", "nope.yaml"), "1:7", "no such spec"),
        (HEAD + "emulator: {schedules: [late, foo]}\n", "5:30", "'foo' is none of early"),
        (head("gemm.d.dtype: [f16, f32]"), "3:3", "changes gemm.d.dtype: kernels of a sweep"),
        (head("gemm: [{accumulator: f16}, {accumulator: f32}]"), "3:3", "gemm.accumulator"),
        (head("gemm.block_scale: [null, {dtype: f32, block: 128}]"), "3:3", "gemm.block_scale"),
        (
            HEAD.replace("base.yaml", "[base.yaml, f16.yaml]"),
            "1:19",
            "gemm.accumulator is not that of the first base",
        ),
        *[
            (HEAD + f"name: {json.dumps(name)}\n", "5:7", "cannot begin a kernel's name")
            for name in ("", "a b", "../../x", "x\n", "x" * 55, "kFoo", "12")
        ],
    ],
)
def test_a_wrong_file_is_answered_at_its_place(sweep_of, text: str, place: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        sweep_of(text)
    assert f"tiny.sweep.yaml:{place}: " in str(caught.value)
    assert words in str(caught.value)


def test_all_findings_are_reported_together(sweep_of) -> None:
    with pytest.raises(SpecError) as caught:
        sweep_of(head("schedule.x: [1]\nschedule.stages: []", "constraints: {a: b}\n"))
    assert len(caught.value.diagnostics) == 3


def test_a_huge_space_is_refused_before_it_is_walked(sweep_of) -> None:
    axes = "\n".join(
        f"schedule.{path}: {{from: 1, to: 400}}" for path in ("tile.m", "tile.n", "tile.k")
    )
    with pytest.raises(SpecError, match="64000000 points; a sweep has at most"):
        sweep_of(head(axes))


def test_the_stem_must_be_able_to_begin_a_name(sweep_of) -> None:
    with pytest.raises(SpecError, match="give a `name`"):
        sweep_of(HEAD, "12.sweep.yaml")
    assert sweep_of(HEAD + "name: fine\n", "12.sweep.yaml").name == "fine"
    assert sweep_of(HEAD, "h200-llama 70b.sweep.yaml").name == "h200_llama_70b"


def test_a_keyword_may_begin_a_name(sweep_of) -> None:
    """No kernel is called `long`, but `long_` and a digest."""
    points = points_of(sweep_of(HEAD + "name: long\n"))
    assert all(p.loaded and p.loaded.spec.name.startswith("long_") for p in points)


def test_axes_of_one_arithmetic_are_taken(sweep_of) -> None:
    axes = "gemm.accumulator: [f32]\ngemm.block_scale: [null]\ngemm.global_scale: [false]"
    assert sweep_of(head(axes)).size == 1
    assert sweep_of(HEAD + "emulator: {schedules: [all, starve, 'starve:3']}\n").size == 3


@pytest.mark.parametrize(
    ("name", "text", "sizes"),
    [
        ("p.csv", "name, m, n, k, count\nq proj,1,2,3,9\n,4,5,6,1\n", [(1, 2, 3), (4, 5, 6)]),
        ("p.csv", "\ufeffM,N,K\n1,2,3\n1,2,3\n", [(1, 2, 3)]),
        ("p.json", json.dumps([[1, 2, 3], {"m": 4, "n": 5, "k": 6, "layer": 3}]), None),
    ],
)
def test_problem_lists(sweep_of, tmp_path: Path, name: str, text: str, sizes) -> None:
    (tmp_path / name).write_text(text)
    sweep = sweep_of(HEAD.replace("[[512, 512, 256]]", name))
    assert [p.size for p in sweep.problems] == (sizes or [(1, 2, 3), (4, 5, 6)])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.csv", "a,b\n1,2\n", "columns m, n, k"),
        ("p.csv", "m,n,k\n1,2,x\n", "entry 1: k: "),
        ("p.csv", "m,n,k\n", "no problem"),
        ("p.json", "{}", "wants a JSON list"),
        ("p.json", "[[1,2,3]", "Expecting"),
        ("p.json", "[" * 100_000, "nested too deeply"),
        ("p.json", "\udcff", "codec"),
    ],
)
def test_wrong_problem_lists(sweep_of, tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SpecError, match="tiny.sweep.yaml:4:11: problems: ") as caught:
        sweep_of(HEAD.replace("[[512, 512, 256]]", name))
    assert words in str(caught.value)


# --- expressions and axes on their own


FIELDS = {"schedule": {"tile": {"m": 128, "n": 256}, "stages": 4, "kind": "a"}, "ring_bytes": 9}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("schedule.tile.m * schedule.tile.n <= 32768", True),
        ("schedule.stages in [2, 3]", False),
        ("schedule.kind == 'a' and not schedule.stages > 4", True),
        ("schedule.tile.m % 128 == 0 or ring_bytes > 10", True),
        ("schedule.nothing > 3", None),
    ],
)
def test_constraints(text: str, holds: bool | None) -> None:
    assert Constraint("c", text).holds(FIELDS) is holds


@pytest.mark.parametrize(
    "text",
    [
        "schedule.kind * 999999999999 == 1",
        "schedule.stages ** 9999999 > 1",
        "schedule.__class__ == 1",
        "[x for x in schedule.stages]",
        "print(schedule.stages)",
        "schedule.stages / 0 > 1",
        "schedule.kind < 3",
        "(lambda: schedule.stages)()",
    ],
)
def test_a_constraint_computes_nothing_harmful(text: str) -> None:
    """It is refused, or does not apply; it neither runs code nor eats the machine."""
    start = time.perf_counter()
    with contextlib.suppress(ConstraintError):
        assert Constraint("c", text).holds(FIELDS) is None
    assert time.perf_counter() - start < 5


_paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


@given(_paths, _paths, st.integers(), st.integers())
def test_axes_overlap_exactly_when_their_order_matters(one, other, x: int, y: int) -> None:
    """Two axes whose values can be set in either order set no field twice."""
    a, b = Axis(".".join(one), (x,)), Axis(".".join(other), (y + 10**9,))
    first = with_value(with_value({}, one, x), other, y + 10**9)
    second = with_value(with_value({}, other, y + 10**9), one, x)
    assert bool(overlap(a, b)) == (first != second)


def test_the_shipped_sweeps_load_and_fit() -> None:
    files = sorted((data_folder("specs") / "sweeps").glob("*.sweep.yaml"))
    assert files
    for file in files:
        sweep = load_sweep(file)
        assert survey(sweep, points_of(sweep)).fit
