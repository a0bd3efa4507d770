"""The fixture `emulate`, used in a test run of its own."""

import os
import subprocess
import sys
from pathlib import Path

from emulator import mini
from kgen.emu.launch import dump_launch

ROOT = Path(__file__).parents[2]

TESTS = """
def test_clean(emulate):
    report = emulate("right.ptx", "launch.yaml")
    assert report.verdict == "clean" and len(report.runs) == SCHEDULES

def test_broken(emulate):
    emulate("broken.ptx", "launch.yaml")

def test_expected_finding(emulate):
    report = emulate("broken.ptx", "launch.yaml", allow=["missing-proxy-fence"])
    assert report.verdict == "error"
"""


def run_tests(folder: Path, schedules: int, *options: str) -> str:
    (folder / "right.ptx").write_text(mini.PTX)
    (folder / "broken.ptx").write_text(mini.broken(("fence.proxy.async.shared::cta;", "")))
    dump_launch(mini.launch(), folder / "launch.yaml")
    (folder / "test_it.py").write_text(f"SCHEDULES = {schedules}\n{TESTS}")
    command = [sys.executable, "-m", "pytest", "-p", "kgen.emu.pytest_plugin", "-q", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout


def test_fixture(tmp_path):
    """A clean kernel passes, a finding fails the test with its text, an allowed one does not."""
    output = run_tests(tmp_path, 7)
    assert "1 failed, 2 passed" in output, output
    assert "error: missing-proxy-fence" in output


def test_schedules_from_the_command_line(tmp_path):
    output = run_tests(tmp_path, 2, "--emulator-schedules", "early,late")
    assert "1 failed, 2 passed" in output, output
