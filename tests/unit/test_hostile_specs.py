"""Specs made to break the reader: each is refused with a text and a place, at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgen import check
from kgen.errors import Diagnostic, SpecError
from kgen.spec import load_spec, parse_spec


def refused(path: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    "number", ["0x" + "f" * 5000, "0x" + "f" * 20, "9" * 400, "9" * 4000, "-" + "9" * 30]
)
@pytest.mark.parametrize("field", ["stages: 3", "promotion_bytes: 128"])
def test_a_number_beyond_every_field_is_no_number(refusal, field, number):
    key = field.split(":")[0]
    lines = refusal({field: f"{key}: {number}"}).split("\n")
    assert lines[0].endswith(f".{key}: cannot be read as a value of YAML type int")
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize("limit", ["9" * 400, "'" + "9" * 400 + "B'", "9" * 5000 + "KiB"])
def test_a_size_of_any_length_is_an_error_and_no_crash(refusal, limit):
    text = refusal({"stages: 3": f"stages: 3\n  smem_limit: {limit}"})
    assert text.startswith("v6.yaml:13:15: schedule.smem_limit: ")
    assert max(map(len, text.split("\n"))) < 200


@pytest.mark.parametrize("limit", ["0B", "0KiB", "00 MiB"])
def test_no_shared_memory_is_no_limit(refusal, limit):
    text = refusal({"stages: 3": f"stages: 3\n  smem_limit: {limit}"})
    first = f"v6.yaml:13:15: schedule.smem_limit: {limit} should be more than 0 bytes"
    assert text.split("\n")[0] == first


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"promotion_bytes: 128": "promotion_bytes: false"}, "false"),
        ({"promotion_bytes: 128": "promotion_bytes: 128.0"}, "128.0"),
        ({"stages: 3": "stages: 3\n  swizzle_bytes: 64.0"}, "64.0"),
    ],
)
def test_what_only_equals_a_number_is_refused(refusal, change, what):
    assert refusal(change).split("\n")[0].endswith(f": {what} should be a whole number")


@pytest.mark.parametrize("above", ["", "# why\n\n", "# why\r\n"])
def test_a_yaml_directive_is_refused(refusal, v6, above):
    text = refusal(f"{above}%YAML 1.1\n---\n{v6()}")
    line = above.count("\n") + 1
    assert text.split("\n")[:2] == [
        f"v6.yaml:{line}:1: YAML directives are not used in specs",
        f"{line:>6} | %YAML 1.1",
    ]


def test_long_words_are_cropped(refusal):
    for change in (
        {"stages: 3": "x" * 5000 + ": 3"},
        {"stages: 3": "stages: !" + "x" * 5000 + " 3"},
        {"stages: 3": "stages: *" + "x" * 5000},
        {"accumulator: f16": "accumulator: " + "x" * 5000},
    ):
        assert max(map(len, refusal(change).split("\n"))) < 560


def test_control_characters_are_shown_and_not_obeyed(refusal):
    text = refusal({"accumulator: f16": 'accumulator: "\\e[31m\\0\\u202e"'})
    assert text.startswith("v6.yaml:7:16: gemm.accumulator: \\x1b[31m\\x00\\u202e is not one of ")
    shown = Diagnostic("x", 1, 4, "a\tb", "no", "a\x1b\tb")
    assert str(shown) == "x:1:4: a\\tb: no\n     1 | a\\x1b\tb\n       |       ^"


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_a_line_is_what_yaml_calls_a_line(refusal, mark):
    text = refusal({"name: sample": f"name: sample  # a{mark}# b", "stages: 3": "stages: 99"})
    assert text.split("\n")[1] == "    12 |   stages: 99"


def test_an_error_at_the_end_of_the_file_shows_its_last_line(refusal):
    assert refusal("a: [1,\n\n") == (
        "v6.yaml:1:7: while parsing a flow node expected the node content, "
        "but found '<stream end>'\n"
        "     1 | a: [1,\n"
        "       |       ^"
    )


def test_a_map_behind_a_map_in_braces_is_named_in_words(refusal):
    assert refusal("{name: x}\ntarget: y\n").split("\n")[0] == (
        "v6.yaml:2:1: expected '<document start>', but found '<block mapping start>'"
    )


def test_an_illegal_character_and_deep_nesting_show_their_line(refusal):
    assert refusal({"stages: 3": "stages: \x01"}).split("\n")[1:] == [
        "    12 |   stages: \\x01",
        "       |           ^",
    ]
    assert refusal("a:\n  " + "[" * 70).split("\n")[0] == "v6.yaml:2:67: nested too deeply"


def test_a_byte_order_mark_moves_no_place(tmp_path, v6):
    path = tmp_path / "x.yaml"
    path.write_text("\ufeff" + v6({"name: sample": "name: 3d"}), encoding="utf-8")
    assert refused(path)[1:] == ["     1 | name: 3d", "       |       ^"]


# --- files ----------------------------------------------------------------------------------------


def test_only_a_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert refused(tmp_path / "pipe.yaml") == [f"{tmp_path}/pipe.yaml: not a regular file"]
    assert refused(Path("/dev/zero")) == ["/dev/zero: not a regular file"]
    os.mkfifo(tmp_path / "other")
    (tmp_path / "x.yaml").symlink_to("other")
    assert refused(tmp_path / "x.yaml") == [f"{tmp_path}/x.yaml: not a regular file"]


def test_no_more_of_a_file_is_read_than_a_spec_has(tmp_path):
    path = tmp_path / "x.yaml"
    with path.open("wb") as file:
        file.truncate(20 << 30)
    assert refused(path) == [f"{path}: more than 1048576 bytes; no spec is as long"]


@pytest.mark.parametrize(
    ("base", "what"),
    [
        ('"\\0.yaml"', "name one spec file, relative to this one: v5.yaml"),
        ('"\\ud800.yaml"', "name one spec file, relative to this one: v5.yaml"),
        ("loop.yaml", "loop.yaml: Too many levels of symbolic links"),
        ("pipe.yaml", "pipe.yaml: not a regular file"),
        ("folder.yaml", "folder.yaml: Is a directory"),
        ("x.yaml/x.yaml", "x.yaml/x.yaml: Not a directory"),
        ("n" * 300 + ".yaml", "File name too long"),
    ],
)
def test_a_base_that_cannot_be_read_is_refused_where_it_is_named(tmp_path, base, what):
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    spec = tmp_path / "x.yaml"
    spec.write_text(f"extends: {base}\nname: x\n")
    first = refused(spec)[0]
    assert first.startswith(f"{spec}:1:10: extends: ")
    assert first.endswith(what) or len(base) > 255


@pytest.mark.skipif(os.geteuid() == 0, reason="root may search every folder")
def test_a_spec_in_a_locked_folder_is_refused(tmp_path, v6):
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "x.yaml").write_text(v6())
    (tmp_path / "y.yaml").write_text("extends: locked/x.yaml\nname: y\n")
    (tmp_path / "locked").chmod(0)
    try:
        assert refused(tmp_path / "locked" / "x.yaml") == [
            f"{tmp_path}/locked/x.yaml: Permission denied"
        ]
        assert "Permission denied" in refused(tmp_path / "y.yaml")[0]
        with pytest.raises(PermissionError):
            check.find_specs([tmp_path])
    finally:
        (tmp_path / "locked").chmod(0o700)


# --- nearest keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("stage", "schedule.stages"),
        ("consumer_group", "schedule.consumers"),
        ("tiles", "schedule.tile"),
        ("nane", "`name`"),
    ],
)
def test_a_misspelt_key_at_the_top_names_the_nearest_of_all(v6, key, field):
    with pytest.raises(SpecError, match=f"{key}: unknown key, the nearest is {field}"):
        parse_spec(f"{v6()}{key}: 4\n", "v6.yaml")
