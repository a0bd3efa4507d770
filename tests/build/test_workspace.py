"""Bindings zero the flags of a workspace and nothing else: stubs for kernels look at what comes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import consumers
import pytest
import shipping
from conftest import F32, changed
from hypothesis import given, settings
from hypothesis import strategies as st
from persistent import FAST, cluster
from test_launcher import STRICT

from kgen.plan import KernelPlan, lower
from kgen.run.grid import Grid, grid_of
from kgen.spec import LoadedSpec, parse_spec

CUTTING: dict[str, dict[str, str]] = {
    "pairs": {},
    "fours": cluster(2, 2),
    # 64 x 64 sums are the least that a CTA leaves: 16384 bytes
    "small": {
        **cluster(1, 1),
        "m: 128, n: 256": "m: 64, n: 64",
        "consumers: 2": "consumers: 1",
        "deferred: true": "deferred: false",
        "store_buffers: 4": "store_buffers: 1",
    },
}


def cutting(name: str) -> LoadedSpec:
    """A kernel that cuts tiles."""
    text = changed({"name: sample": f"name: {name}", **CUTTING[name]}, FAST)
    return parse_spec(text, f"{name}.yaml")


def grid(plan: KernelPlan, tiles: int, k_tiles: int, resident: int) -> Grid:
    """A launch that cuts tiles wherever one K tile is saved."""
    m, n = plan.cluster_tile
    return grid_of(plan, tiles * m, n, k_tiles * plan.tile[2], resident, 1)


PLANS = {name: lower(cutting(name)) for name in CUTTING}
CUT = {name: grid(plan, 67, 128, 66) for name, plan in PLANS.items()}

STUB = """
extern "C" int {0}_init(void) {{ return 0; }}
extern "C" size_t {0}_workspace_bytes(int64_t, int64_t, int64_t) {{ return {1}; }}
extern "C" int {0}_launch(
    const void*, const void*, void*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
    void* workspace, struct CUstream_st*) {{
    {2}
}}
extern "C" const char* {0}_status_string(int) {{ return "one more than the first bad byte"; }}
extern "C" int {0}_last_error(void) {{ return 0; }}
"""
REFUSE = """const auto* bytes = static_cast<const unsigned char*>(workspace);
    for (size_t i = 0; i < {0}; ++i)
        if (bytes[i] != (i < {1} ? 0 : 0xFF)) return static_cast<int>(i) + 1;
    return 0;"""


@pytest.fixture(scope="module")
def folder(gxx, no_toolchain, tmp_path_factory) -> Path:
    """Kernels that cut tiles and one that does not; beside them stubs.cpp, which takes their place.

    A stub's launch wants the flags of its grid as zeros, and parts as nobody wrote them.
    """
    found = tmp_path_factory.mktemp("workspace")
    lock = shipping.shipment([*map(cutting, CUTTING), shipping.spec("whole", F32)], name="spaces")
    shipping.put(lock, found)
    names = [kernel.name for kernel in lock.kernels]
    stubs = "".join(f'#include "{name}.h"\n' for name in names)
    for name in names:
        size, body = 0, "return workspace != nullptr;"
        if name in CUT:
            size = CUT[name].workspace_bytes
            body = REFUSE.format(size, CUT[name].flag_bytes)
        stubs += STUB.format(name, size, body)
    (found / "stubs.cpp").write_text(stubs)
    return found


# --- which bytes are flags ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(folder):
    command = ["g++", "-std=c++17", *STRICT, "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    command += ["-shared", "-fPIC", "spaces.cpp", "stubs.cpp", "-o", "spaces.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = ctypes.CDLL(str(folder / "spaces.so"))
    found.spaces_find.restype = ctypes.c_void_p
    found.spaces_flag_bytes.restype = ctypes.c_size_t
    found.spaces_flag_bytes.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return found


@settings(max_examples=1000, deadline=None, derandomize=True, database=None)
@given(
    name=st.sampled_from(sorted(CUTTING)),
    tiles=st.integers(2, 5000),
    k_tiles=st.integers(1, 200),
    resident=st.integers(1, 3000),
)
def test_the_flags_are_those_of_the_grid(library, name, tiles, k_tiles, resident):
    found = grid(PLANS[name], tiles, k_tiles, resident)
    kernel = library.spaces_find(name.encode())
    expected = found.flag_bytes if found.share else 0
    assert library.spaces_flag_bytes(kernel, found.workspace_bytes) == expected


def test_flags_by_hand(library):
    """132 CTAs x 2 flags x 4 bytes = 1056, rounded up to 256; 3 x 4 to 256."""
    assert library.spaces_flag_bytes(library.spaces_find(b"pairs"), 1280 + 132 * 131072) == 1280
    assert library.spaces_flag_bytes(library.spaces_find(b"small"), 256 + 3 * 16384) == 256
    assert library.spaces_flag_bytes(library.spaces_find(b"whole"), 0) == 0


# --- what the torch operator zeroes ---------------------------------------------------------------

CALL = """
import sys, torch
torch.ops.load_library(sys.argv[1])
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = True  # bytes become 0xFF
a = torch.ones(3, 8, dtype=torch.bfloat16)
for name in sys.argv[2:]:
    getattr(torch.ops.spaces, name)(a, a)
torch.ops.spaces.whole(a.half(), a.half())
print("called")
"""


def test_the_torch_operator_zeroes_the_flags_alone(folder):
    """Built for the CPU, which has neither the CUDA backend nor a stream to take the address of."""
    pytest.importorskip("torch", reason="torch is not installed")
    text = (folder / "spaces_torch.cpp").read_text()
    stream = "device.getStream(d.device()).native_handle()"
    on_cpu = {"TORCH_LIBRARY_IMPL(spaces, CUDA, m)": "TORCH_LIBRARY_IMPL(spaces, CPU, m)",
              stream: "nullptr"}  # fmt: skip
    (folder / "on_cpu.cpp").write_text(changed(on_cpu, text))
    sources = ["on_cpu.cpp", "spaces.cpp", "stubs.cpp"]
    consumers.build_operators(folder, sources, folder / "on_cpu.so")
    out = consumers.run([sys.executable, "-c", CALL, folder / "on_cpu.so", *CUTTING], folder)
    assert out.splitlines()[-1] == "called"
