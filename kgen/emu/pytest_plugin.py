"""A pytest plug-in: the fixture `emulate` runs a kernel and fails the test unless it is clean.

    def test_kernel(emulate):
        report = emulate("kernel.ptx", "launch.yaml")
        assert report.outputs["d"].tolist() == [...]

Enable it with `-p kgen.emu.pytest_plugin`, or `pytest_plugins = ["kgen.emu.pytest_plugin"]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pytest

from kgen.emu.api import DEFAULT_SCHEDULES, MAX_STEPS, emulate
from kgen.emu.launch import Launch, load_launch
from kgen.emu.report import Report


class Emulate(Protocol):
    """What the fixture gives."""

    def __call__(
        self,
        ptx: str | Path,
        launch: Launch | str | Path,
        schedules: Iterable[str] = DEFAULT_SCHEDULES,
        allow: Iterable[str] = (),
        max_steps: int = MAX_STEPS,
    ) -> Report:
        """ptx and launch: the objects, or paths to files.

        allow   kinds of findings that the test expects; it looks at them itself
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kgen emulator")
    group.addoption(
        "--emulator-schedules",
        default="",
        help="comma-separated schedules that replace those of every test, e.g. early or all",
    )


@pytest.fixture(name="emulate")
def emulate_fixture(request: pytest.FixtureRequest) -> Emulate:
    """Runs a kernel under several schedules; findings, or results that differ, fail the test."""
    override = request.config.getoption("--emulator-schedules", default="")

    def run(
        ptx: str | Path,
        launch: Launch | str | Path,
        schedules: Iterable[str] = DEFAULT_SCHEDULES,
        allow: Iterable[str] = (),
        max_steps: int = MAX_STEPS,
    ) -> Report:
        text = ptx if isinstance(ptx, str) and "\n" in ptx else Path(ptx).read_text()
        description = launch if isinstance(launch, Launch) else load_launch(launch)
        chosen = tuple(override.split(",")) if override else schedules
        report = emulate(text, description, chosen, max_steps)
        allowed = set(allow)
        unexpected = [str(f) for f in report.findings if f.kind not in allowed]
        if unexpected:
            pytest.fail("\n".join([f"{report.kernel}: {report.verdict}", *unexpected]), False)
        return report

    return run
