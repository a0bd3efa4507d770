"""Byte sizes carry their unit; a number that could be read in two ways is refused with both."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from kgen.spec.units import parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("224KiB", 229376), ("229376B", 229376), ("1MiB", 1048576), ("224 KiB", 229376), ("1B", 1)],
)
def test_a_size_with_a_unit_is_bytes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["224", "224KB", "224kib", "0.5MiB", "-1KiB", "KiB", "", "224  KiB", "1GiB", "224KiB ", "٣KiB"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(PydanticCustomError) as caught:
        parse_bytes(text)
    assert str(caught.value) == "write a size with its unit: 229376B, 224KiB or 1MiB"


@pytest.mark.parametrize("value", [True, None, 1.5, [1]])
def test_values_that_are_no_text_are_refused(value):
    with pytest.raises(PydanticCustomError, match="write a size with its unit"):
        parse_bytes(value)


@pytest.mark.parametrize(
    ("value", "readings"),
    [
        (328, "328B is 0.320312 KiB, 328KiB is 335872 bytes"),
        (335872, "335872B is 328 KiB, 335872KiB is 343932928 bytes"),
    ],
)
def test_a_bare_number_is_refused_with_both_readings(refusal, value, readings):
    text = refusal({"producer: warp": f"smem_limit: {value}\n  producer: warp"})
    assert text == (
        f"v6.yaml:13:15: schedule.smem_limit: {value} has no unit: {readings}; write one of them\n"
        f"    13 |   smem_limit: {value}\n"
        "       |               ^"
    )


def test_more_than_the_hardware_has_is_refused_by_the_budget(refusal):
    from kgen.errors import BudgetError

    text = refusal({"producer: warp": "smem_limit: 328KiB\n  producer: warp"}, BudgetError)
    assert text == (
        "v6.yaml:13:15: schedule.smem_limit: 335872 bytes; sm_90a gives a CTA at most 232448 "
        "(227KiB)\n"
        "    13 |   smem_limit: 328KiB\n"
        "       |               ^\n"
        "    fix: no schedule.smem_limit                  230400 bytes of shared memory, "
        "90 registers"
    )


def test_a_limit_that_the_spec_fits_is_taken(plan_of):
    plan = plan_of({"producer: warp": "smem_limit: 225KiB\n  producer: warp"})
    assert (plan.budget.smem.limit, plan.budget.smem.total) == (230400, 230400)


def test_an_mma_k_is_refused_with_both_readings(refusal):
    text = refusal({"producer: warp": "mma_k: 64\n  producer: warp"})
    assert text == (
        "v6.yaml:13:3: schedule.mma_k: unknown key: the K of one wgmma is fixed at 32 bytes "
        "(16 elements of f16 or bf16), so there is no field; 64 bytes would be 32 elements of f16, "
        "64 elements would be 128 bytes\n"
        "    13 |   mma_k: 64\n"
        "       |   ^"
    )


@pytest.mark.parametrize("value", ["many", "[1]", "true", "9" * 19])
def test_an_mma_k_of_any_value_is_an_error_and_no_crash(refusal, value):
    assert "schedule.mma_k: unknown key" in refusal(
        {"producer: warp": f"mma_k: {value}\n  producer: warp"}
    )
