"""Spec files: every kind of wrong field with its place, YAML traps, and `extends`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.errors import SpecError
from kgen.spec import load_spec, parse_spec
from kgen.spec.fields import kinds_at, legal_paths
from kgen.spec.hopper import WgmmaWs
from kgen.spec.tree import LONGEST_FILE

TARGETS = "is not one of sm_90a, sm_100a, sm_103a or sm_107a"
KINDS = "is not one of wgmma_ws, wgmma_persistent, tcgen05_ws, tcgen05_ws_split"


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def load_error(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value)


# --- keys ---------------------------------------------------------------------------------------


def test_a_misspelt_key_names_the_nearest(refusal):
    assert refusal({"stages: 3": "stage: 4"}) == (
        "v6.yaml:12:3: schedule.stage: unknown key, the nearest is `stages`\n"
        "    12 |   stage: 4\n"
        "       |   ^"
    )


def test_a_renamed_required_key_is_missing_and_unknown(refusal):
    assert refusal({"consumers: 4": "consumer_group: 2"}) == (
        "v6.yaml:9:3: schedule.consumers: missing\n"
        "     9 |   kind: wgmma_ws\n"
        "       |   ^\n"
        "v6.yaml:11:3: schedule.consumer_group: unknown key, the nearest is `consumers`\n"
        "    11 |   consumer_group: 2\n"
        "       |   ^"
    )


def test_a_key_one_level_too_deep_is_told_where_it_belongs(refusal):
    text = refusal({"major: n}\n  accumulator: f16": "major: n, accumulator: f16}"})
    assert text == (
        "v6.yaml:4:3: gemm.accumulator: missing\n"
        "     4 |   a: {dtype: f16, major: k}\n"
        "       |   ^\n"
        "v6.yaml:6:29: gemm.d.accumulator: misplaced key, it belongs at gemm.accumulator\n"
        "     6 |   d: {dtype: f16, major: n, accumulator: f16}\n"
        "       |                             ^"
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"target: sm_90a": "target: sm_90a\nstages: 3"},
            "v6.yaml:3:1: stages: misplaced key, it belongs at schedule.stages",
        ),
        (
            {"stages: 3": "stages: 3\n  m: 3"},
            "v6.yaml:13:3: schedule.m: misplaced key, it belongs at schedule.tile.m",
        ),
        (
            {"stages: 3": "stages: 3\n  promotion_byts: 3"},
            "v6.yaml:13:3: schedule.promotion_byts: unknown key, "
            "the nearest is schedule.l2.promotion_bytes",
        ),
        (
            {"stages: 3": "stages: 3\n  collector: off"},
            "v6.yaml:13:3: schedule.collector: unknown key: a collector belongs to tcgen05; "
            "wgmma has none",
        ),
        (
            {"stages: 3": "stages: 3\n  tmem: {buffers: 2}"},
            "v6.yaml:13:3: schedule.tmem: unknown key: tensor memory belongs to tcgen05; "
            "wgmma accumulates in registers",
        ),
        (
            {"group: 8": "group: 8, zzzzzz: 1"},
            "v6.yaml:15:32: schedule.raster.zzzzzz: unknown key, known here: group, along",
        ),
        (
            {"stages: 3": "stages: 3\n  3: 3"},
            "v6.yaml:13:3: schedule.3: unknown key, known here: kind, tile, stages, consumers, "
            "producer, registers, release, a_order, swizzle_bytes, smem_limit, raster, l2, "
            "epilogue",
        ),
    ],
)
def test_an_unknown_key_is_helped(refusal, change, line):
    assert first_line(refusal(change)) == line


def test_every_legal_path_is_known_to_the_locator():
    paths = legal_paths()
    for path in (
        ("gemm", "a", "dtype"),
        ("schedule", "tile", "k"),
        ("schedule", "registers", "producer"),
        ("schedule", "epilogue", "store_buffers"),
        ("verify", "tolerance", "factor"),
    ):
        assert path in paths


# --- kinds: the fields of a map depend on its `kind` ----------------------------------------------


def legal_kinds() -> str:
    kinds = kinds_at(("schedule",))
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def test_an_unknown_kind_lists_the_legal_ones_and_the_nearest(refusal):
    assert first_line(refusal({"kind: wgmma_ws": "kind: wgmma_wss"})) == (
        f"v6.yaml:9:9: schedule.kind: wgmma_wss is not one of {legal_kinds()}; "
        "the nearest is wgmma_ws"
    )
    assert first_line(refusal({"kind: wgmma_ws": "kind: [1]"})) == (
        f"v6.yaml:9:9: schedule.kind: [1] is not one of {legal_kinds()}"
    )


def test_a_missing_kind_says_so(refusal):
    assert first_line(refusal({"  kind: wgmma_ws\n": ""})) == (
        f"v6.yaml:9:3: schedule.kind: missing; one of {legal_kinds()}"
    )
    assert first_line(refusal({"kind: tma_turns, ": ""})) == (
        "v6.yaml:17:13: schedule.epilogue.kind: missing; one of tma_turns or direct"
    )


def test_a_key_of_another_kind_says_which(refusal):
    def lines(change: dict[str, str]) -> list[str]:
        return [x for x in refusal(change).split("\n") if x.startswith("v6")]

    assert lines({"kind: wgmma_ws": "kind: wgmma_single"}) == [
        f"v6.yaml:{line}:3: schedule.{key}: misplaced key, it belongs to schedule.kind wgmma_ws or "
        "wgmma_persistent, not wgmma_single"
        for line, key in ((13, "producer"), (14, "release"), (17, "epilogue"))
    ]
    assert lines({"kind: tma_turns": "kind: direct"}) == [
        "v6.yaml:17:28: schedule.epilogue.store_buffers: misplaced key, it belongs to "
        "schedule.epilogue.kind tma_turns, not direct"
    ]
    assert lines({"consumers: 4": "consumers: 4\n  warps: {m: 1}"}) == [
        "v6.yaml:12:3: schedule.warps: misplaced key, it belongs to schedule.kind mma_sync, "
        "not wgmma_ws"
    ]


def test_a_misspelt_key_is_compared_with_the_fields_of_its_kind(refusal):
    # `warps` of mma_sync would be nearest.
    found = first_line(refusal({"l2: {promotion": "warps_: 1\n  l2: {promotion"}))
    assert found.startswith("v6.yaml:16:3: schedule.warps_: unknown key, known here: kind, tile,")


def test_a_key_named_like_its_kind_does_not_shift_the_places(refusal):
    text = refusal({"kind: wgmma_ws": "kind: wgmma_ws\n  wgmma_ws: {tile: 1}", ", k: 64": ""})
    lines = [line for line in text.split("\n") if line.startswith("v6")]
    assert lines[0].startswith("v6.yaml:10:3: schedule.wgmma_ws: unknown key, known here: kind,")
    assert lines[1] == "v6.yaml:11:9: schedule.tile.k: missing"


def test_only_the_fields_of_the_kind_in_use_are_legal():
    single = legal_paths({"schedule": {"kind": "wgmma_single"}})
    assert ("schedule", "consumers") in single
    assert ("schedule", "release") not in single
    assert ("schedule", "warps", "m") not in single
    assert ("schedule", "release") in legal_paths({"schedule": {"kind": "none"}})
    assert kinds_at(("gemm",)) == ()


def test_a_duplicate_key_gives_both_lines(refusal):
    assert refusal({"stages: 3": "stages: 3\n  stages: 4"}) == (
        "v6.yaml:13:3: schedule.stages: duplicate key, first given in line 12\n"
        "    13 |   stages: 4\n"
        "       |   ^"
    )


def test_every_duplicate_is_reported_at_once(refusal):
    text = refusal({"name: sample": "name: sample\nname: b", "m: 256, n": "m: 256, m: 256, n"})
    assert [line for line in text.split("\n") if line.startswith("v6")] == [
        "v6.yaml:2:1: name: duplicate key, first given in line 1",
        "v6.yaml:11:18: schedule.tile.m: duplicate key, first given in line 11",
    ]


# --- values: one row per kind of pydantic error ---------------------------------------------------


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"target: sm_90a\n": ""}, "v6.yaml:1:1: target: missing"),
        ({", k: 64": ""}, "v6.yaml:10:9: schedule.tile.k: missing"),
        (
            {"accumulator: f16": "accumulator: fp16"},
            "v6.yaml:7:16: gemm.accumulator: fp16 is not one of f32, f16 or s32; "
            "the nearest is f16",
        ),
        (
            {"promotion_bytes: 128": "promotion_bytes: 100"},
            "v6.yaml:16:25: schedule.l2.promotion_bytes: 100 is not one of 0, 64, 128 or 256",
        ),
        (
            {"consumers: 4": "consumers: 99"},
            "v6.yaml:11:14: schedule.consumers: 99 should be less than or equal to 8",
        ),
        (
            {"consumers: 4": "consumers: 0"},
            "v6.yaml:11:14: schedule.consumers: 0 should be greater than or equal to 1",
        ),
        (
            {"stages: 3": "stages: three"},
            "v6.yaml:12:11: schedule.stages: three is not auto; or three should be a valid integer",
        ),
        (
            {"stages: 3": "stages: '3'"},
            'v6.yaml:12:11: schedule.stages: "3" is not auto; or "3" should be a valid integer',
        ),
        (
            {"stages: 3": "stages: 3.0"},
            "v6.yaml:12:11: schedule.stages: 3.0 is not auto; or 3.0 should be a valid integer",
        ),
        (
            {"stages: 3": "stages: true"},
            "v6.yaml:12:11: schedule.stages: true is not auto; or true should be a valid integer",
        ),
        (
            {"stages: 3": "stages:"},
            "v6.yaml:12:3: schedule.stages: null is not auto; or null should be a valid integer",
        ),
        (
            {"stages: 3": "stages: ''"},
            'v6.yaml:12:11: schedule.stages: "" is not auto; or "" should be a valid integer',
        ),
        (
            {"stages: 3": "stages: .inf"},
            "v6.yaml:12:11: schedule.stages: inf is not auto; or inf should be a valid integer",
        ),
        (
            {"raster: {along: n, group: 8}": "raster: 8"},
            "v6.yaml:15:11: schedule.raster: must be a map of fields, not 8",
        ),
        (
            {"name: sample": "name: 12"},
            "v6.yaml:1:7: name: 12 should be a valid string",
        ),
        (
            {"[512, 512, 256]": "[512, 512]"},
            "v6.yaml:19:12: verify.shapes[0][2]: missing",
        ),
        (
            {"[512, 512, 256]": "[1, 2, 3, 4]"},
            "v6.yaml:19:12: verify.shapes[0]: Tuple should have at most 3 items after validation, "
            "not 4",
        ),
        (
            {"[512, 512, 256]": "[512, -1, 256]"},
            "v6.yaml:19:18: verify.shapes[0][1]: -1 should be greater than or equal to 0",
        ),
        (
            {"[512, 512, 256]": "5"},
            "v6.yaml:19:12: verify.shapes[0]: 5 should be a list",
        ),
        (
            {"verify:": "verify:\n  tolerance: {factor: 1, reason: long enough}"},
            "v6.yaml:19:23: verify.tolerance.factor: 1 should be greater than 1",
        ),
        (
            {"verify:": "verify:\n  tolerance: {factor: 2, reason: x}"},
            "v6.yaml:19:34: verify.tolerance.reason: x should have at least 8 characters",
        ),
    ],
)
def test_a_wrong_value_is_refused_at_its_place(refusal, change, line):
    assert first_line(refusal(change)) == line


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("sm_90", f"v6.yaml:2:9: target: sm_90 {TARGETS}; the nearest is sm_90a"),
        ("sm_100", f"v6.yaml:2:9: target: sm_100 {TARGETS}; the nearest is sm_100a"),
        ("90a", f"v6.yaml:2:9: target: 90a {TARGETS}; the nearest is sm_90a"),
        ("compute_90a", f"v6.yaml:2:9: target: compute_90a {TARGETS}"),
    ],
)
def test_a_target_without_its_suffix_is_refused(refusal, target, line):
    assert first_line(refusal({"target: sm_90a": f"target: {target}"})) == line


def test_all_errors_are_reported_together_in_file_order(refusal):
    text = refusal(
        {
            "stages: 3": "stages: three",
            "target: sm_90a": "target: sm_90",
            "consumers: 4": "consumers: 99",
            "name: sample": "name: 3d",
        }
    )
    assert [line.split(": ")[0] for line in text.split("\n") if line.startswith("v6")] == [
        "v6.yaml:1:7",
        "v6.yaml:2:9",
        "v6.yaml:11:14",
        "v6.yaml:12:11",
    ]


# --- YAML ----------------------------------------------------------------------------------------


def test_tab_indentation_is_named(refusal):
    assert refusal({"  stages: 3": "\tstages: 3"}) == (
        "v6.yaml:12:1: a tab is used as indentation; YAML takes spaces only\n"
        "    12 | \tstages: 3\n"
        "       | ^"
    )


@pytest.mark.parametrize("word", ["no", "off", "on", "yes", "n", "y"])
def test_yaml_1_1_booleans_stay_text(refusal, word):
    assert first_line(refusal({"producer: warp": f"producer: {word}"})) == (
        f"v6.yaml:13:13: schedule.producer: {word} is not one of warp or warpgroup"
    )


def test_a_name_may_be_a_yaml_1_1_boolean(plan_of):
    assert plan_of({"name: sample": "name: off"}).name == "off"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"a: {dtype: f16, major: k}": "a: &x {dtype: f16, major: k}"},
            "v6.yaml:4:6: gemm.a: anchors and aliases are not used in specs; use `extends`",
        ),
        (
            {"stages: 3": "stages: &s 3"},
            "v6.yaml:12:11: schedule.stages: anchors and aliases are not used in specs; "
            "use `extends`",
        ),
        (
            {"a: {dtype": "a: &x {dtype", "b: {dtype": "b: &x {dtype"},
            "v6.yaml:4:6: gemm.a: anchors and aliases are not used in specs; use `extends`",
        ),
        (
            {"stages: 3": "stages: *nowhere"},
            "v6.yaml:12:11: found undefined alias 'nowhere'",
        ),
        (
            {"stages: 3": "stages: !!python/object:os.system 3"},
            "v6.yaml:12:11: schedule.stages: "
            "the tag tag:yaml.org,2002:python/object:os.system has no meaning here",
        ),
        (
            {"tile: {": "tile: !mine {"},
            "v6.yaml:10:9: schedule.tile: the tag !mine has no meaning here",
        ),
        (
            {"stages: 3": "stages: 2026-01-01"},
            "v6.yaml:12:11: schedule.stages: the tag tag:yaml.org,2002:timestamp has no meaning "
            "here",
        ),
        (
            {"stages: 3": "stages: !!bool maybe"},
            "v6.yaml:12:11: schedule.stages: cannot be read as a value of YAML type bool",
        ),
        (
            {"stages: 3": "stages: !!int"},
            "v6.yaml:12:11: schedule.stages: cannot be read as a value of YAML type int",
        ),
        (
            {"stages: 3": "stages: " + "9" * 5000},
            "v6.yaml:12:11: schedule.stages: cannot be read as a value of YAML type int",
        ),
        (
            {"stages: 3": "stages: \x01"},
            "v6.yaml:12:11: the character U+0001 is not allowed in YAML",
        ),
        ({"stages: 3": "? [a]\n  : 3"}, "v6.yaml:12:5: schedule: a key must be a plain word"),
        (
            {"a: {dtype: f16, major: k}": "a: {<<: {dtype: f16}, major: k}"},
            "v6.yaml:4:6: gemm.a.dtype: missing",
        ),
        (
            {"stages: 3": "stages: [3"},
            "v6.yaml:13:11: while parsing a flow sequence expected ',' or ']', but got ':'",
        ),
    ],
)
def test_yaml_beyond_maps_lists_and_scalars_is_refused(refusal, change, text):
    assert first_line(refusal(change)) == text


def test_a_billion_laughs_is_refused_at_once(refusal):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    text = refusal("\n".join(lines))
    assert "anchors and aliases are not used in specs" in first_line(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "v6.yaml:1:1: the file is empty"),
        ("# only a comment\n", "v6.yaml:1:1: the file is empty"),
        ("- a\n- b\n", "v6.yaml:1:1: the file is not a map of fields"),
        ("just text\n", "v6.yaml:1:1: the file is not a map of fields"),
        ("a: 1\n---\nb: 2\n", "v6.yaml:2:1: expected a single document in the stream but found "
         "another document"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_map_is_refused(refusal, text, line):
    assert first_line(refusal(text)) == line


@pytest.mark.parametrize("depth", [50, 63, 64, 1000, 500_000])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_deep_nesting_is_refused_and_never_crashes(refusal, depth, pair):
    inner = pair[0] + ("x: " if pair == "{}" else "")
    text = refusal("a: " + inner * depth + "1" + pair[1] * depth)
    column = 4 + 64 * len(inner)
    deep = f"v6.yaml:1:{column}: nested too deeply"
    expected = deep if depth > 64 else "v6.yaml:1:1: name: missing"
    assert first_line(text) == expected


@pytest.mark.parametrize("depth", [50, 200, 400, 900])
def test_deep_nesting_by_indentation_never_crashes(refusal, depth):
    for text in (
        "\n".join(" " * i + "x:" for i in range(depth)),
        "a:\n" + "- " * depth + "1",
    ):
        assert first_line(refusal(text)) in (
            "v6.yaml: nested too deeply",
            "v6.yaml:1:1: name: missing",
        )


def test_brackets_in_comments_do_not_count(plan_of):
    assert plan_of({"stages: 3": "stages: 3  # [0, 1)" + "[" * 100}).name == "sample"


def test_line_ends_and_byte_order_mark_do_not_matter(v6):
    plain = parse_spec(v6(), "v6.yaml")
    assert parse_spec(v6().replace("\n", "\r\n"), "v6.yaml").digest == plain.digest
    assert parse_spec("\ufeff" + v6(), "v6.yaml").digest == plain.digest


def test_comments_and_order_do_not_change_the_digest_but_values_do(v6):
    plain = parse_spec(v6(), "v6.yaml").digest
    assert parse_spec("# x\n" + v6(), "v6.yaml").digest == plain
    swapped = v6({"  consumers: 4\n": "", "  stages: 3\n": "  stages: 3\n  consumers: 4\n"})
    assert parse_spec(swapped, "v6.yaml").digest == plain
    assert parse_spec(v6({"stages: 3": "stages: 2"}), "v6.yaml").digest != plain
    assert len(plain) == 12


def test_a_default_written_out_is_the_same_spec(v6):
    plain = parse_spec(v6(), "v6.yaml").digest
    shorter = v6({"  l2: {promotion_bytes: 128}\n": "", "  producer: warp\n": ""})
    assert parse_spec(shorter, "v6.yaml").digest == plain


# --- files ---------------------------------------------------------------------------------------


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert load_error(tmp_path / "no.yaml") == f"{tmp_path / 'no.yaml'}: No such file or directory"
    assert load_error(tmp_path) == f"{tmp_path}: Is a directory"


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path, v6):
    path = tmp_path / "x.yaml"
    path.write_bytes(v6().encode() + b"# gr\xfc\xdfe\n")
    assert load_error(path) == f"{path}:20:1: byte {len(v6()) + 4} is not UTF-8"


def test_a_huge_file_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (LONGEST_FILE + 1))
    assert load_error(path) == f"{path}: more than 1048576 bytes; no spec is as long"


def test_the_label_is_the_place_below_specs(tmp_path, v6):
    inside = tmp_path / "specs" / "hopper" / "x.yaml"
    inside.parent.mkdir(parents=True)
    outside = tmp_path / "y.yaml"
    for path in (inside, outside):
        path.write_text(v6())
    assert load_spec(inside).label == "hopper/x.yaml"
    assert load_spec(outside).label == "y.yaml"


# --- extends -------------------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path, v6):
    (tmp_path / "base.yaml").write_text(v6())
    return tmp_path


def test_maps_merge_and_lists_and_scalars_replace(base):
    (base / "x.yaml").write_text(
        "extends: base.yaml\nname: other\n"
        "schedule:\n  stages: 2\n  tile: {k: 32}\n"
        "verify: {shapes: [[1, 8, 64]]}\n"
    )
    spec = load_spec(base / "x.yaml").spec
    assert (spec.name, spec.schedule.stages) == ("other", 2)
    tile = spec.schedule.tile
    assert (tile.m, tile.n, tile.k) == (256, 256, 32)
    assert spec.verify.shapes == ((1, 8, 64),)
    assert spec.schedule_as(WgmmaWs).consumers == 4


def test_extends_goes_through_folders_and_several_files(base):
    (base / "sub").mkdir()
    (base / "sub" / "x.yaml").write_text("extends: ../base.yaml\nname: x\nschedule: {stages: 2}\n")
    (base / "y.yaml").write_text("extends: sub/x.yaml\nname: y\ngemm: {a: {major: m}}\n")
    spec = load_spec(base / "y.yaml").spec
    assert (spec.name, spec.schedule.stages, spec.gemm.a.major) == ("y", 2, "m")


def test_the_digest_is_of_the_resolved_spec(base, v6):
    (base / "x.yaml").write_text("extends: base.yaml\nname: other\nschedule: {stages: 2}\n")
    (base / "flat.yaml").write_text(v6({"stages: 3": "stages: 2", "name: sample": "name: other"}))
    assert load_spec(base / "x.yaml").digest == load_spec(base / "flat.yaml").digest


def test_an_error_points_into_the_file_that_set_the_value(base, v6):
    (base / "base.yaml").write_text(v6({"stages: 3": "stages: 0"}))
    (base / "x.yaml").write_text("extends: base.yaml\nname: x\nschedule: {consumers: 9}\n")
    assert load_error(base / "x.yaml") == (
        f"{base / 'base.yaml'}:12:11: schedule.stages: 0 is not auto; "
        "or 0 should be greater than or equal to 1\n"
        "    12 |   stages: 0\n"
        "       |           ^\n"
        f"{base / 'x.yaml'}:3:23: schedule.consumers: 9 should be less than or equal to 8\n"
        "     3 | schedule: {consumers: 9}\n"
        "       |                       ^"
    )


def test_a_replaced_value_leaves_no_place_behind(base):
    (base / "x.yaml").write_text("extends: base.yaml\nname: x\nschedule: {tile: 4}\n")
    assert first_line(load_error(base / "x.yaml")) == (
        f"{base / 'x.yaml'}:3:18: schedule.tile: must be a map of fields, not 4"
    )


def test_a_cycle_is_drawn(tmp_path):
    (tmp_path / "a.yaml").write_text("extends: b.yaml\nname: a\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\nname: b\n")
    assert first_line(load_error(tmp_path / "a.yaml")) == (
        f"{tmp_path / 'b.yaml'}:1:10: extends: a spec extends itself: a.yaml -> b.yaml -> a.yaml"
    )
    (tmp_path / "c.yaml").write_text("extends: c.yaml\nname: c\n")
    assert first_line(load_error(tmp_path / "c.yaml")) == (
        f"{tmp_path / 'c.yaml'}:1:10: extends: a spec extends itself: c.yaml -> c.yaml"
    )


def test_a_chain_has_at_most_16_specs(base):
    for i in range(20):
        target = f"s{i + 1}.yaml" if i < 19 else "base.yaml"
        (base / f"s{i}.yaml").write_text(f"extends: {target}\nname: s{i}\n")
    assert "extends: more than 16 specs deep" in load_error(base / "s0.yaml")
    assert load_spec(base / "s6.yaml").spec.name == "s6"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("nowhere.yaml", "no such spec: {folder}/nowhere.yaml"),
        ("[base.yaml]", "name one spec file, relative to this one: v5.yaml"),
        ("3", "name one spec file, relative to this one: v5.yaml"),
        ("base", "name one spec file, relative to this one: v5.yaml"),
        ("", "name one spec file, relative to this one: v5.yaml"),
    ],
)
def test_a_wrong_base_is_refused(base, value, what):
    (base / "x.yaml").write_text(f"name: x\nextends: {value}\n")
    line = first_line(load_error(base / "x.yaml"))
    assert line.split(": ", 1)[0].startswith(f"{base / 'x.yaml'}:2:")
    assert line.endswith(f": extends: {what.format(folder=base)}")


def test_a_spec_that_extends_needs_a_name_of_its_own(base):
    (base / "x.yaml").write_text("extends: base.yaml\nschedule: {stages: 2}\n")
    assert first_line(load_error(base / "x.yaml")) == (
        f"{base / 'x.yaml'}:1:10: name: a spec that extends another needs a name of its own: "
        "two kernels cannot share one"
    )


def test_text_without_a_file_cannot_extend(refusal):
    assert first_line(refusal({"name: sample": "extends: x.yaml\nname: sample"})) == (
        "v6.yaml:1:1: extends: only a spec that is a file can extend another"
    )


def test_the_shipped_v6_is_the_spec_of_these_tests(specs_folder, v6):
    shipped = load_spec(specs_folder / "hopper" / "v6.yaml")
    changes = {
        "name: sample": "name: hopper_v6",
        "producer: warp": "producer: warp\n  a_order: [0, 2, 3, 1]",
    }
    assert shipped.digest == parse_spec(v6(changes)).digest
