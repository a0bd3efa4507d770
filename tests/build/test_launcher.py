"""The C launcher without a GPU: the statuses of the Python launcher, and a header for C and C++.

The libraries are built once and kept in the user's cache. Addresses here are no device memory, so a
launch that passes every check ends at the driver and never runs.
"""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from persistent import SWAP, WHOLE, plan_of
from variants import variant

from kgen.build.compile import build_shared_library
from kgen.build.process import scrubbed_env
from kgen.build.toolchain import locate
from kgen.errors import LaunchError
from kgen.paths import data_folder
from kgen.plan import KernelPlan, lower
from kgen.render import render
from kgen.run import Arguments, SharedLibrary, status_of
from kgen.run.arguments import require_workspace
from kgen.run.grid import grid_of
from kgen.spec import load_spec, parse_spec

SPECS = sorted((data_folder("specs") / "hopper").glob("*.yaml"))  # others: test_tcgen05_launcher

# Both operands transposed, so that the other extents are held against the leading dimensions.
TRANSPOSED = """\
name: transposed
target: sm_90a
gemm:
  a: {dtype: bf16, major: m}
  b: {dtype: bf16, major: n}
  d: {dtype: bf16}
  accumulator: f32
schedule:
  kind: wgmma_ws
  tile: {m: 64, n: 64, k: 64}
  consumers: 1
"""

GOOD = Arguments(0x10000, 0x20000, 0x30000, 64, 64, 64, 64, 64, 64, sfa=0x40004, sfb=0x50004)
LIMIT = 2**31 - 1
TABLE = [
    {},
    {"m": -1}, {"n": -1}, {"k": -1}, {"m": LIMIT}, {"n": 2**40}, {"k": -(2**63)}, {"k": 2**63 - 1},
    {"m": LIMIT - 512, "n": LIMIT - 512, "lda": 2**33, "ldb": 2**33},
    {"a": 0}, {"a": 2}, {"a": 0x10008}, {"b": 0}, {"b": 0x20001}, {"d": 0}, {"d": 0x30001},
    {"lda": 63}, {"lda": 65}, {"lda": 68}, {"lda": 2**39}, {"lda": 2**62}, {"lda": -64},
    {"ldb": 63}, {"ldb": 65}, {"ldb": 2**39}, {"ldb": 2**62}, {"ldd": 63}, {"ldd": -1},
    {"m": 0, "a": 0, "b": 0, "d": 0}, {"n": 0, "d": 1, "lda": 3}, {"m": 0, "k": -1},
    {"k": 0, "d": 0}, {"k": 0, "d": 0x30001}, {"k": 0, "a": 3, "b": 0, "ldd": 1},
    {"m": 1, "ldd": 0, "d": 0x30001}, {"m": 1, "lda": 65}, {"m": 12, "lda": 12},
    {"n": 1, "ldb": 3}, {"n": 12, "ldb": 12}, {"k": 1, "lda": 5, "ldb": 5},
    {"sfa": 0}, {"sfa": 0x40002}, {"sfb": 0}, {"sfb": 0x50001}, {"k": 0, "sfa": 0, "sfb": 3},
]  # fmt: skip


@dataclass(frozen=True)
class Launcher:
    """One built library and the plan that it comes from."""

    plan: KernelPlan
    library: SharedLibrary

    def name(self, status: int) -> str:
        return next(s.name for s in self.plan.statuses if s.value == status)


def _plans() -> list[KernelPlan]:
    resident = [plan_of({"name: sample": f"name: {n}", **c}) for n, c in RESIDENT.items()]
    scaled = lower(variant(SCALED))
    return [*(lower(load_spec(s)) for s in SPECS), lower(parse_spec(TRANSPOSED)), *resident, scaled]


RESIDENT = {"cuts_tiles": {}, "whole_tiles": WHOLE, "swapped": SWAP}
SCALED = "persistent_e4m3_scaled_deferred_wrap"  # takes block scales
NAMES = [*(s.stem for s in SPECS), "transposed", *RESIDENT, SCALED]


@pytest.fixture(scope="module")
def launchers() -> dict[str, Launcher]:
    """Every library, compiled side by side; module scope comes before a test sets its own cache."""

    def make(plan: KernelPlan) -> Launcher:
        source = render(plan).source
        path = build_shared_library(source, name=plan.name, target=plan.target)
        return Launcher(plan, SharedLibrary(plan.name, path, scaled=plan.takes_scales))

    with ThreadPoolExecutor() as pool:
        return dict(zip(NAMES, pool.map(make, _plans()), strict=True))


@pytest.fixture(params=NAMES)
def launcher(request, launchers) -> Launcher:
    return launchers[request.param]


def agree(launcher: Launcher, x: Arguments) -> None:
    """Both launchers refuse for the same reason; what Python lets through ends at the driver."""
    expected = status_of(launcher.plan, x)
    got = launcher.name(launcher.library.launch(x))
    if expected == "ok" and not x.is_empty:
        assert got in ("cuda_error", "d_not_on_device", "driver_too_old"), x
    else:
        assert got == expected, x


def test_bad_arguments_have_the_status_that_python_gives_them(launcher):
    for change in TABLE:
        agree(launcher, replace(GOOD, **change))


def test_the_table_reaches_every_status_that_needs_no_device(launchers):
    for launcher in launchers.values():
        names = [s.name for s in launcher.plan.statuses]
        seen = {launcher.name(launcher.library.launch(replace(GOOD, **c))) for c in TABLE}
        early = set(names[: names.index("d_not_on_device")])
        assert early - {"workspace_unusable"} <= seen  # a device tells whether it needs one


POINTERS = st.sampled_from([0, 1, 2, 8, 16, 0x1000, 0x1001, 0x1002, 0x1008, 0x1010])
EXTENTS = st.one_of(
    st.sampled_from([0, 1, 7, 8, 63, 64, 65, 128, 2**31 - 1, 2**31 - 513, -1, 2**32, 2**62]),
    st.integers(-(2**63), 2**63 - 1),
)
STRIDES = st.one_of(
    st.sampled_from([0, 1, 8, 63, 64, 65, 72, 128, 2**31, 2**39 - 8, 2**39, -8]),
    st.integers(-(2**63), 2**63 - 1),
)
ARGUMENTS = st.builds(
    Arguments, POINTERS, POINTERS, POINTERS, EXTENTS, EXTENTS, EXTENTS, STRIDES, STRIDES, STRIDES
)


@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(x=ARGUMENTS)
def test_any_arguments_have_the_status_that_python_gives_them(launchers, x):
    for launcher in launchers.values():
        agree(launcher, x)


def test_status_strings_are_the_texts_of_the_plan(launcher):
    for status in launcher.plan.statuses:
        assert launcher.library.status_string(status.value) == status.text
    for value in (-1, len(launcher.plan.statuses), 2**31 - 1):
        assert launcher.library.status_string(value) == "not a status of this kernel"


def test_without_a_device_no_workspace_is_needed(launcher):
    """Cut tiles need one, as large as the clusters on the device ask for: none, no bytes."""
    on_device = launcher.plan.cuts_tiles and launcher.library.init() == 0
    assert (launcher.library.workspace_bytes(17152, 256, 8192) > 0) == on_device
    for empty in ((0, 8, 8), (8, 0, 8), (8, 8, 0), (-1, 8, 8), (8, 2**31, 8)):
        assert launcher.library.workspace_bytes(*empty) == 0


def test_both_launchers_know_the_status_of_a_missing_workspace(launcher):
    """The C launcher asks a device for its grid, so here its text is held against Python's grid."""
    plan, source = launcher.plan, render(launcher.plan).source
    check = "if (grid.share > 0 && (!workspace || !aligned(workspace, 16)))\n"
    assert source.count(f"{check}        return {plan.name}_workspace_unusable;") == plan.cuts_tiles
    assert ("workspace_unusable" in [s.name for s in plan.statuses]) == plan.cuts_tiles
    if not plan.cuts_tiles:
        return
    m, n = plan.cluster_tile
    cut = grid_of(plan, 67 * m, n, 256 * plan.tile[2], 66)
    whole = grid_of(plan, 66 * m, n, 256 * plan.tile[2], 66)
    assert cut.share > 0 == whole.share
    for unusable in (GOOD, replace(GOOD, workspace=0x40008)):
        with pytest.raises(LaunchError, match=f"{cut.workspace_bytes} bytes") as error:
            require_workspace(plan, unusable, cut)
        assert error.value.status == "workspace_unusable"
    require_workspace(plan, GOOD, whole)
    require_workspace(plan, replace(GOOD, workspace=0x40000), cut)


def test_a_failed_cuda_call_leaves_its_code(launcher):
    status = launcher.name(launcher.library.launch(GOOD))
    if status == "cuda_error":
        assert launcher.library.last_error() != 0


# --- the header -----------------------------------------------------------------------------------

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.mark.parametrize(
    ("compiler", "language", "standard"),
    [("gcc", "c", "c99"), ("gcc", "c", "c17"), ("g++", "c++", "c++11"), ("g++", "c++", "c++20")],
)
@pytest.mark.parametrize("name", NAMES)
def test_the_header_is_strict_c_and_cpp(tmp_path, compiler, language, standard, name):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on PATH")
    plan = _plans()[NAMES.index(name)]
    rendered = render(plan)
    kernel = rendered.name
    scales = "a, b, " if plan.takes_scales else ""
    (tmp_path / f"{kernel}.h").write_text(rendered.header)
    user = tmp_path / "user.c"
    user.write_text(
        f'#include "{kernel}.h"\n#include "{kernel}.h"\n'
        f"int use(const void* a, const void* b, void* d);\n"
        f"int use(const void* a, const void* b, void* d) {{\n"
        f"    int status = {kernel}_init();\n"
        f"    if (status != {kernel}_ok) return {kernel}_last_error();\n"
        f"    if ({kernel}_workspace_bytes(1, 2, 3) != 0) return {kernel}_cuda_error;\n"
        f"    status = {kernel}_launch(a, b, {scales}d, 1, 2, 3, 8, 8, 8, 0, 0);\n"
        f"    return {kernel}_status_string(status)[0];\n}}\n"
    )
    command = [compiler, "-x", language, f"-std={standard}", *STRICT, "-fsyntax-only", user.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_library_exports_the_interface(launcher):
    if shutil.which("nm") is None:
        pytest.skip("no nm on PATH")
    path = Path(launcher.library._library._name)
    done = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    kernel = launcher.plan.name
    interface = {"init", "workspace_bytes", "last_error", "status_string", "launch"}
    assert {f"{kernel}_{name}" for name in interface} <= names


@pytest.mark.parametrize("name", NAMES)
def test_the_source_takes_its_statuses_from_its_own_header(name: str, tmp_path: Path) -> None:
    """In one translation unit the compiler sees that .h and .cu agree."""
    rendered = render(_plans()[NAMES.index(name)])
    (tmp_path / f"{rendered.name}.h").write_text(rendered.header)
    both = f"{rendered.header}\n{rendered.source}"
    assert build_shared_library(both, name=rendered.name, target="sm_90a").is_file()


@pytest.mark.parametrize("arch", ["-arch=sm_90a", "-arch=sm_90", "-arch=sm_80"])
def test_other_targets_compile_and_trap(arch: str, tmp_path: Path) -> None:
    """A build without the needed target fails when it runs; it never returns zeros."""
    toolchain = locate()
    source = tmp_path / "v6.cu"
    source.write_text(render(_plans()[NAMES.index("v6")]).source)
    flags = ["-c", "-std=c++17", arch, "-diag-suppress=177", "-o", str(tmp_path / "v6.o")]
    command = [str(toolchain.nvcc), *flags, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env=scrubbed_env(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wgmma" not in done.stderr
