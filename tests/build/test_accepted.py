"""Whatever the budget accepts must build clean and emulate clean: random specs of every kind.

KGEN_SPACE_SECONDS sets how long, all kinds together; the seed is fixed, so that a failure is found
again. tests/space.json records a longer run.
"""

from __future__ import annotations

import os

import pytest
from space import KINDS, explore

SECONDS = float(os.environ.get("KGEN_SPACE_SECONDS", "300"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_accepted_spec_builds_and_emulates_clean(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = explore(kind, SECONDS / len(KINDS))
    with capsys.disabled():
        print(f"\n{kind}: {outcome.accepted} accepted specs, {outcome.cases} cases emulated")
    assert outcome.accepted
    assert not outcome.failures, outcome.failures
