"""compile_source and its kin against the real compilers; no GPU."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import provoke
import pytest
from provoke import LAUNCHER, TINY

from kgen.build import gate, pool, toolchain
from kgen.build.compile import Compiler, build_shared_library, compile_source, disassemble
from kgen.errors import CompileError

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


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; unlike the clock, other work hardly changes it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_main_loop_of_a_real_kernel_takes_less_than_two_seconds(fresh_workers):
    build()  # the worker is up
    (worker,) = [worker for worker in list(pool._started) if worker.alive()]
    start = cpu_seconds(worker.pid)
    made = build(provoke.MAIN_LOOP)
    assert 0 < cpu_seconds(worker.pid) - start < 2.0
    assert made.findings == ()
    assert disassemble(made.path).count("HGMMA") >= 8


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


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("text", ["\0", "\udc80"])
def test_a_source_that_is_no_text_is_refused(compiler, text):
    with pytest.raises(CompileError, match="not plain text"):
        build(f"{TINY}// {text}", compiler=compiler)


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
def test_require_clean_of_an_artefact(compiler):
    build(compiler=compiler).require_clean()
    build(compiler=compiler, emit="ptx").require_clean()
    with pytest.raises(CompileError, match="says nothing of this kernel"):
        build(TINY.replace("tiny", "other"), compiler=compiler).require_clean()
    with pytest.raises(CompileError, match="spill stores"):
        build(provoke.SPILL.replace("probe", "tiny"), compiler=compiler).require_clean()


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
