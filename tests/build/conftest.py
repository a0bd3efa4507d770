"""Build tests use the installed toolchain (`make test` installs it) and a cache of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kgen.build import pool, toolchain

INSTALLED = toolchain.home().parent  # found before any test changes KGEN_CACHE


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEN_TOOLCHAIN_DIR", str(INSTALLED))
    monkeypatch.setenv("KGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fresh_workers():
    """No worker from an earlier test, and none for the next one."""
    pool.close_all()
    yield
    pool.close_all()


@pytest.fixture(scope="session")
def gxx() -> str:
    """g++, which `make test` needs anyway; somebody who runs a single file may lack it."""
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no g++ on PATH")
    return found
