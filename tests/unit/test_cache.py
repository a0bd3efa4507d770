"""The content-addressed store: keys, atomic entries, corruption, races; no compiler."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from kgen.build import cache, toolchain
from kgen.build.compile import compile_source
from kgen.errors import ToolchainError

KEY = cache.key(source="x")


@pytest.fixture(autouse=True)
def store_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put(data: bytes = b"cubin", log: str = "log é\n") -> cache.Entry:
    return cache.store(KEY, "k.cubin", data, log, {"seconds": 1.5})


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.is_dir()]


def test_root_follows_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert cache.root() == tmp_path / "cache"
    monkeypatch.delenv("KGEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.root() == tmp_path / "xdg" / "kgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.root() == tmp_path / ".cache" / "kgen"


def test_key_changes_with_every_part_and_with_nothing_else():
    parts = {
        "source": "a",
        "name": "k",
        "target": "sm_90a",
        "flags": ("-v",),
        "emit": "cubin",
        "compiler": "nvrtc 1",
    }
    keys = {cache.key(**parts)}
    for name in parts:
        keys.add(cache.key(**{**parts, name: ("other",) if name == "flags" else "other"}))
    assert len(keys) == 1 + len(parts)
    assert cache.key(**parts) == cache.key(**dict(reversed(parts.items())))
    assert cache.key(flags=("a", "b")) != cache.key(flags=("a b",))


def test_round_trip():
    assert cache.load(KEY) is None
    put()
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.path.name == "k.cubin"
    assert entry.path.read_bytes() == b"cubin"
    assert entry.log == "log é\n"
    assert entry.report == {"seconds": 1.5}


def test_a_second_store_keeps_the_first(store_folder: Path):
    first = put(b"first")
    assert put(b"second").path == first.path
    assert first.path.read_bytes() == b"first"
    assert leftovers(store_folder) == []


@pytest.mark.parametrize("file", ["k.cubin", "log.txt", "report.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "empty"])
def test_a_damaged_entry_is_removed_and_can_be_stored_again(
    file: str, damage: str, store_folder: Path
):
    path = put().path.parent / file
    content = path.read_bytes()
    match damage:
        case "truncate":
            path.write_bytes(content[:-2])
        case "flip":
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case "remove":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
    assert cache.load(KEY) is None
    assert not path.parent.exists()
    put(b"again")
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.path.read_bytes() == b"again"
    assert leftovers(store_folder) == []


def test_store_over_a_damaged_entry_that_nobody_loaded():
    put().path.write_bytes(b"damaged")
    put(b"good")
    entry = cache.load(KEY)
    assert entry is not None
    assert entry.path.read_bytes() == b"good"


def test_an_entry_under_a_foreign_key_is_refused(store_folder: Path):
    other = cache.key(source="y")
    folder = put().path.parent
    moved = store_folder / "artifacts" / other[:2] / other
    moved.parent.mkdir(parents=True, exist_ok=True)
    os.rename(folder, moved)
    assert cache.load(other) is None


def test_an_interrupted_store_leaves_nothing(store_folder: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put()
    assert [path for path in store_folder.rglob("*") if path.is_file()] == []
    assert leftovers(store_folder) == []


def test_many_threads_store_the_same_key(store_folder: Path):
    seen: list[bytes] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        seen.append(put(b"%d" % number).path.read_bytes())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert leftovers(store_folder) == []


def test_a_cache_that_is_a_file_is_a_toolchain_error(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="KGEN_CACHE"):
        put()


def test_no_path_host_or_clock_in_a_stored_report(store_folder: Path):
    report = json.loads((put().path.parent / "report.json").read_text())
    assert set(report) == {"schema", "key", "file", "sha256", "log_sha256", "report"}
    assert str(store_folder) not in json.dumps(report)


def carried_entry(name: str) -> str:
    """Store a build as compile_source would have, and return its source text."""
    source = 'extern "C" __global__ void k() {}\n'
    key = cache.key(
        source=source,
        name=name,
        target="sm_90a",
        flags=(
            "--gpu-architecture=sm_90a",
            "--std=c++17",
            "--no-cache",
            "--ptxas-options=-v",
        ),
        emit="cubin",
        compiler=toolchain.lock().identity("nvrtc"),
        host="",
    )
    log = (Path(__file__).parent / "logs" / "clean.nvrtc.txt").read_text()
    cache.store(key, f"{name}.cubin", b"carried", log, {"seconds": 0.5})
    return source


def test_a_carried_cache_needs_no_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "")
    source = carried_entry("k")
    built = compile_source(source, name="k", target="sm_90a")
    assert built.cached
    assert built.data == b"carried"
    assert built.resources[0].registers == 90
    with pytest.raises(ToolchainError, match="kgen toolchain install"):
        compile_source(source + "//", name="k", target="sm_90a")
