"""The C launchers of the tcgen05 specs without such a GPU: statuses, header, packing of scales.

Addresses here are no device memory, so a launch that passes every check ends at the driver.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from blackwell import SHIPPED

from kgen.blockscale import pack_scales
from kgen.build.compile import build_shared_library
from kgen.plan import KernelPlan, lower
from kgen.render import render
from kgen.run import Arguments, SharedLibrary, status_of
from kgen.scales import ScaleLayout
from kgen.spec import load_spec

GOOD = Arguments(0x10000, 0x20000, 0x30000, 256, 256, 256, 256, 256, 256, 0, 0x40000, 0x50000)
LIMIT = 2**31 - 1
COMMON = [
    {},
    {"m": -1}, {"n": -1}, {"k": -1}, {"m": LIMIT}, {"n": 2**40}, {"k": 2**63 - 1},
    {"m": LIMIT - 8192, "n": LIMIT - 8192, "lda": 2**33, "ldb": 2**33},
    {"a": 0}, {"a": 2}, {"b": 0}, {"b": 0x20001}, {"d": 0}, {"d": 0x30001},
    {"lda": 255}, {"lda": 257}, {"lda": 260}, {"lda": 2**42}, {"lda": 2**62}, {"lda": -64},
    {"ldb": 255}, {"ldb": 257}, {"ldb": 2**42}, {"ldd": 255},
    {"m": 0, "a": 0, "d": 0}, {"n": 0, "sfa": 1}, {"k": 0, "a": 3, "sfa": 0, "ldd": 1},
    {"k": 0, "d": 0}, {"m": 1, "ldd": 0}, {"m": 1, "lda": 65},
]  # fmt: skip
SCALED = [{"k": 224}, {"k": 1}, {"sfa": 0}, {"sfa": 8}, {"sfb": 0}, {"sfb": 0x50001}]


@dataclass(frozen=True)
class Launcher:
    """One built library and the plan that it comes from."""

    plan: KernelPlan
    library: SharedLibrary
    path: Path

    def name(self, status: int) -> str:
        return next(s.name for s in self.plan.statuses if s.value == status)


@pytest.fixture(scope="module")
def launchers() -> dict[Path, Launcher]:
    """Every library; module scope comes before a test sets its own cache."""
    return {spec: _build(spec) for spec in SHIPPED}


def _build(spec: Path) -> Launcher:
    plan = lower(load_spec(spec))
    path = build_shared_library(render(plan).source, name=plan.name, target=plan.target)
    scaled, alpha = bool(plan.scale_maps), plan.takes_global_scale
    library = SharedLibrary(plan.name, path, scaled=scaled, takes_alpha=alpha)
    return Launcher(plan, library, path)


@pytest.fixture(params=SHIPPED, ids=lambda p: f"{p.parent.name}-{p.stem}")
def launcher(request, launchers) -> Launcher:
    return launchers[request.param]


def test_bad_arguments_have_the_status_that_python_gives_them(launcher):
    table = COMMON + (SCALED if launcher.plan.scale_maps else [])
    seen = set()
    for change in table:
        x = replace(GOOD, **change)
        expected = status_of(launcher.plan, x)
        got = launcher.name(launcher.library.launch(x))
        seen.add(got)
        if expected == "ok" and not x.is_empty:
            assert got in ("cuda_error", "d_not_on_device", "driver_too_old"), x
        else:
            assert got == expected, x
    names = [s.name for s in launcher.plan.statuses]
    assert set(names[: names.index("d_not_on_device")]) <= seen


def test_status_strings_are_the_texts_of_the_plan(launcher):
    for status in launcher.plan.statuses:
        assert launcher.library.status_string(status.value) == status.text


@pytest.mark.parametrize(("compiler", "standard"), [("gcc", "c99"), ("g++", "c++17")])
def test_the_header_is_strict_c_and_cpp(tmp_path, compiler, standard, launcher):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on PATH")
    rendered = render(launcher.plan)
    name = rendered.name
    (tmp_path / f"{name}.h").write_text(rendered.header)
    scales = "a, b, " if launcher.plan.scale_maps else ""
    alpha = "0.5f, " if launcher.plan.takes_global_scale else ""
    user = tmp_path / "user.c"
    user.write_text(
        f'#include "{name}.h"\nint use(const void* a, const void* b, void* d);\n'
        "int use(const void* a, const void* b, void* d) {\n"
        f"    return {name}_launch(a, b, {scales}d, 1, 2, 3, 8, 8, 8, {alpha}0, 0);\n}}\n"
    )
    language = "c" if compiler == "gcc" else "c++"
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    command = [compiler, "-x", language, f"-std={standard}", *strict, user.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("rows", "k"), [(96, 2688), (192, 2688), (1856, 2688), (128, 256), (1, 128)]
)
def test_the_c_packing_is_the_python_packing(launchers, rows, k):
    """flashinfer-ai/flashinfer#4653: sizes such as 1856 rows, padding that may hold anything."""
    for launcher in launchers.values():
        if not launcher.plan.scale_maps:
            continue
        layout = ScaleLayout(rows, k, launcher.plan.scale_maps[0].block)
        scales = np.random.default_rng(rows).integers(0, 256, (rows, layout.scales), "uint8")
        library, name = ctypes.CDLL(str(launcher.path)), launcher.plan.name
        size = getattr(library, f"{name}_scale_bytes")
        size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_int64] * 2
        assert size(rows, k) == layout.bytes
        packed, again = np.full(layout.bytes, 0x7F, "uint8"), np.zeros_like(scales)
        for function, source, target in (
            ("pack_scales", scales, packed),
            ("unpack_scales", packed, again),
        ):
            call = getattr(library, f"{name}_{function}")
            call.restype = None
            call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
            call(source.ctypes.data, rows, k, target.ctypes.data)
        np.testing.assert_array_equal(packed, pack_scales(layout, scales))
        np.testing.assert_array_equal(again, scales)
