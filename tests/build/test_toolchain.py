"""The private environment: state, installation, damage, and what a worker refuses."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kgen.build import nvcc, pool, process, toolchain
from kgen.errors import ToolchainError

ROOT = Path(__file__).parents[2]
MACHINES = {"x86_64", "aarch64"}


def test_every_pin_is_exact_and_hashed_for_both_machines():
    text = toolchain.LOCK_FILE.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(toolchain.lock().pins) == 10
    for line in lines:
        assert re.match(r"[\w-]+==[\w.]+ ", line)
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", line)
        # cuda-pathfinder is pure Python: one wheel for all machines
        assert len(hashes) >= (1 if line.startswith("cuda-pathfinder") else 2)
        assert len(hashes) == len(set(hashes))
    compilers = ("nvcc", "nvrtc", "runtime", "crt", "cuobjdump", "nvdisasm")
    assert {toolchain.lock().pins[f"nvidia-cuda-{name}"] for name in compilers} == {"13.5.37"}
    assert set(toolchain.lock().download_bytes) == MACHINES


def test_installed():
    found = toolchain.status()
    assert (found.state, found.problem) == ("installed", "")
    assert found.release == "13.5.37"
    here = toolchain.locate()
    assert here.home == found.home
    for tool in (here.nvcc, here.nvdisasm):
        done = process.run([tool, "--version"], env=process.scrubbed_env(), timeout=60)
        assert "release 13.5" in done.output
    assert (here.toolkit / "include" / "cuda_fp16.h").is_file()
    assert (here.toolkit / "include" / "cccl" / "cuda" / "std" / "cstdint").is_file()
    assert (here.toolkit / "lib" / "libcudart_static.a").is_file()


def test_the_versions_inside_are_the_pinned_ones():
    script = (
        "import importlib.metadata as m, json, sys;"
        "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    )
    pins = toolchain.lock().pins
    command = [toolchain.locate().python, "-I", "-c", script, *pins]
    done = process.run(command, env=process.scrubbed_env(), timeout=60)
    assert json.loads(done.output) == pins


def test_install_again_is_quick_and_says_so():
    lines: list[str] = []
    assert toolchain.install(lines.append) == toolchain.locate()
    assert len(lines) == 1
    assert "already installed" in lines[0]


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path))
    assert toolchain.status().state == "missing"
    with pytest.raises(ToolchainError, match="kgen toolchain install") as caught:
        toolchain.locate()
    assert caught.value.exit_code == 3
    toolchain.home().mkdir()  # an interrupted installation: a folder without the marker
    assert toolchain.status().state == "missing"


def test_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path))
    fake_install(toolchain.home())
    assert toolchain.status().state == "installed"
    (toolchain.home() / "bin" / "python").unlink()
    (toolchain.home() / "bin" / "python").symlink_to(tmp_path / "removed")
    found = toolchain.status()
    assert found.state == "broken"
    assert "bin/python is missing" in found.problem
    with pytest.raises(ToolchainError, match="kgen toolchain install"):
        toolchain.locate()
    for content in ("", "[]", "{}", "{"):
        (toolchain.home() / "installed.json").write_text(content)
        assert toolchain.status().state == "broken"


@pytest.mark.parametrize("machine", ["ppc64le", "riscv64"])
def test_unsupported_machine(machine: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert toolchain.status().state == "unsupported"
    for call in (toolchain.locate, toolchain.install):
        with pytest.raises(ToolchainError, match=machine):
            call()


def fake_install(home: Path) -> None:
    """The files that a marker promises, all empty."""
    for file in ("bin/python", "site/nvidia/cu13/bin/nvcc", "site/nvidia/cu13/bin/nvdisasm"):
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).touch()
    (home / "site/nvidia/cu13/lib").mkdir()
    marker = {"digest": toolchain.lock().digest, "site": "site"}
    (home / "installed.json").write_text(json.dumps(marker))


def test_two_installers_at_once_build_once(tmp_path: Path):
    script = tmp_path / "installer.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]
        from kgen.build import toolchain
        from test_toolchain import fake_install

        def build(plan, progress):
            with open({str(tmp_path / "builds")!r}, "a") as log:
                log.write("build\\n")
            time.sleep(0.5)
            fake_install(plan.home)

        toolchain._build = build
        toolchain.install()
        print(toolchain.status().state)
        """)
    )
    env = {**os.environ, "KGEN_TOOLCHAIN_DIR": str(tmp_path / "toolchain")}
    children = [
        subprocess.Popen([sys.executable, script], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    assert [output.splitlines()[-1] for output in outputs] == ["installed"] * 3
    assert (tmp_path / "builds").read_text() == "build\n"


def test_a_failed_download_leaves_nothing_and_shows_pips_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    lines: list[str] = []
    with pytest.raises(ToolchainError, match="No matching distribution"):
        toolchain.install(lines.append)
    assert "downloading 10 wheels" in lines[0]
    assert re.search(r"\b20\d MB|\b18\d MB", lines[0])
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert toolchain.status().state == "missing"


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="KGEN_TOOLCHAIN_DIR"):
        toolchain.install(lambda _: None)


def test_a_worker_with_an_nvrtc_from_elsewhere_is_refused(tmp_path: Path):
    here = toolchain.locate()
    (tmp_path / "lib").mkdir()
    for library in (here.toolkit / "lib").glob("libnvrtc*"):
        (tmp_path / "lib" / library.name).symlink_to(library)
    with pytest.raises(ToolchainError, match="which is not in"):
        pool.Worker(toolchain.Toolchain(here.home, here.python, tmp_path))


def test_a_worker_without_nvrtc_says_what_is_missing(tmp_path: Path):
    here = toolchain.locate()
    with pytest.raises(ToolchainError, match="libnvrtc"):
        pool.Worker(toolchain.Toolchain(here.home, here.python, tmp_path))


def test_a_python_that_is_no_python(tmp_path: Path):
    here = toolchain.locate()
    for content, mode in (("", 0o644), ("#!/bin/sh\necho no\n", 0o755)):
        fake = tmp_path / "python"
        fake.write_text(content)
        fake.chmod(mode)
        with pytest.raises(ToolchainError, match="kgen toolchain install"):
            pool.Worker(toolchain.Toolchain(here.home, fake, here.toolkit))


def test_named_toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ToolchainError, match="no such nvcc"):
        nvcc.named(str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="no nvcc on PATH"):
        nvcc.named("system")
    toolkit = toolchain.locate().toolkit
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    found = nvcc.named("system")
    assert found.binary == toolkit / "bin" / "nvcc"
    assert found.identity.startswith("nvcc 13.5.37 build cuda_13.5")
    assert str(toolkit) not in found.identity
