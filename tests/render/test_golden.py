"""The committed files of generated/ are what the specs render to, byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kgen import check
from kgen.lines import LINE_LENGTH
from kgen.plan import lower
from kgen.render import NO_EVIDENCE, render, source_digest, without_evidence
from kgen.spec import load_spec, parse_spec
from kgen.spec.names import NAME_LENGTH

ROOT = Path(__file__).resolve().parents[2]
SPECS = check.find_specs([ROOT / "specs"])


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.relative_to(ROOT / "specs").as_posix())
def test_a_spec_renders_to_its_committed_files(spec):
    rendered = render(lower(load_spec(spec)))
    folder = ROOT / "generated" / spec.relative_to(ROOT / "specs").parent
    for name, text in rendered.files.items():
        committed = (folder / name).read_bytes().decode()
        if name.endswith(".cu"):
            committed = without_evidence(committed)
        assert committed == text, f"{folder / name}: run kgen render {spec.relative_to(ROOT)}"


def closing_braces(text: str):
    """Line number, indent and the braces still open, namespaces aside, of every line that closes
    one."""
    open_braces: list[bool] = []  # whether each indents what it holds
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r'"(?:\\.|[^"\\])*"', "", line.split("//")[0])
        if code.startswith("#"):
            continue
        indents = not re.match(r"namespace|extern  ?\{", code)
        for at, brace in enumerate(code):
            if brace == "{":
                open_braces.append(indents)
            elif brace == "}":
                open_braces.pop()
                if not code[:at].strip():
                    yield number, at, sum(open_braces)


def assert_short_lines(name: str, text: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        assert len(line) <= LINE_LENGTH, f"{name}:{number} has {len(line)} columns"


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.relative_to(ROOT / "specs").as_posix())
def test_shipped_text_fits_the_page_and_is_indented_as_it_nests(spec):
    for name, text in render(lower(load_spec(spec))).files.items():
        assert_short_lines(name, text)
        for number, indent, depth in closing_braces(text):
            assert indent == 4 * depth, f"{name}:{number} closes a brace at column {indent}"


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.relative_to(ROOT / "specs").as_posix())
def test_the_longest_name_fits_the_page_too(spec):
    data = {**load_spec(spec).tree.data, "name": "k" * NAME_LENGTH}
    for name, text in render(lower(parse_spec(json.dumps(data)))).files.items():
        assert_short_lines(name, text)


def test_nothing_else_is_committed():
    expected = set()
    for spec in SPECS:
        name = load_spec(spec).spec.name
        folder = ROOT / "generated" / spec.relative_to(ROOT / "specs").parent
        expected |= {folder / f"{name}.cu", folder / f"{name}.h"}
    assert {p for p in (ROOT / "generated").rglob("*") if p.is_file()} == expected


def test_the_shipped_specs_are_these():
    names = {s.relative_to(ROOT / "specs").as_posix() for s in SPECS}
    assert {"hopper/v6.yaml", "hopper/f16_f32acc.yaml", "hopper/bf16_f32acc.yaml"} <= names


def test_evidence_is_outside_the_digest(source_of):
    source = source_of()
    told = source.replace(NO_EVIDENCE, "//   built by nvrtc 13, 90 registers, no spill\n//   more")
    assert told != source
    assert source_digest(told) == source_digest(source)
    assert without_evidence(told) == source
    assert source_digest(source.replace("kTileM = 256", "kTileM = 257")) != source_digest(source)
