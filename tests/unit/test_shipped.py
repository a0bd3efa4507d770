"""Shipped specs, `kgen new`, and the JSON Schema that editors check specs with."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from kgen import check
from kgen.errors import KgenError
from kgen.plan import lower
from kgen.shipped import json_schema, new_spec, shipped_specs
from kgen.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = check.find_specs([ROOT / "specs"])
NAMES = [name for name, _ in shipped_specs()]


def data_of(text: str) -> object:
    return YAML(typ="safe", pure=True).load(text)


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


# --- shipped specs and new ------------------------------------------------------------------------


def test_every_shipped_spec_opens_with_what_it_is():
    rows = dict(shipped_specs())
    assert {"hopper/v6", "hopper/f16_f32acc", "hopper/bf16_f32acc"} <= set(rows)
    assert rows["hopper/v6"] == "Hopper V6: four consumer warpgroups on a 256 x 256 tile."
    for path in SPECS:
        assert path.read_text("utf-8").startswith("# ")


@pytest.mark.parametrize("like", NAMES)
def test_a_new_spec_stands_alone_and_equals_its_model(tmp_path, like):
    path = tmp_path / "mine.yaml"
    new_spec(path, like)
    text = path.read_text()
    assert "extends:" not in text
    assert text.startswith("# ")
    mine, model = load_spec(path).spec, load_spec(ROOT / "specs" / f"{like}.yaml").spec
    assert mine == model.model_copy(update={"name": "mine"})
    assert lower(load_spec(path)).name == "mine"


def test_a_new_spec_keeps_the_comments_of_its_model(tmp_path):
    new_spec(tmp_path / "mine.yaml", "hopper/bf16_f32acc")
    assert "  stages: 4                         # depth of the A/B ring\n" in (
        (tmp_path / "mine.yaml").read_text()
    )


def test_an_unknown_model_is_refused(tmp_path):
    with pytest.raises(KgenError) as caught:
        new_spec(tmp_path / "x.yaml", "hopper/v7")
    assert str(caught.value).startswith("no shipped spec is called hopper/v7; there are ")
    with pytest.raises(KgenError):
        new_spec(tmp_path / "x.yaml", "../specs/hopper/v6")
    assert list(tmp_path.iterdir()) == []


# --- schema ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_schema_takes_every_shipped_spec(validator, path):
    assert [e.message for e in validator.iter_errors(data_of(path.read_text("utf-8")))] == []


def test_the_schema_takes_the_spec_of_the_tests_and_sizes_with_units(validator, v6):
    text = v6({"producer: warp": "producer: warpgroup\n  smem_limit: 200KiB"})
    assert [e.message for e in validator.iter_errors(data_of(text))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"stages: 3": "stage: 4"},
        {"consumers: 4": "consumer_group: 2"},
        {"major: n}\n  accumulator: f16": "major: n, accumulator: f16}"},
        {"accumulator: f16": "accumulator: fp16"},
        {"stages: 3": "collector: off"},
        {"stages: 3": "stages: off"},
        {"stages: 3": "stages: 3.5"},
        {"stages: 3": "stages: '3'"},
        {"producer: warp": "producer: no"},
        {"producer: warp": "smem_limit: 328"},
        {"producer: warp": "mma_k: 64"},
        {"target: sm_90a": "target: sm_90"},
        {"target: sm_90a\n": ""},
        {"kind: wgmma_ws": "kind: wgmma"},
        {", k: 64": ""},
        {"[512, 512, 256]": "[512, 512]"},
        {"consumers: 4": "consumers: 99"},
        {"name: sample": "extends: x.yaml"},
        {"kind: wgmma_ws": "kind: wgmma_single"},
        {"  kind: wgmma_ws\n": ""},
        {"kind: tma_turns": "kind: direct"},
        {"kind: tma_turns, ": ""},
    ],
)
def test_the_schema_rejects_what_kgen_rejects(validator, v6, change):
    assert list(validator.iter_errors(data_of(v6(change))))


@pytest.mark.parametrize(
    "name", ["../../tmp/x", "/etc/x", "k; }//", "a__b", "_a", "a b", "größe", "k" * 64, ""]
)
def test_the_schema_rejects_names_that_kgen_rejects(validator, v6, name):
    data = data_of(v6())
    assert isinstance(data, dict)
    assert list(validator.iter_errors({**data, "name": name}))


def test_a_spec_that_extends_needs_only_its_name(validator):
    assert not list(validator.iter_errors({"extends": "v6.yaml", "name": "x"}))
    assert not list(
        validator.iter_errors({"extends": "v6.yaml", "name": "x", "gemm": {"a": {"major": "m"}}})
    )
    assert not list(
        validator.iter_errors({"extends": "v6.yaml", "name": "x", "schedule": {"stages": 2}})
    )
    assert list(validator.iter_errors({"name": "x"}))


def test_every_field_has_a_description_for_the_editor():
    schema = json.loads(json_schema())
    missing = [
        f"{name}.{field}"
        for name, definition in schema["$defs"].items()
        for field, entry in definition["properties"].items()
        if "description" not in entry and "$ref" not in entry
    ]
    assert missing == []


def test_the_schema_is_the_same_text_every_time():
    assert json_schema() == json_schema()
    assert json_schema().endswith("}\n")
