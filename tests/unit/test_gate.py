"""The ptxas gate against real logs (tests/build/provoke.py writes them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.build import gate
from kgen.build.gate import Finding, Resources
from kgen.errors import CompileError

LOGS = Path(__file__).parent / "logs"


def log(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text()


EXPECTED = {
    "clean.nvrtc": [],
    "clean.nvcc": [],
    "two_kernels.nvrtc": [],
    "two_kernels.nvcc": [],
    "spill.nvrtc": [("spill", "registers", "probe")],
    "spill.nvcc": [("spill", "registers", "probe")],
    "c7507.nvrtc": [("C7507", "setmaxnreg", "")],
    "c7508.nvrtc": [("C7508", "setmaxnreg", "")],
    "c7510.nvrtc": [("C7510", "wgmma serialised", "probe")],
    "c7511.nvrtc": [("C7511", "registers", "probe"), ("spill", "registers", "probe")],
    "c7514.nvrtc": [("C7514", "wgmma serialised", "probe")],
    "c7515.nvrtc": [("C7515", "wgmma serialised", "probe")],
    "c7515.nvcc": [("C7515", "wgmma serialised", "probe")],
    "c7517.nvrtc": [("C7517", "accumulator in flight", "probe")],
    "c7517.nvcc13.0": [("C7517", "accumulator in flight", "probe")],
    "c7519.nvcc13.0": [("C7519", "accumulator in flight", "probe")],
    "c7519.nvrtc": [],  # ptxas 13.5 adds the missing fence and says nothing
    "c7602.nvrtc": [("C7602", "registers", "probe")],
}


def test_every_log_has_an_expectation():
    assert sorted(EXPECTED) == sorted(path.name[: -len(".txt")] for path in LOGS.iterdir())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_findings_of_real_logs(name: str):
    found = [(item.code, item.cause, item.kernel) for item in gate.check(log(name))]
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_finding_quotes_a_line_of_the_log(name: str):
    lines = [line.strip() for line in log(name).splitlines()]
    for finding in gate.check(log(name)):
        assert finding.line in lines


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_resources_of_a_spilling_kernel(compiler: str):
    assert gate.resources(log(f"spill.{compiler}")) == (
        Resources(
            "probe",
            "sm_90a",
            registers=32,
            spill_store_bytes=384,
            spill_load_bytes=372,
            stack_bytes=216,
        ),
    )


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_resources_of_two_kernels_and_a_called_function(compiler: str):
    assert gate.resources(log(f"two_kernels.{compiler}")) == (
        Resources("second", "sm_90a", registers=32, stack_bytes=32),
        Resources("_Z4fillPfi", "sm_90a", is_kernel=False),
        Resources("first", "sm_90a", registers=10, static_smem_bytes=256, barriers=1),
    )


def test_both_compilers_give_the_same_resources():
    for case in ("clean", "spill", "two_kernels"):
        assert gate.resources(log(f"{case}.nvrtc")) == gate.resources(log(f"{case}.nvcc"))


def test_a_spill_in_the_second_kernel_is_found_and_named():
    spilled = log("two_kernels.nvrtc").replace(
        "Function properties for first\nptxas         .     0 bytes stack frame, 0 bytes spill",
        "Function properties for first\nptxas         .     8 bytes stack frame, 8 bytes spill",
    )
    assert [(item.code, item.kernel) for item in gate.check(spilled)] == [("spill", "first")]


def test_spill_loads_alone_fail():
    line = "0 bytes stack frame, 0 bytes spill stores, 4 bytes spill loads"
    text = f"ptxas info    : Function properties for k\n    {line}\n"
    assert gate.check(text) == (Finding("spill", line, "registers", "k"),)


@pytest.mark.parametrize("number", range(7510, 7520))
def test_every_code_of_the_list_fails_whatever_it_says(number: int):
    line = f"ptxas info    : (C{number}) words of a ptxas to come"
    assert [item.code for item in gate.check(line)] == [f"C{number}"]


def test_setmaxnreg_ignored_under_another_code_fails():
    line = "ptxas info    : (C7506) Potential Performance Loss: 'setmaxnreg' ignored to wait."
    assert [(item.code, item.cause) for item in gate.check(line)] == [("C7506", "setmaxnreg")]


def test_other_notes_are_kept_but_do_not_fail():
    line = "ptxas info    : (C7599) something harmless"
    assert gate.check(line) == ()
    assert gate.notes(f"{line}\n{line}\nptxas info    : 0 bytes gmem\n") == (line,)


def test_source_text_quoted_by_the_front_end_is_no_finding():
    quoted = 'probe.cu(3): warning #1215-D: "a (C7515) note of mine" is quoted here\n'
    assert gate.check(quoted) == ()
    assert gate.notes(quoted) == ()


def test_repeated_lines_are_one_finding():
    assert len(gate.check(log("c7515.nvrtc") * 3)) == 1


def test_require_clean_passes_a_clean_log_and_prints_every_finding_of_another():
    gate.require_clean("probe", log("clean.nvrtc"))
    with pytest.raises(CompileError) as caught:
        gate.require_clean("probe", log("c7511.nvrtc"))
    text = str(caught.value)
    assert "(C7511)" in text
    assert "2936 bytes spill stores" in text
    assert "fix: schedule.consumers: " in text
    assert caught.value.log == log("c7511.nvrtc")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("text", ["", "ptxas info    : 0 bytes gmem\n"])
def test_a_report_that_is_silent_on_the_kernel_is_refused(text: str):
    gate.require_reported("probe", log("clean.nvrtc"))
    for kernel, report in (("probe", text), ("other", log("clean.nvrtc"))):
        with pytest.raises(CompileError, match="says nothing of this kernel"):
            gate.require_reported(kernel, report)


@pytest.mark.parametrize(
    ("name", "spec_field"),
    [
        ("spill.nvrtc", "schedule.consumers"),
        ("c7602.nvrtc", "schedule.consumers"),
        ("c7508.nvrtc", "schedule.registers"),
        ("c7515.nvrtc", "schedule.kind"),
        ("c7517.nvrtc", "schedule.kind"),
    ],
)
def test_advice_names_the_spec_field(name: str, spec_field: str):
    named, text = gate.advice(gate.check(log(name))[0])
    assert named == spec_field
    assert len(text) > 20


def test_empty_log():
    assert gate.check("") == ()
    assert gate.resources("") == ()
    assert gate.notes("") == ()
