"""The drift check: every way in which a generated file can stop being what its spec renders to."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from pathlib import Path

import pytest

from kgen import check
from kgen.errors import KgenError
from kgen.render import EVIDENCE_BEGIN, EVIDENCE_END, NO_EVIDENCE


@pytest.fixture
def tree(tmp_path, v6, monkeypatch):
    """A project with one spec, `specs/hopper/x.yaml`, and its generated files; relative paths."""
    monkeypatch.chdir(tmp_path)
    spec = Path("specs/hopper/x.yaml")
    spec.parent.mkdir(parents=True)
    spec.write_text(v6())
    for output in check.render_all([spec], Path("generated")):
        check.write(output)
    return tmp_path


SOURCE, HEADER = Path("generated/hopper/sample.cu"), Path("generated/hopper/sample.h")
REPAIR = "kgen render specs/hopper/x.yaml"


def drifts() -> list[tuple[str, str, str, str]]:
    found = check.check(check.find_specs([Path("specs")]), Path("generated"))
    return [(str(d.path), d.kind, d.what, d.repair) for d in found]


def diff_of(path: Path) -> str:
    found = check.check(check.find_specs([Path("specs")]), Path("generated"))
    return next(d.diff for d in found if d.path == path)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_fresh_tree_is_clean(tree):
    assert drifts() == []


def test_one_changed_byte_is_an_edit_with_its_diff(tree):
    edit(SOURCE, "constexpr int kStages = 3;", "constexpr int kStages = 4;")
    assert drifts() == [
        (
            "generated/hopper/sample.cu",
            "edited",
            "changed by hand or by a formatter since it was generated",
            REPAIR,
        )
    ]
    lines = diff_of(SOURCE).split("\n")
    assert lines[:2] == [
        "--- generated/hopper/sample.cu (on disk)",
        "+++ generated/hopper/sample.cu (rendered)",
    ]
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-constexpr int kStages = 4;          // depth of the A/B ring",
        "+constexpr int kStages = 3;          // depth of the A/B ring",
    ]


def test_a_formatter_over_the_tree_is_an_edit_of_each_file(tree):
    for path in (SOURCE, HEADER):
        path.write_text(path.read_text().replace("    ", "  "))
    assert [row[:2] for row in drifts()] == [
        ("generated/hopper/sample.cu", "edited"),
        ("generated/hopper/sample.h", "edited"),
    ]


@pytest.mark.parametrize("change", [lambda t: t + "\n", lambda t: t[:-1], lambda t: t + "// x\n"])
def test_a_change_of_the_last_line_is_found(tree, change):
    SOURCE.write_text(change(SOURCE.read_text()))
    assert [row[1] for row in drifts()] == ["edited"]


def test_a_deleted_file_is_missing(tree):
    HEADER.unlink()
    assert drifts() == [
        (
            "generated/hopper/sample.h",
            "missing",
            "specs/hopper/x.yaml renders to it",
            REPAIR,
        )
    ]


def test_a_tree_without_generated_files_misses_all(tree):
    SOURCE.unlink()
    HEADER.unlink()
    HEADER.parent.rmdir()
    assert [row[1] for row in drifts()] == ["missing", "missing"]


def test_a_file_without_a_spec_is_an_orphan(tree, v6):
    Path("specs/y.yaml").write_text(v6({"name: sample": "name: other"}))
    for output in check.render_all([Path("specs/y.yaml")], Path("generated")):
        check.write(output)
    Path("specs/y.yaml").unlink()
    assert drifts() == [
        ("generated/other.cu", "orphan", "no spec renders to it", "rm generated/other.cu"),
        ("generated/other.h", "orphan", "no spec renders to it", "rm generated/other.h"),
    ]


def test_a_renamed_kernel_leaves_an_orphan_and_misses_a_file(tree, v6):
    Path("specs/hopper/x.yaml").write_text(v6({"name: sample": "name: other"}))
    assert sorted(row[:2] for row in drifts()) == [
        ("generated/hopper/other.cu", "missing"),
        ("generated/hopper/other.h", "missing"),
        ("generated/hopper/sample.cu", "orphan"),
        ("generated/hopper/sample.h", "orphan"),
    ]


def test_foreign_files_are_left_alone(tree):
    Path("generated/hopper/notes.md").write_text("mine\n")
    Path("generated/hopper/own.cu").write_text("// written by hand\n")
    assert drifts() == []


def test_a_changed_spec_makes_its_files_stale(tree, v6):
    Path("specs/hopper/x.yaml").write_text(v6({"stages: 3": "stages: 2"}))
    assert drifts() == [
        (
            "generated/hopper/sample.cu",
            "stale",
            "the spec, a template or kgen has changed since it was generated",
            REPAIR,
        )
    ]
    assert "+constexpr int kStages = 2;" in diff_of(SOURCE)


def test_a_comment_in_the_spec_makes_nothing_stale(tree, v6):
    Path("specs/hopper/x.yaml").write_text("# why\n" + v6())
    assert drifts() == []


def test_another_version_makes_both_files_stale(tree, monkeypatch):
    monkeypatch.setattr(sys.modules["kgen.render"], "__version__", "9.9.9")
    assert [row[:2] for row in drifts()] == [
        ("generated/hopper/sample.cu", "stale"),
        ("generated/hopper/sample.h", "stale"),
    ]


def test_another_template_makes_the_source_stale(tree, monkeypatch):
    monkeypatch.setattr(sys.modules["kgen.render"], "_digest_of", lambda files: "0123456789ab")
    assert [row[:2] for row in drifts()] == [("generated/hopper/sample.cu", "stale")]


def test_crlf_only_is_told_as_such(tree):
    for path in (SOURCE, HEADER):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert drifts() == [
        (
            str(path),
            "line endings",
            "only the line endings differ (CRLF); a checkout converted them",
            f"git add --renormalize {path}, or {REPAIR}",
        )
        for path in (SOURCE, HEADER)
    ]


def test_crlf_beside_an_edit_is_an_edit(tree):
    text = SOURCE.read_text().replace("kStages = 3", "kStages = 4")
    SOURCE.write_bytes(text.replace("\n", "\r\n").encode())
    assert [row[1] for row in drifts()] == ["edited"]


def test_the_content_of_the_evidence_does_not_count(tree):
    edit(SOURCE, NO_EVIDENCE, "//   built by nvrtc 13, 90 registers\n//   ran on an H200")
    assert drifts() == []


@pytest.mark.parametrize("mark", [EVIDENCE_BEGIN, EVIDENCE_END])
def test_a_missing_evidence_block_is_an_edit(tree, mark):
    edit(SOURCE, mark + "\n", "")
    assert drifts() == [
        (
            "generated/hopper/sample.cu",
            "edited",
            "the evidence block is missing from the header",
            REPAIR,
        )
    ]


@pytest.mark.parametrize(
    "code",
    ["#define kStages 4", '#include "x.h"', "int x;", "", " // indented", "// on \\", "// on \\ "],
)
def test_code_inside_the_evidence_block_is_an_edit(tree, code):
    edit(SOURCE, NO_EVIDENCE, f"{NO_EVIDENCE}\n{code}")
    assert [row[1:3] for row in drifts()] == [
        ("edited", "the evidence block holds more than comments")
    ]
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("generated"))
    assert check.write(output) == [SOURCE]
    assert drifts() == []


def test_a_second_evidence_block_is_an_edit(tree):
    block = f"{EVIDENCE_BEGIN}\n{NO_EVIDENCE}\n{EVIDENCE_END}\n"
    SOURCE.write_text(SOURCE.read_text() + block)
    assert [row[1] for row in drifts()] == ["edited"]


def test_a_binary_file_is_unreadable(tree):
    SOURCE.write_bytes(b"\xff\xfe\x00")
    assert [row[1:3] for row in drifts()] == [("unreadable", "not UTF-8 text")]


def test_a_folder_in_the_place_of_a_file_is_missing(tree):
    SOURCE.unlink()
    SOURCE.mkdir()
    assert [row[1] for row in drifts()] == ["missing"]


def test_the_repair_repairs(tree):
    edit(SOURCE, "kStages = 3", "kStages = 4")
    HEADER.unlink()
    for output in check.render_all([Path("specs/hopper/x.yaml")], Path("generated")):
        assert check.write(output) == [SOURCE, HEADER]
    assert drifts() == []


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda t: t.removesuffix("\n"), "(no newline at the end of the file)"),
        (lambda t: t.replace("kStages = 3;", "kStages = 3;\r"), "kStages = 3;\\r"),
        (lambda t: "\ufeff" + t, "-\\ufeff// sample.cu"),
    ],
)
def test_a_diff_shows_what_cannot_be_seen(tree, change, shown):
    SOURCE.write_bytes(change(SOURCE.read_text()).encode())
    assert shown in diff_of(SOURCE)


def test_a_byte_order_mark_is_named(tree):
    SOURCE.write_bytes(b"\xef\xbb\xbf" + SOURCE.read_bytes())
    assert [row[1:3] for row in drifts()] == [
        ("edited", "an editor put a byte order mark at its start")
    ]


def test_a_bad_spec_hides_no_drift_of_the_others_and_makes_no_orphans(tree, v6):
    Path("specs/y.yaml").write_text(v6({"name: sample": "name: other"}))
    for output in check.render_all([Path("specs/y.yaml")], Path("generated")):
        check.write(output)
    Path("specs/y.yaml").write_text(v6({"stages: 3": "stage: 3"}))
    HEADER.unlink()
    rows = drifts()
    assert [row[:2] for row in rows] == [
        ("generated/hopper/sample.h", "missing"),
        ("specs/y.yaml", "bad spec"),
    ]
    assert rows[1][2].startswith("specs/y.yaml:12:3: schedule.stage: unknown key")


def test_the_repair_is_a_command_of_the_shell_that_repairs_that_folder(tree):
    spec, folder = Path("specs/hopper/x.yaml").rename("specs/hopper/a b.yaml"), "else where/out"
    (usual,) = check.check([spec], Path("generated"))
    assert shlex.split(usual.repair) == ["kgen", "render", "specs/hopper/a b.yaml"]
    (first, _) = check.check([spec], Path(folder))
    words = shlex.split(first.repair)
    assert words == ["kgen", "render", "specs/hopper/a b.yaml", "-o", "else where/out/hopper"]
    for output in check.render_all([Path(words[2])], Path(words[4]), mirror=False):
        check.write(output)
    assert check.check([spec], Path(folder)) == []


# --- writing --------------------------------------------------------------------------------------


def test_an_unchanged_file_is_not_written_again(tree):
    os.utime(SOURCE, (1, 1))
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("generated"))
    assert check.write(output) == []
    assert SOURCE.stat().st_mtime == 1


def test_evidence_survives_a_render_of_the_same_source_only(tree, v6):
    edit(SOURCE, NO_EVIDENCE, "//   ran on an H200")
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("generated"))
    assert check.write(output) == []
    assert "ran on an H200" in SOURCE.read_text()
    Path("specs/hopper/x.yaml").write_text(v6({"stages: 3": "stages: 2"}))
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("generated"))
    assert check.write(output) == [SOURCE]
    assert "ran on an H200" not in SOURCE.read_text()


def test_a_waiting_link_in_the_place_of_the_partial_file_is_not_followed(tree):
    victim = tree / "victim"
    victim.write_text("untouched")
    partial = SOURCE.with_name(f".sample.cu.{os.getpid()}.partial")
    partial.symlink_to(victim)
    SOURCE.unlink()
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("generated"))
    check.write(output)
    assert victim.read_text() == "untouched"
    assert not partial.is_symlink()


def test_nothing_partial_is_left_behind(tree):
    assert sorted(os.listdir("generated/hopper")) == ["sample.cu", "sample.h"]


def test_a_folder_that_cannot_be_made_is_an_error_with_a_text(tree):
    (output,) = check.render_all([Path("specs/hopper/x.yaml")], Path("specs/hopper/x.yaml"))
    with pytest.raises(NotADirectoryError) as caught:
        check.write(output)
    where = "specs/hopper/x.yaml/hopper"
    assert (caught.value.filename, caught.value.strerror) == (where, "not a folder")


# --- finding --------------------------------------------------------------------------------------


def test_specs_are_found_sorted_and_sweeps_are_not_kernels(tree, v6):
    Path("specs/a.yml").write_text(v6())
    Path("specs/b.sweep.yaml").write_text("base: x\n")
    Path("specs/c.txt").write_text("")
    assert check.find_specs([Path("specs")]) == [Path("specs/a.yml"), Path("specs/hopper/x.yaml")]


def test_a_path_that_does_not_exist_is_an_error():
    with pytest.raises(KgenError) as caught:
        check.find_specs([Path("nowhere")])
    assert str(caught.value) == "nowhere: no such spec file or folder"


def test_a_folder_that_cannot_be_read_is_an_error(tree, monkeypatch):
    scan = os.scandir

    def locked(path):
        if str(path).endswith("hopper"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", locked)
    for action in (
        lambda: check.find_specs([Path("specs")]),
        lambda: check.check([], Path("generated")),
    ):
        with pytest.raises(PermissionError):
            action()


def test_a_folder_without_specs_is_an_error(tree):
    Path("empty").mkdir()
    with pytest.raises(KgenError) as caught:
        check.find_specs([Path("specs"), Path("empty")])
    assert str(caught.value) == "empty: no specs in this folder"


@pytest.mark.parametrize(
    ("spec", "folder"),
    [
        ("specs/../../outside/v6.yaml", "out"),
        ("specs/a/../b/v6.yaml", "out/b"),
        ("specs/hopper/v6.yaml", "out/hopper"),
        ("/x/specs/v6.yaml", "out"),
        ("a/specs/b/specs/c/v6.yaml", "out/c"),
        ("v6.yaml", "out"),
        ("specs", "out"),
    ],
)
def test_generated_mirrors_the_nearest_specs_folder(spec, folder):
    assert check.folder_of(Path(spec), Path("out")) == Path(folder)
