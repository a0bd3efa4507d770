"""The exception tree and the printed form of a finding."""

from __future__ import annotations

import pytest

from kgen import errors
from kgen.errors import BudgetError, CompileError, Diagnostic, KgenError, LaunchError, SpecError

EXIT_CODES = {
    "SpecError": 2,
    "BudgetError": 2,
    "PlanError": 2,
    "RenderError": 2,
    "CompileError": 1,
    "ToolchainError": 3,
    "LaunchError": 1,
    "VerifyError": 1,
    "DeviceError": 3,
    "EmulatorError": 2,
}


def test_every_error_is_a_kgen_error_with_its_exit_code():
    found = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, KgenError) and not name.startswith("_")
    }
    assert found.pop("KgenError") == 2
    assert found == EXIT_CODES


@pytest.mark.parametrize("name", EXIT_CODES)
def test_the_tree_at_the_top_of_the_module_draws_every_error(name):
    assert f"      {name}" in (errors.__doc__ or "")


def test_a_finding_prints_place_line_caret_sum_and_fixes():
    finding = Diagnostic(
        "a.yaml",
        13,
        11,
        "schedule.stages",
        "4 stages do not fit",
        "  stages: 4   # depth",
        ("A ring 1", "total  1"),
        ("stages: 3",),
    )
    assert str(finding) == (
        "a.yaml:13:11: schedule.stages: 4 stages do not fit\n"
        "    13 |   stages: 4   # depth\n"
        "       |           ^\n"
        "    A ring 1\n"
        "    total  1\n"
        "    fix: stages: 3"
    )


def test_a_finding_without_place_or_field_prints_the_rest():
    assert str(Diagnostic("a.yaml", 0, 0, "", "No such file")) == "a.yaml: No such file"
    assert str(Diagnostic("a.yaml", 1, 1, "", "the file is empty")) == (
        "a.yaml:1:1: the file is empty"
    )


def test_a_long_line_is_cropped_around_the_caret():
    text = str(Diagnostic("a.yaml", 1, 1001, "x", "wrong", "a" * 1000 + "b" + "c" * 1000))
    _, line, caret = text.split("\n")
    assert len(line) == 169
    assert line[caret.index("^")] == "b"


def test_a_long_line_keeps_its_start_and_its_end():
    start = str(Diagnostic("a.yaml", 1, 1, "x", "wrong", "b" + "c" * 500)).split("\n")
    end = str(Diagnostic("a.yaml", 1, 501, "x", "wrong", "a" * 500 + "b")).split("\n")
    assert start[1][start[2].index("^")] == "b"
    assert end[1][end[2].index("^")] == "b"


def test_findings_are_printed_in_the_order_given():
    first, second = Diagnostic("a", 1, 1, "x", "one"), Diagnostic("a", 2, 1, "y", "two")
    error = SpecError([first, second])
    assert error.diagnostics == (first, second)
    assert str(error) == "a:1:1: x: one\na:2:1: y: two"
    assert isinstance(BudgetError([first]), KgenError)


def test_a_compile_error_carries_the_log_and_a_launch_error_the_status():
    assert CompileError("refused", "line 1: error").log == "line 1: error"
    assert CompileError("refused").log == ""
    assert LaunchError("refused", "a_null").status == "a_null"
