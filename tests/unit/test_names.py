"""Kernel names: one text becomes a C identifier, a file stem and a comment."""

from __future__ import annotations

import os
import re

import pytest
import reserve

from kgen import check
from kgen.errors import KgenError

NOT_PLAIN = "is no kernel name: ASCII letters, digits and single underscores, letter first"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("../../tmp/x", "'../../tmp/x'"),
        ("/etc/passwd", "'/etc/passwd'"),
        ("C:\\x", "'C:\\\\x'"),
        ("'k; }//'", "'k; }//'"),
        ("'k */ int x;'", "'k */ int x;'"),
        ('"a\\nb"', "'a\\nb'"),
        ('"a\\n"', "'a\\n'"),
        ('"a\\\\"', "'a\\\\'"),
        ('"a\\0"', "'a\\x00'"),
        ("größe", "'gr\\xf6\\xdfe'"),
        ('"k\\u0435rnel"', "'k\\u0435rnel'"),
        ('"k\\u202e"', "'k\\u202e'"),
        ("_kernel", "'_kernel'"),
        ("a__b", "'a__b'"),
        ("kernel_", "'kernel_'"),
        ("3d", "'3d'"),
        ("''", "''"),
        ("a b", "'a b'"),
        ("a.b", "'a.b'"),
        ("a-b", "'a-b'"),
        ("$a", "'$a'"),
    ],
)
def test_anything_but_a_plain_identifier_is_refused(refusal, written, shown):
    first = refusal({"name: sample": f"name: {written}"}).split("\n")[0]
    assert first == f"v6.yaml:1:7: name: {shown} {NOT_PLAIN}"


@pytest.mark.parametrize(
    "word",
    ["int", "class", "co_await", "main", "std", "uint16_t", "ptx", "cudaMalloc", "exp", "kTileM"],
)
def test_keywords_and_names_of_generated_code_are_refused(refusal, word):
    first = refusal({"name: sample": f"name: {word}"}).split("\n")[0]
    assert first == f"v6.yaml:1:7: name: '{word}' is reserved in CUDA C++"


@pytest.mark.parametrize(
    "word",
    [
        *("threadIdx", "blockIdx", "warpSize", "int4", "float2", "CUDA_R_16F", "cuda_runtime"),
        *("assert", "NAN", "M_PI", "EOF", "fopen", "index", "stdin", "cabs", "write"),
    ],
)
def test_names_of_headers_and_of_the_c_library_are_refused(refusal, word):
    first = refusal({"name: sample": f"name: {word}"}).split("\n")[0]
    assert first == f"v6.yaml:1:7: name: '{word}' is reserved in CUDA C++"


def test_global_names_are_told_from_parameters_members_and_scopes():
    text = """
    # 1 "x.h"
    typedef int number; struct point { int x; double (*get)(int); }; extern "C" { void f(int a); }
    enum colour { red, green = 3 }; enum class shape { round }; namespace n { int inner; }
    template <typename Type> Type twice(Type y); typedef void (*hook)(void *data);
    inline int g(int b) { int local = 1; return local; } int last[3];
    """
    found = set(reserve.global_names(text))
    names = {"number", "point", "f", "colour", "red", "green", "shape", "n", "twice", "hook", "g"}
    assert names | {"last"} <= found
    assert not {"x", "a", "get", "round", "inner", "data", "b", "local", "y"} & found


def test_names_that_the_generated_file_declares_are_refused(source_of, code_only, refusal):
    source = re.sub(r"namespace ptx \{.*// namespace ptx", "", source_of(), flags=re.S)
    code = code_only(source)
    types = re.findall(r"^(?:struct|class|using)\b(?: alignas\(\d+\))? (\w+)", code, re.M)
    variables = re.findall(r"^constexpr [\w ]*?(\w+) =", code, re.M)
    variables += re.findall(r"^(?:thread_local|std::atomic)\S* (?:int )?(\w+)", code, re.M)
    functions = re.findall(r"^(?!static_assert)\w[\w ]*[ *&](\w+)\(", code, re.M)
    declared = {n for n in (*types, *variables, *functions) if not n.startswith("sample")}
    assert {"TensorMap", "kTileM", "kMapA", "tiles", "produce", "prepared"} <= declared
    for name in sorted(declared - {"__launch_bounds__"}):
        first = refusal({"name: sample": f"name: {name}"}).split("\n")[0]
        assert first.startswith("v6.yaml:1:7: name: "), name


def test_no_local_of_the_launcher_can_hide_the_kernel(source_of, code_only):
    host = code_only(source_of({"name: sample": "name: zebra"})).partition("enum zebra_status")[2]
    assert re.findall(r"(\S*)\bzebra\b", host) == ["::", "void*>(&::"]


def test_a_name_has_at_most_63_characters(plan_of, refusal):
    assert plan_of({"name: sample": f"name: {'k' * 63}"}).name == "k" * 63
    first = refusal({"name: sample": f"name: {'k' * 300}"}).split("\n")[0]
    assert first == "v6.yaml:1:7: name: 300 characters; a kernel name has at most 63"


@pytest.mark.parametrize("name", ["a", "V6", "hopper_f16_256x256", "k3_x9"])
def test_plain_names_are_taken(plan_of, name):
    assert plan_of({"name: sample": f"name: {name}"}).name == name


@pytest.mark.parametrize("other", ["sample", "Sample", "SAMPLE"])
def test_two_specs_cannot_share_a_name_even_in_another_case(tmp_path, v6, other):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(v6())
    second.write_text(v6({"name: sample": f"name: {other}"}))
    with pytest.raises(KgenError) as caught:
        check.render_all([first, second], tmp_path / "out")
    assert str(caught.value) == (
        f"{second}: name: {other} is also the name of {first} "
        "(names that differ only in case collide on some file systems)"
    )


def test_output_stays_below_the_chosen_folder(tmp_path, v6):
    spec = tmp_path / "specs" / "x.yaml"
    spec.parent.mkdir()
    spec.write_text(v6())
    (output,) = check.render_all([spec], tmp_path / "out")
    written = check.write(output)
    assert written == [tmp_path / "out" / "sample.cu", tmp_path / "out" / "sample.h"]
    assert sorted(os.listdir(tmp_path / "out")) == ["sample.cu", "sample.h"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_links_inside_the_output_are_not_followed(tmp_path, v6, what):
    spec = tmp_path / "specs" / "hopper" / "x.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text(v6())
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "victim"
    target.write_text("untouched")
    if what == "file":
        (out / "hopper").mkdir(parents=True)
        link = out / "hopper" / "sample.cu"
        link.symlink_to(target)
    else:
        out.mkdir()
        link = out / "hopper"
        link.symlink_to(elsewhere)
    (output,) = check.render_all([spec], out)
    with pytest.raises(KgenError) as caught:
        check.write(output)
    assert str(caught.value) == (
        f"{out / 'hopper' / 'sample.cu'}: {link} is a symbolic link; kgen does not write through it"
    )
    assert target.read_text() == "untouched"
    assert os.listdir(elsewhere) == ["victim"]


def test_a_folder_above_the_chosen_output_may_be_a_link(tmp_path, v6):
    spec = tmp_path / "x.yaml"
    spec.write_text(v6())
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    (output,) = check.render_all([spec], tmp_path / "home" / "out")
    check.write(output)
    assert sorted(os.listdir(tmp_path / "real" / "out")) == ["sample.cu", "sample.h"]


@pytest.mark.parametrize("folder", ["a*", "x\\", "*/ evil"])
def test_the_place_of_the_spec_cannot_end_or_continue_the_header_comment(tmp_path, v6, folder):
    spec = tmp_path / "specs" / folder.replace("/", "_") / "v?\n*.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text(v6())
    (output,) = check.render_all([spec], tmp_path / "out")
    for text in output.rendered.files.values():
        assert "*/" not in text
        assert "\\\n" not in text
    line = output.rendered.source.splitlines()[1]
    assert line.startswith("// spec ")
    assert line.split("   ")[0].split()[2].endswith("/v___.yaml")


def test_the_reason_of_a_tolerance_does_not_reach_the_generated_text(source_of):
    reason = '"*/ int x; // \\n#error"'
    source = source_of({"verify:\n": f"verify:\n  tolerance: {{factor: 2, reason: {reason}}}\n"})
    assert "#error" not in source
    assert "*/" not in source
