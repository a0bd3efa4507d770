"""What a sweep tells whoever listens; knows nothing of what it does."""

from __future__ import annotations


class Watch:
    """What a session tells its caller; the base class listens to nothing."""

    def phase(self, name: str, total: int) -> None:
        """A phase of `total` steps begins."""

    def step(self, status: str) -> None:
        """One step of the phase ended so."""

    def best(self, problem: str, text: str) -> None:
        """The best so far on one problem."""

    def note(self, text: str) -> None:
        """A remark."""
