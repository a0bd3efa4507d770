"""compile_source and its kin against the real compilers; no GPU."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import provoke
import pytest

from kgen.build import gate, pool, toolchain
from kgen.build.compile import Compiler, build_shared_library, compile_source, disassemble
from kgen.errors import CompileError, ToolchainError

ROOT = Path(__file__).parents[2]
TINY = 'extern "C" __global__ void tiny(float* p) { p[threadIdx.x] = 1.f; }\n'
# NVRTC needs minutes for this: every sinf is inlined with its slow path.
SLOW = (
    'extern "C" __global__ void slow(float* o) { float x = o[0];\n'
    + "".join(f"x = sinf(x * {i}.f) + o[{i}];\n" for i in range(2000))
    + "o[0] = x; }\n"
)
LAUNCHER = TINY + textwrap.dedent("""
    #include <cuda_runtime.h>
    extern "C" int tiny_answer() { return 42; }
    extern "C" int tiny_entry_point() {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult found;
        return (int)cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    }
    extern "C" int tiny_launch(float* p) {
        tiny<<<1, 32>>>(p);
        return (int)cudaGetLastError();
    }
""")
COMPILERS: tuple[Compiler, ...] = ("nvrtc", "nvcc")


def build(source: str = TINY, **options):
    return compile_source(source, name="tiny", target="sm_90a", **options)


# What comes out


@pytest.mark.parametrize("compiler", COMPILERS)
def test_cubin(compiler):
    made = build(compiler=compiler)
    assert made.data[:4] == b"\x7fELF"
    assert made.path.name == "tiny.cubin"
    assert made.compiler == f"{compiler} 13.5.37 lock {toolchain.lock().digest}"
    (used,) = made.resources
    assert (used.kernel, used.target, used.is_kernel) == ("tiny", "sm_90a", True)
    assert 0 < used.registers <= 32
    assert made.findings == made.notes == ()
    assert not made.cached
    again = build(compiler=compiler)
    assert again.cached
    assert (again.data, again.log, again.resources) == (made.data, made.log, made.resources)
    assert again.seconds == made.seconds > 0


@pytest.mark.parametrize("compiler", COMPILERS)
def test_ptx(compiler):
    made = build(compiler=compiler, emit="ptx")
    text = made.data.decode()
    assert ".version 9.5" in text
    assert ".target sm_90a" in text
    assert ".entry tiny" in text
    assert not text.endswith("\0")
    assert ".loc" not in text
    assert made.resources == ()
    assert ".loc" in build(compiler=compiler, emit="ptx", line_info=True).data.decode()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_107a"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_target(compiler, target):
    made = compile_source(TINY, name="tiny", target=target, compiler=compiler)
    assert made.resources[0].target == target
    assert f".target\t{target}" in disassemble(made.path)


def test_the_same_source_gives_the_same_bytes(fresh_workers, own_cache: Path, monkeypatch):
    first = build(provoke.CLEAN)
    monkeypatch.setenv("KGEN_CACHE", str(own_cache) + "2")
    pool.close_all()
    second = build(provoke.CLEAN)
    assert not second.cached
    assert second.key == first.key
    assert second.data == first.data


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda/std/cstdint"])
def test_the_toolkits_own_headers_are_found(compiler, header):
    assert build(f"#include <{header}>\n{TINY}", compiler=compiler).data


def test_disassembly_shows_the_kernel():
    text = disassemble(build(provoke.CLEAN).path)
    assert "HGMMA.64x128x16.F32" in text
    assert "WARPGROUP.DEPBAR" in text


def test_disassembly_of_something_else(tmp_path: Path):
    (tmp_path / "no.cubin").write_bytes(b"not a cubin")
    with pytest.raises(CompileError, match="nvdisasm"):
        disassemble(tmp_path / "no.cubin")


def test_a_kernel_with_four_consumer_loops_takes_less_than_two_seconds(fresh_workers):
    build()  # the worker is up
    start = time.perf_counter()
    made = build(provoke.FOUR_CONSUMERS)
    assert time.perf_counter() - start < 2.0
    assert made.findings == ()
    assert disassemble(made.path).count("HGMMA") >= 16


# Refusals


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_wrong_source_names_its_line_and_carries_the_log(compiler):
    with pytest.raises(CompileError) as caught:
        build("\n" + TINY.replace("1.f", "one"), compiler=compiler)
    assert str(caught.value).startswith(f"tiny.cu: {compiler} 13.5.37 refuses the source")
    assert 'tiny.cu(2): error: identifier "one" is undefined' in str(caught.value)
    assert 'identifier "one" is undefined' in caught.value.log
    assert "/" not in str(caught.value).split("error", maxsplit=1)[0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_refusal_by_ptxas(compiler):
    source = TINY.replace("p[threadIdx.x] = 1.f;", 'asm volatile("tcgen05.fence::nonsense;");')
    with pytest.raises(CompileError, match="ptxas"):
        build(source, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_architecture_nobody_knows(compiler):
    with pytest.raises(CompileError, match="sm_42a"):
        compile_source(TINY, name="tiny", target="sm_42a", compiler=compiler)


@pytest.mark.parametrize("name", ["", "9k", "a-b", "../k", "a b", "k" * 64, "k\n", "é"])
def test_names_that_are_no_identifiers(name):
    with pytest.raises(CompileError, match="identifier"):
        compile_source(TINY, name=name, target="sm_90a")


@pytest.mark.parametrize("target", ["", "90a", "sm_90a -v", "compute_90a", "sm_90a\n"])
def test_targets_that_are_no_architectures(target):
    with pytest.raises(CompileError, match="architecture"):
        compile_source(TINY, name="tiny", target=target)


def test_a_source_that_includes_host_headers_fails_cleanly_in_nvrtc():
    with pytest.raises(CompileError, match=r"stdio\.h"):
        build("#include <stdio.h>\n" + TINY)


def test_an_empty_source_and_odd_text():
    assert build("").resources == ()
    assert build('// é \U0001f600 "quote" \\\n' + "\n" + TINY).data
    assert build(TINY.replace("\n", "\r\n")).data


# The gate, provoked live


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("clean", []),
        ("spill", ["spill"]),
        ("c7507", ["C7507"]),
        ("c7508", ["C7508"]),
        ("c7510", ["C7510"]),
        ("c7511", ["C7511", "spill"]),
        ("c7514", ["C7514"]),
        ("c7515", ["C7515"]),
        ("c7517", ["C7517"]),
    ],
)
def test_ptxas_still_reports(compiler, case, codes):
    made = build(provoke.ALL[case], compiler=compiler)
    assert [finding.code for finding in made.findings] == codes


@pytest.mark.parametrize("compiler", COMPILERS)
def test_too_few_registers_for_one_wgmma_is_refused_with_advice(compiler):
    with pytest.raises(CompileError, match="fix: schedule.consumers") as caught:
        build(provoke.C7602, compiler=compiler)
    assert [item.code for item in gate.check(caught.value.log)] == ["C7602"]


def test_this_ptxas_adds_a_missing_fence_without_a_note():
    """C7519 of ptxas 13.0 is gone in 13.5; when this fails, the gate's comment needs a change."""
    made = build(provoke.C7519)
    assert made.findings == ()
    assert "WARPGROUP.ARRIVE" in disassemble(made.path)


# Nothing but the private toolchain


def sabotage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point every variable that could lead a compiler astray at traps; return what they touch."""
    touched = folder / "touched"
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "lib64").mkdir()
    for tool in ("nvcc", "ptxas", "cicc", "cudafe++", "fatbinary", "nvlink", "nvdisasm"):
        trap = folder / "bin" / tool
        trap.write_text(f"#!/bin/sh\necho {tool} >> {touched}\nexit 1\n")
        trap.chmod(0o755)
    for header in ("cuda_fp16.h", "cuda_runtime.h", "crt/host_config.h", "cuda/std/cstdint"):
        path = folder / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#error a header of a toolkit that nobody asked for\n")
    for library in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.5", "libcudart_static.a"):
        (folder / "lib64" / library).write_bytes(b"trap")
    (folder / "json.py").write_text(f"open({str(touched)!r}, 'a').write('json.py')\n")
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_PATH", "CONDA_PREFIX"):
        monkeypatch.setenv(variable, str(folder))
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "CUDA_INC_PATH"):
        monkeypatch.setenv(variable, str(folder / "include"))
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
        monkeypatch.setenv(variable, str(folder / "lib64"))
    for variable in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
        monkeypatch.setenv(variable, "--no-such-flag")
    monkeypatch.setenv("NVCC_CCBIN", str(folder / "bin" / "nvcc"))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("PYTHONHOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return touched


def test_nothing_in_the_environment_leads_to_another_toolkit(
    fresh_workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    touched = sabotage(tmp_path / "bogus", monkeypatch)
    source = "#include <cuda_fp16.h>\n#include <cuda/std/cstdint>\n" + TINY
    for compiler in COMPILERS:
        made = compile_source(source, name="tiny", target="sm_90a", compiler=compiler)
        assert made.data[:4] == b"\x7fELF"
        assert disassemble(made.path)
    assert build_shared_library(LAUNCHER, name="tiny", target="sm_90a").is_file()
    assert not touched.exists()


def test_nvrtc_needs_nothing_on_path(fresh_workers, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert disassemble(build().path)
    assert not (tmp_path / "home").exists()


def test_nvcc_without_a_host_compiler_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (
        lambda: build(compiler="nvcc"),
        lambda: build_shared_library(LAUNCHER, name="tiny", target="sm_90a"),
    ):
        with pytest.raises(ToolchainError, match=r"g\+\+"):
            call()


def test_another_toolkit_only_when_asked(tmp_path: Path, monkeypatch):
    """The private toolkit serves as the other one: its path is given, as a user would."""
    root = str(toolchain.locate().toolkit)
    with pytest.raises(ToolchainError, match="nvcc only"):
        build(toolchain=root)
    with pytest.raises(ToolchainError, match="nvcc only"):
        build(toolchain="system")
    made = build(compiler="nvcc", toolchain=root)
    assert made.compiler.startswith("nvcc 13.5.37 build ")
    assert made.key != build(compiler="nvcc").key
    assert made.data == build(compiler="nvcc").data


# Workers that die, hang, or are interrupted


def only_worker() -> pool.Worker:
    """The one worker of this process; waits for it to appear."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        alive = [worker for worker in list(pool._started) if worker.alive()]
        if alive:
            assert len(alive) == 1
            return alive[0]
        time.sleep(0.01)
    raise AssertionError("no worker started")


def test_a_killed_worker_is_an_error_and_the_next_request_gets_a_new_one(fresh_workers):
    build()
    victim = only_worker()
    killer = threading.Timer(0.5, os.kill, (victim.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(CompileError, match="died while compiling it .signal 9"):
        build(SLOW)
    killer.join()
    assert build(TINY + "//").data
    assert only_worker() is not victim


def test_an_idle_worker_that_died_is_replaced(fresh_workers):
    build()
    victim = only_worker()
    os.kill(victim.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert build(TINY + "//").data


def test_a_hanging_compilation_is_stopped(fresh_workers):
    build()
    pid = only_worker().pid
    start = time.monotonic()
    with pytest.raises(CompileError, match=r"did not finish in 0\.5 s"):
        build(SLOW, timeout=0.5)
    assert time.monotonic() - start < 5
    assert not Path(f"/proc/{pid}").exists()
    assert build(TINY + "//").data


def test_a_hanging_nvcc_is_stopped_with_its_children(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(CompileError, match=r"did not finish in 3 s"):
        build(SLOW, compiler="nvcc", timeout=3)
    assert running_with(str(toolchain.locate().toolkit) + "/") == []


def running_with(text: str, besides: tuple[int, ...] = ()) -> list[int]:
    """Processes, zombies aside, whose command line holds this text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in command and int(folder.name) not in (os.getpid(), *besides):
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    ("compiler", "number"),
    [
        ("nvrtc", signal.SIGINT),
        ("nvrtc", signal.SIGTERM),
        ("nvrtc", signal.SIGKILL),
        ("nvcc", signal.SIGINT),  # a killed kgen cannot stop its nvcc
    ],
)
def test_an_interrupted_kgen_leaves_no_process_and_no_file(
    fresh_workers, compiler, number, own_cache: Path, tmp_path: Path
):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "slow.cu").write_text(SLOW)
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        f"source = open({str(tmp_path / 'slow.cu')!r}).read()\n"
        f"compile_source(source, name='slow', target='sm_90a', compiler={compiler!r})\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    toolkit = str(toolchain.locate().toolkit)
    child = subprocess.Popen(
        [sys.executable, "-c", script], env=env, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: running_with(toolkit, (child.pid,)) != [])
    time.sleep(1.0)  # well inside the compilation
    child.send_signal(number)
    _, errors = child.communicate(timeout=10)
    assert child.returncode == -number, errors
    wait_until(lambda: running_with(toolkit) == [])
    assert [path for path in own_cache.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "tmp").iterdir()) == []


def wait_until(condition, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# Many at once


def test_several_processes_build_the_same_sources(own_cache: Path):
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        "for i in range(4):\n"
        "    s = f'extern \"C\" __global__ void k(int* p) {{ *p = {i}; }}'\n"
        "    print(compile_source(s, name='k', target='sm_90a').path)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = {child.communicate(timeout=120)[0] for child in children}
    assert [child.returncode for child in children] == [0] * 4
    assert len(outputs) == 1
    paths = outputs.pop().split()
    assert len(set(paths)) == 4
    entries = [path for path in own_cache.glob("artifacts/*/*") if path.is_dir()]
    assert sorted(str(path.parent) for path in map(Path, paths)) == sorted(map(str, entries))


def test_threads_share_the_workers(fresh_workers):
    results: dict[int, bytes] = {}

    def work(number: int) -> None:
        results[number] = build(TINY.replace("1.f", f"{number}.f")).data

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(set(results.values())) == 6


def test_a_forked_child_uses_its_own_worker(tmp_path: Path):
    script = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from kgen.build.compile import compile_source\n"
        "def build(i):\n"
        "    s = f'extern \"C\" __global__ void k(int* p) {{ *p = {i}; }}'\n"
        "    return compile_source(s, name='k', target='sm_90a').data\n"
        "build(0)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    ok = all(build(i) for i in range(1, 6))\n"
        "    os._exit(0 if ok else 1)\n"
        "assert all(build(i) for i in range(11, 16))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()


# Shared libraries


def test_shared_library_loads_without_a_driver(tmp_path: Path):
    source = tmp_path / "tiny.cu"
    source.write_text(LAUNCHER)
    path = build_shared_library(source, name="tiny", target="sm_90a")
    assert path.name == "libtiny.so"
    library = ctypes.CDLL(str(path))
    assert library.tiny_answer() == 42
    assert isinstance(library.tiny_entry_point(), int)
    assert build_shared_library(LAUNCHER, name="tiny", target="sm_90a") == path


def test_shared_library_needs_neither_libcuda_nor_libcudart():
    path = build_shared_library(LAUNCHER, name="tiny", target="sm_90a")
    env = {**os.environ, "LC_ALL": "C"}
    listing = subprocess.check_output(["readelf", "-d", path], text=True, env=env)
    needed = re.findall(r"NEEDED.*\[(.*)\]", listing)
    assert any(name.startswith("libc.so") for name in needed)
    assert not [name for name in needed if "cuda" in name]


def test_shared_library_with_a_direct_driver_call_fails_when_built():
    source = LAUNCHER.replace("return 42", "return cuInit(0)")
    with pytest.raises(CompileError, match="undefined reference to .cuInit"):
        build_shared_library("#include <cuda.h>\n" + source, name="tiny", target="sm_90a")
