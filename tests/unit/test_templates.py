"""Lint of the templates by their syntax trees: they print plan fields and branch on plan facts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import variants as hopper
from blackwell import VARIANTS, variant
from jinja2 import Environment, nodes

from kgen.check import find_specs
from kgen.plan import lower
from kgen.render import _wrapper_library, render
from kgen.spec import load_spec

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
FILES = sorted(p.relative_to(TEMPLATES).as_posix() for p in TEMPLATES.rglob("*.j2"))
FILTERS = {"join", "upper"}
TESTS = {"none"}
DEEPEST_IF = 2
# Wrappers that no shipped kernel needs: those that cut tiles add f32 sums.
ADDS_PARTS = ("persistent_f16_accumulation_two_slabs_wrap", "persistent_s8_cluster_wrap")

FORBIDDEN = {
    nodes.BinExpr: "arithmetic or and/or",
    nodes.Concat: "text concatenation",
    nodes.Compare: "comparison",
    nodes.Neg: "arithmetic",
    nodes.Pos: "arithmetic",
    nodes.CondExpr: "inline condition",
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.With: "with",
    nodes.Dict: "dictionary",
    nodes.Slice: "slice",
    nodes.FilterBlock: "filter block",
    nodes.CallBlock: "call block",
    nodes.Include: "include",
    nodes.Extends: "extends",
    nodes.Block: "block",
}


def lint(source: str) -> list[str]:
    """Every breach of the template rules, as `line: what`."""
    tree = Environment().parse(source)
    macros = {m.name for m in tree.find_all(nodes.Macro)}
    for imported in tree.find_all(nodes.FromImport):
        macros |= {n if isinstance(n, str) else n[1] for n in imported.names}
    found: list[tuple[int, str]] = []
    for kind, what in FORBIDDEN.items():
        found += [(n.lineno, what) for n in tree.find_all(kind)]
    for node in tree.find_all(nodes.Filter):
        if node.name not in FILTERS:
            found.append((node.lineno, f"filter {node.name}"))
    for node in tree.find_all(nodes.Test):
        if node.name not in TESTS:
            found.append((node.lineno, f"test {node.name}"))
    for node in tree.find_all(nodes.Call):
        if not (isinstance(node.node, nodes.Name) and node.node.name in macros):
            found.append((node.lineno, "call of something that is no macro"))
    for output in tree.find_all(nodes.Output):
        for child in output.nodes:
            if isinstance(child, nodes.Const | nodes.Tuple | nodes.List):
                found.append((output.lineno, "constant or tuple in output"))
    for loop in tree.find_all(nodes.For):
        if not isinstance(loop.iter, nodes.Name | nodes.Getattr):
            found.append((loop.lineno, "loop over something that is no plan field"))
        if loop.test is not None or loop.recursive or loop.else_:
            found.append((loop.lineno, "loop with filter, recursion or else"))
    found += [(line, "elif") for line in _elifs(tree)]
    found += [(line, f"more than {DEEPEST_IF} nested ifs") for line in _too_deep(tree, 0)]
    found += [(line, f"loop.{name}") for line, name in _loop_fields(tree)]
    return [f"{line}: {what}" for line, what in sorted(found)]


def _elifs(tree: nodes.Node) -> list[int]:
    return [n.elif_[0].lineno for n in tree.find_all(nodes.If) if n.elif_]


def _too_deep(node: nodes.Node, depth: int) -> list[int]:
    depth += isinstance(node, nodes.If)
    if depth > DEEPEST_IF:
        return [node.lineno]
    return [line for child in node.iter_child_nodes() for line in _too_deep(child, depth)]


def _loop_fields(tree: nodes.Node) -> list[tuple[int, str]]:
    return [
        (n.lineno, n.attr)
        for n in tree.find_all(nodes.Getattr)
        if isinstance(n.node, nodes.Name)
        and n.node.name == "loop"
        and n.attr not in ("first", "last")
    ]


@pytest.mark.parametrize("file", FILES)
def test_a_template_computes_nothing(file):
    assert lint((TEMPLATES / file).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("{{ p.a + 1 }}", ["1: arithmetic or and/or"]),
        ("{% if p.a and p.b %}x{% endif %}", ["1: arithmetic or and/or"]),
        ("{% if p.a == 3 %}x{% endif %}", ["1: comparison"]),
        ("\n{% set x = p.a %}", ["2: set"]),
        ("{{ -p.a }}", ["1: arithmetic"]),
        ("{{ p.a ~ p.b }}", ["1: text concatenation"]),
        ("{{ p.a if p.b }}", ["1: inline condition"]),
        ("{{ p.a | replace('a', 'b') }}", ["1: filter replace"]),
        ("{% if p.a is divisibleby 3 %}x{% endif %}", ["1: test divisibleby"]),
        ("int2 y = {{0, 1}};", ["1: constant or tuple in output"]),
        ("{{ 'text' }}", ["1: constant or tuple in output"]),
        ("{{ range(3) }}", ["1: call of something that is no macro"]),
        ("{{ p.name.upper() }}", ["1: call of something that is no macro"]),
        ("{% for i in [1] %}{{ i }}{% endfor %}", ["1: loop over something that is no plan field"]),
        ("{% for i in p.rows %}{{ loop.index }}{% endfor %}", ["1: loop.index"]),
        ("{% for i in p.a if i %}{{ i }}{% endfor %}", ["1: loop with filter, recursion or else"]),
        ("{% if p.a %}{% elif p.b %}x{% endif %}", ["1: elif"]),
        (
            "{% if p.a %}{% if p.b %}\n{% if p.c %}x{% endif %}{% endif %}{% endif %}",
            ["2: more than 2 nested ifs"],
        ),
        ("{% if p.a is not none %}{{ p.rows | join(', ') }}{% endif %}", []),
        ("{% macro f(p) %}{{ p.name | upper }}{% endmacro %}{{ f(p) }}", []),
        ("{% for i in p.rows %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}", []),
    ],
)  # fmt: skip
def test_the_lint_finds_what_it_should(source, found):
    assert lint(source) == found


def test_a_wrapper_is_defined_once_and_its_macro_has_its_name():
    seen: dict[str, str] = {}
    for file in FILES:
        if not file.startswith("ptx/"):
            continue
        text = (TEMPLATES / file).read_text("utf-8")
        for name, body in re.findall(r"{% macro (\w+)\(p\) %}\n(.*?){% endmacro %}", text, re.S):
            assert name not in seen, f"{name} is in {seen[name]} and in {file}"
            seen[name] = file
            functions = re.findall(r"__forceinline__ \w+ (\w+)\(", body)
            assert functions == [name], f"{file}: macro {name} defines {functions}"
    assert len(seen) > 15
    assert set(seen) <= set(_wrapper_library())


@pytest.mark.parametrize("file", FILES)
def test_a_template_says_what_it_is(file):
    assert re.match(r"{# [A-Z][^#]+#}\n", (TEMPLATES / file).read_text("utf-8"))


def test_every_wrapper_is_used_by_some_spec(plan_of, f32):
    variants = [
        {},
        {**f32, "producer: warp": "producer: warpgroup"},
        {**f32, "d: {dtype: f16": "d: {dtype: bf16"},
    ]
    plans = [plan_of(changes) for changes in variants]
    plans += [lower(load_spec(path)) for path in find_specs([TEMPLATES.parent / "specs"])]
    plans += [lower(hopper.variant(name)) for name in ADDS_PARTS]
    used: set[str] = set()
    for plan in plans:
        source = render(plan).source
        used |= set(re.findall(r"__forceinline__ \w+ (\w+)\(", source))
    for name in VARIANTS:
        source = render(lower(variant(name))).source
        used |= set(re.findall(r"__forceinline__ \w+ (\w+)\(", source))
    library = {n for n in _wrapper_library() if n != "registers"}
    assert library <= used
