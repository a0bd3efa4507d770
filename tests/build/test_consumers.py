"""What was shipped builds in other projects, with nvcc as the only CUDA software, and its parts
agree: the dispatch tables of C and Python, the header and strict C, the examples and their tests.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import consumers
import pytest
import shipping
from conftest import F32
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from shipping import NARROW, TALL, spec
from test_launcher import STRICT

from kgen.build.toolchain import locate
from kgen.ship.drift import check_shipped
from kgen.ship.make import Records, make_lock
from kgen.ship.package import texts
from kgen.ship.winners import Machine, Winner

H200 = Machine("NVIDIA H200", "580.1", "13.5.37")
TABLE = "sm_90a_f16_f32acc"


@pytest.fixture(scope="module")
def many_rows(no_toolchain):
    """Three kernels of one problem and rows that often lie equally near."""
    specs = [spec("wide", F32), spec("slim", NARROW), spec("tall", TALL)]
    sizes = itertools.product((64, 300, 1024, 8192), (256, 4096, 28672), (512, 4104))
    kernels = itertools.cycle((0, 1, 2, 1, 0))
    winners = [
        Winner(specs[i], "", shape, None, H200) for i, shape in zip(kernels, sizes, strict=False)
    ]
    return make_lock(specs, "gemm", ("python", "torch"), Records(), winners)


@pytest.fixture(scope="module")
def loader(many_rows):
    return shipping.module(many_rows)


def test_a_build_takes_the_host_compiler_of_the_path(tmp_path, monkeypatch) -> None:
    """Whatever CC and CXX name; a test may still name one itself."""
    show = "import os; print(*(os.environ.get(x) for x in ('CC', 'CXX', 'NVCC')))"
    monkeypatch.setenv("CC", "static-cc")
    monkeypatch.setenv("CXX", "static-c++")
    command, nvcc = [sys.executable, "-c", show], Path("nvcc")
    assert consumers.build(command, tmp_path, nvcc) == "None None nvcc\n"
    assert consumers.build(command, tmp_path, nvcc, {"CXX": "g++"}) == "None g++ nvcc\n"


STUB = """
extern "C" int {0}_init(void) {{ return 0; }}
extern "C" size_t {0}_workspace_bytes(int64_t, int64_t, int64_t) {{ return 0; }}
extern "C" int {0}_launch(
    const void*, const void*, void*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, void*,
    struct CUstream_st*) {{ return 0; }}
extern "C" const char* {0}_status_string(int) {{ return ""; }}
extern "C" int {0}_last_error(void) {{ return 0; }}
"""


@pytest.fixture(scope="module")
def compiled(gxx, many_rows, tmp_path_factory):
    """The C side of the dispatch table, linked with kernels that do nothing."""
    folder = tmp_path_factory.mktemp("dispatch")
    shipping.put(many_rows, folder)
    names = [kernel.name for kernel in many_rows.kernels]
    stubs = "".join(f'#include "{name}.h"\n' for name in names)
    (folder / "stubs.cpp").write_text(stubs + "".join(STUB.format(name) for name in names))
    command = ["g++", "-std=c++17", *STRICT, "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    command += ["-shared", "-fPIC", "gemm.cpp", "stubs.cpp", "-o", "dispatch.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "dispatch.so"))


class FirstMembers(ctypes.Structure):
    """The first members of struct gemm_kernel."""

    _fields_ = [("name", ctypes.c_char_p), ("source_digest", ctypes.c_char_p)]


def pick_in_c(library: ctypes.CDLL, m: int, n: int, k: int) -> str:
    function = getattr(library, f"gemm_{TABLE}_pick")
    function.restype = ctypes.POINTER(FirstMembers)
    function.argtypes = [ctypes.c_int64] * 3
    return function(m, n, k).contents.name.decode()


# Sizes between the rows', the rows' own, and what no kernel takes.
SIZE = st.one_of(
    st.sampled_from([64, 139, 256, 300, 512, 555, 1024, 2048, 2896, 4096, 8192, 10837, 28672]),
    st.integers(1, 2**16),
    st.integers(-(2**63), 2**63 - 1),
)


@settings(max_examples=2000, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(m=SIZE, n=SIZE, k=SIZE)
def test_c_and_python_pick_the_same_kernel(compiled, loader, m, n, k):
    assert pick_in_c(compiled, m, n, k) == loader.pick(TABLE, m, n, k)


def test_a_measured_shape_gets_its_winner_in_c(compiled, many_rows):
    for row in many_rows.tables[0].rows:
        assert pick_in_c(compiled, row.m, row.n, row.k) == row.kernel


def test_a_kernel_is_found_by_name_in_c(compiled):
    compiled.gemm_find.restype = ctypes.POINTER(FirstMembers)
    assert compiled.gemm_find(b"slim").contents.name == b"slim"
    assert not compiled.gemm_find(b"none")


@pytest.mark.parametrize(
    ("compiler", "language", "standard"),
    [("gcc", "c", "c99"), ("gcc", "c", "c17"), ("g++", "c++", "c++11"), ("g++", "c++", "c++20")],
)
def test_the_header_is_strict_c_and_cpp(tmp_path, many_rows, compiler, language, standard):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on PATH")
    files = texts(many_rows)
    for name in ("gemm.h", "slim.h", "wide.h"):
        (tmp_path / name).write_text(files[name])
    (tmp_path / "user.c").write_text(
        '#include "gemm.h"\n#include "slim.h"\n#include "wide.h"\n#include "gemm.h"\n'
        "int use(const void* a, const void* b, void* d);\n"
        "int use(const void* a, const void* b, void* d) {\n"
        f"    const struct gemm_kernel* kernel = gemm_{TABLE}_pick(1, 2, 3);\n"
        f"    if (!gemm_{TABLE}_fingerprint.gpu || !gemm_kernels[0].name) return 1;\n"
        "    return kernel->launch(a, b, d, 1, 2, 3, 8, 8, 8, 0, 0);\n}\n"
    )
    command = [compiler, "-x", language, f"-std={standard}", *STRICT, "-fsyntax-only", "user.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- the examples ---------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path):
    """An nvcc on PATH that must never be called; PATH with it, and the mark that it would leave."""
    folder, mark = tmp_path / "trap", tmp_path / "called"
    folder.mkdir()
    (folder / "nvcc").write_text(f"#!/bin/sh\necho called > {mark}\nexit 1\n")
    (folder / "nvcc").chmod(0o755)
    yield {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    assert not mark.exists(), "an nvcc that nobody named was called"


@pytest.mark.parametrize("name", ["cmake", "torch"])
def test_the_kernels_of_an_example_are_as_shipped(name):
    """Stale after a change of a template: `make golden` ships them again."""
    assert [
        (str(d.path), d.kind) for d in check_shipped(consumers.CONSUMERS / name / "kernels")
    ] == []


def test_the_cmake_project(tmp_path, trap):
    for tool in ("cmake", "g++"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on PATH")
    nvcc = locate().nvcc
    build = consumers.build_cmake(tmp_path, nvcc, trap)
    out = consumers.run(["ctest", "--test-dir", build, "-V"], tmp_path)
    assert re.search(r"dispatch \.+ +Passed", out) and re.search(r"refusals \.+ +Passed", out), out
    multiply = re.search(r"multiply \.+ *(Passed|\*\*\*Skipped)", out)
    assert multiply, out
    assert multiply[1] == "Passed" or re.search(r"skipped: (no GPU: |.* capability)", out), out
    commands = (build / "compile_commands.json").read_text()
    compilers = set(re.findall(r'"command": "(\S+nvcc) ', commands))
    assert compilers == {str(nvcc)}
    assert commands.count("-gencode=arch=compute_90a,code=sm_90a") == 2
    cache = (build / "CMakeCache.txt").read_text()
    toolkit = re.findall(r"^(?:CMAKE_CUDA|CUDA)\w*:\w+=(/.*)$", cache, re.MULTILINE)
    private = locate().home
    assert toolkit and all(Path(found).is_relative_to(private) for found in toolkit), toolkit


def test_the_program_without_cmake(gxx, tmp_path):
    nvcc = locate().nvcc
    program = consumers.build_program(tmp_path, nvcc)
    for name in ("dispatch", "refusals"):
        consumers.run([program, name], tmp_path)


def test_the_torch_project(gxx, tmp_path, trap):
    pytest.importorskip("torch", reason="torch is not installed")
    nvcc = locate().nvcc
    built = consumers.build_torch(tmp_path, nvcc, trap)
    assert sorted(p.name.split(".")[0] for p in built.glob("consumer_gemm/*")) == [
        "_C",
        "__init__",
        "libgemm",
    ]
    out = consumers.run_torch_tests(tmp_path, built)
    passed = re.search(r"(\d+) passed", out)
    assert passed and int(passed[1]) >= 13, out
    assert "torch sees no GPU" in out or "skipped" not in out, out


# --- the copies for users -------------------------------------------------------------------------


def test_the_commit_hook_and_the_workflow_say_yes_and_no(tmp_path):
    """Their commands, run as they stand in a copy of the example."""
    root = consumers.copy("cmake", tmp_path)
    hook = YAML(typ="safe").load((root / ".pre-commit-config.yaml").read_text())
    flow = YAML(typ="safe").load((root / ".github/workflows/kgen-check.yml").read_text())
    steps = [s["run"] for s in flow["jobs"]["kgen-check"]["steps"] if "run" in s]
    commands = [hook["repos"][0]["hooks"][0]["entry"], *(s for s in steps if s.startswith("kgen"))]
    assert commands == ["kgen check --digests kernels", "kgen check --digests kernels",
                        "kgen check kernels"]  # fmt: skip

    def codes() -> list[int]:
        tool = [sys.executable, "-m", "kgen.cli.main"]
        return [
            subprocess.run([*tool, *c.split()[1:]], cwd=root, capture_output=True).returncode
            for c in commands
        ]

    assert codes() == [0, 0, 0]
    (root / "kernels" / "gemm.h").write_text("edited\n")
    assert codes() == [1, 1, 1]
    assert Path(root / hook["repos"][0]["hooks"][0]["files"].strip("^/")).is_dir()
