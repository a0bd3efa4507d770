"""Fixtures of the GPU tests (`make gpu`); where something is missing, the skip says what."""

from __future__ import annotations

from pathlib import Path

import pytest
from device import Loaded, load

from kgen.errors import DeviceError
from kgen.paths import data_folder
from kgen.run.launch import import_cupy

SPECS = sorted(p for p in data_folder("specs").rglob("*.yaml") if ".sweep" not in p.suffixes)


@pytest.fixture
def gpu() -> None:
    """A GPU with cupy and torch; skips with the reason where there is none."""
    try:
        import_cupy()
    except DeviceError as error:
        pytest.skip(str(error))
    pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(params=SPECS, ids=[p.stem for p in SPECS])
def spec(request: pytest.FixtureRequest) -> Path:
    """Every shipped spec."""
    return request.param


@pytest.fixture
def loaded(gpu: None, spec: Path) -> Loaded:
    """Every shipped kernel whose target the current GPU is."""
    try:
        return load(spec)
    except DeviceError as error:
        pytest.skip(str(error))
