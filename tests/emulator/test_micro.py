"""Replays the micro-tests in the emulator and compares with what an H200 left in memory.

The golden file is tracked and comes from micro/capture.py; without it these tests fail.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kgen.emu.launch import Scalar
from kgen.emu.layout import descriptor_addresses
from kgen.emu.report import Report

from .micro import goldens
from .micro.cases import Case, all_cases
from .micro.forms import WGMMA
from .micro.generated import IMAGE_BYTES
from .micro.goldens import Golden
from .micro.modules import MODULES, ptx_text
from .micro.replay import output_bytes, parameter_count, replay

GOLDEN = Path(__file__).parent / "micro" / "golden.npz"
CASES = all_cases()

NOT_MODELLED: frozenset[str] = frozenset()
"""Kernels whose instruction the emulator refuses: they must end `incomplete`, never in a value."""

FAULTS = goldens.load(GOLDEN).failures if GOLDEN.exists() else {}
"""Cases that raise a fault on the hardware, and so leave no values to compare."""


def test_the_golden_file_is_there():
    assert GOLDEN.exists(), "no micro/golden.npz: restore it, or run capture.py on an H200"


@cache
def golden() -> Golden:
    return goldens.load(GOLDEN)


@cache
def report(name: str) -> Report:
    return replay(CASES[name])


def modelled(case: Case) -> bool:
    return case.launch.kernel not in NOT_MODELLED


@pytest.mark.parametrize("name", CASES)
def test_verdict(name):
    """Every kernel is a good citizen, except those that say otherwise or fault on the hardware."""
    case = CASES[name]
    kinds = {finding.kind for finding in report(name).findings}
    if not modelled(case):
        assert kinds == {"unmodelled"} and report(name).verdict == "incomplete"
    elif case.waits_forever:
        assert kinds == {"deadlock"} and report(name).verdict == "error"
    elif name in FAULTS:
        assert kinds == {"tma-coordinate"} and report(name).verdict == "error"
    else:
        expected = {case.finding} if case.finding else set()
        assert kinds == expected, "\n".join(map(str, report(name).findings))


COMPARABLE = [
    n for n, c in CASES.items() if modelled(c) and not c.waits_forever and n not in FAULTS
]


@pytest.mark.parametrize("name", COMPARABLE)
def test_equals_the_hardware(name):
    case = CASES[name]
    for array, data in output_bytes(report(name), case).items():
        assert golden().matches(name, array, data), difference(name, array, data)


def difference(name: str, array: str, data: bytes) -> str:
    """The first words that differ, if the golden file has them."""
    if (name, array) in golden().digested:
        return f"{array}: digests differ"
    ours, theirs = (np.frombuffer(x, np.uint32) for x in (data, golden().results[name][array]))
    places = np.flatnonzero(ours != theirs)
    rows = [
        f"{array}[{i}]: emulator {ours[i]:#010x}, hardware {theirs[i]:#010x}" for i in places[:8]
    ]
    return "\n".join([f"{places.size} of {ours.size} words differ", *rows])


def test_the_golden_file_is_of_these_kernels():
    assert golden().modules == {m: goldens.module_digest(ptx_text(m)) for m in MODULES}
    assert set(golden().results) | set(golden().failures) == set(CASES)
    assert not set(golden().results) & set(golden().failures)
    assert all("cudaErrorIllegalInstruction" in text for text in golden().failures.values())
    assert GOLDEN.stat().st_size < 300_000


def test_the_hardware_gave_up_where_the_emulator_sees_a_deadlock():
    for name, case in CASES.items():
        if case.waits_forever:
            assert golden().results[name]["out"][-4:] == bytes(4)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.module in ("tma", "sync")])
def test_schedules_agree(name):
    """What arrives does not depend on when it arrives."""
    case = CASES[name]
    if not modelled(case):
        return
    for schedule in ("late", "random:3"):
        other = replay(case, (schedule,))
        assert output_bytes(other, case) == output_bytes(report(name), case)


def test_kernels_and_launches_fit():
    for case in CASES.values():
        assert parameter_count(case) == len(case.launch.arguments), case.name


def test_wgmma_operands_stay_in_the_image():
    for name, case in CASES.items():
        if case.module != "wgmma":
            continue
        form = next(f for f in WGMMA if f.name == case.launch.kernel)
        a, b, a_step, b_step, steps, _ = (
            int(x.value) for x in case.launch.arguments if isinstance(x, Scalar)
        )
        size, trans = 32 // form.k, form.trans or (0, 0)
        for raw, step, rows, mn in ((a, a_step, 64, trans[0]), (b, b_step, form.n, trans[1])):
            last = raw + (steps - 1) * step
            places = descriptor_addresses(last, rows, form.k, size, "mn" if mn else "k")
            assert int(places.max()) + size <= IMAGE_BYTES, name


def test_golden_files_survive(tmp_path):
    stored = Golden({"m": "0"}, "device")
    stored.results = {"a": {"x": b"1234", "y": bytes(goldens.FULL_BYTES + 4)}, "b": {"x": b""}}
    stored.failures = {"c": "hangs"}
    stored.save(tmp_path / "g.npz")
    back = goldens.load(tmp_path / "g.npz")
    assert (back.modules, back.device, back.failures) == ({"m": "0"}, "device", {"c": "hangs"})
    assert back.digested == {("a", "y")}
    assert back.matches("a", "x", b"1234") and not back.matches("a", "x", b"1235")
    assert back.matches("a", "y", bytes(goldens.FULL_BYTES + 4))
    assert not back.matches("a", "y", bytes(goldens.FULL_BYTES))
    stored.save(tmp_path / "full.npz", full_bytes=1 << 20)
    assert goldens.load(tmp_path / "full.npz").results == stored.results


def test_module_digest_ignores_comments():
    one = "add.u32 %a; // sum\n\n  ret;\n"
    assert goldens.module_digest(one) == goldens.module_digest("add.u32 %a;\nret;")
    assert goldens.module_digest(one) != goldens.module_digest("sub.u32 %a;\nret;")
