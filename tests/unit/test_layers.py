"""Imports go one way: spec, budget, plan, render, build, run, verify, bench, interfaces, cli."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "kgen"

# A layer may import those above it in this list, and its own modules.
ORDER = [
    {"errors", "_version"},
    {"arch", "blockscale", "dtypes", "files", "lines", "minifloat", "nearest", "paths", "records"}
    | {"scales"},
    {"tcgen05"},
    {"spec"},
    {"budget"},
    {"plan"},
    {"render"},
    {"build"},
    {"run"},
    {"verify"},
    {"bench", "results"},
    {"sweep"},
    {"report"},
    {
        "check",
        "explain",
        "shipped",
        "api",
        "doctor",
        "demo",
    },
    {"ship"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
# A row of functions for commands may import each other only where named.
NEIGHBOURS = {("doctor", "api")}
# These run on a laptop: no GPU library, no torch, no compiler.
LIGHT = {name for name, rank in RANK.items() if rank <= RANK["render"]} | {"emu"}
HEAVY = {"cupy", "torch", "cuda", "nvidia", "pynvml"}


def imports(source: str) -> set[str]:
    """Every module that `source` imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their whole path"
            found.add(node.module or "")
            if node.module == "kgen":
                found.update(f"kgen.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.add(ast.literal_eval(node.args[0]))
    return found


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "kgen" and len(parts) > 1 else ""


def complaints(name: str, source: str) -> list[str]:
    """What is wrong with the imports of one module of layer `name`."""
    found = []
    for module in sorted(imports(source)):
        target = layer(module)
        if name in LIGHT and module.split(".")[0] in HEAVY:
            found.append(f"{name} imports {module}")
        if name in LIGHT and target in ("build", "run"):
            found.append(f"{name} imports {module}")
        if name == "emu":
            if target not in ("", "emu", "errors", "_version"):
                found.append(f"emu imports {module}")
        elif target and target != name and target in RANK:
            later = RANK[target] > RANK[name]
            beside = RANK[target] == RANK[name] and (name, target) not in NEIGHBOURS
            if later or (beside and RANK[name] > RANK["plan"]):
                found.append(f"{name} imports {module}")
        elif target == "emu" and RANK[name] < RANK["verify"]:
            found.append(f"{name} imports {module}")
    return list(dict.fromkeys(found))


def modules() -> list[tuple[str, Path]]:
    rows = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):  # the package itself only names its interface
            rows.append((parts[0], path))
    return rows


@pytest.mark.parametrize(
    ("name", "path"), modules(), ids=lambda x: x.name if isinstance(x, Path) else x
)
def test_no_import_goes_back(name, path):
    assert name == "emu" or name in RANK, f"place {name} in the order of layers"
    assert complaints(name, path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("name", "source", "wrong"),
    [
        ("spec", "from kgen.budget import budget", ["spec imports kgen.budget"]),
        ("plan", "def f():\n    import kgen.render", ["plan imports kgen.render"]),
        ("spec", "from kgen import plan", ["spec imports kgen.plan"]),
        ("budget", "import torch.nn", ["budget imports torch.nn"]),
        ("render", "from cuda.bindings import driver", ["render imports cuda.bindings"]),
        (
            "plan",
            "import importlib\nimportlib.import_module('cupy')",
            ["plan imports cupy"],
        ),
        ("emu", "from kgen.plan import lower", ["emu imports kgen.plan"]),
        ("emu", "from kgen.errors import EmulatorError", []),
        ("check", "from kgen.explain import text", ["check imports kgen.explain"]),
        ("run", "import cupy\nfrom kgen.plan import lower", []),
        ("cli", "from kgen import api", []),
        ("check", "from kgen.ship.lock import Lock", ["check imports kgen.ship.lock"]),
        ("errors", "from kgen.paths import data_folder", ["errors imports kgen.paths"]),
    ],
)
def test_the_rule_finds_what_it_should(name, source, wrong):
    assert complaints(name, source) == wrong


@pytest.mark.parametrize(("name", "path"), modules(), ids=lambda x: getattr(x, "name", x))
def test_a_module_has_at_most_300_lines_and_says_what_it_owns(name, path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 300
    assert not text or ast.get_docstring(ast.parse(text))
