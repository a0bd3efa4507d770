"""The exception tree of kgen; every layer may import this module, and it imports none of them.

    KgenError
      SpecError       a field of a spec is wrong        (diagnostics with path, line, column)
      BudgetError     a spec does not fit the hardware  (the same, with the sum that failed)
      PlanError       no schedule for this combination
      RenderError     a template and its plan disagree
      CompileError    a compiler refused the source, or its report fails the gate
      ToolchainError  the compiler environment is missing or broken
      LaunchError     a launch precondition failed, or the driver returned an error
      VerifyError     a comparison could not be made
      DeviceError     no usable GPU or GPU library on this machine
      EmulatorError   the emulator cannot take this input

Exit codes of the command line (`exit_code`): 1 the answer is no, 2 the question was wrong,
3 this machine cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SHOWN_COLUMNS = 160
_SHOWN_TEXT = 400  # more of a finding helps nobody; the line and the caret show the rest


@dataclass(frozen=True)
class Diagnostic:
    """One finding about one field, printable without its file.

    line and column count from 1; column 0 means that no position is known.
    table holds the lines of the sum that failed, fixes the changes that were tried and fit.
    """

    path: str
    line: int
    column: int
    field: str
    what: str
    source: str = ""
    table: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        path = printable(self.path)
        place = f"{path}:{self.line}:{self.column}" if self.line else path
        field = f"{_cropped(printable(self.field), 100)}: " if self.field else ""
        lines = [f"{place}: {field}{_cropped(printable(self.what), _SHOWN_TEXT)}"]
        if self.line and self.source:
            text, caret = _window(self.source, self.column - 1)
            before, behind = (printable(t, "\t") for t in (text[:caret], text[caret:]))
            lines.append(f"{self.line:>6} | {before}{behind}")
            caret = len(before)
            lines.append(f"{'':>6} | {' ' * caret}^")
        lines += [f"    {row}" for row in self.table]
        lines += [f"    fix: {fix}" for fix in self.fixes]
        return "\n".join(lines)


def printable(text: str, keep: str = "") -> str:
    """A text that a terminal shows and never obeys: control characters and halves are escaped."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def _cropped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _window(source: str, caret: int) -> tuple[str, int]:
    """The part of a long line around the caret, and where the caret is in it."""
    if len(source) <= _SHOWN_COLUMNS:
        return source, caret
    first = max(0, min(caret - _SHOWN_COLUMNS // 2, len(source) - _SHOWN_COLUMNS))
    return source[first : first + _SHOWN_COLUMNS], caret - first


class KgenError(Exception):
    """Base of every error that kgen raises on purpose: what, where, and how to mend it."""

    exit_code = 2


class _DiagnosticError(KgenError):
    """Carries every finding of one file, in file order."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))


class SpecError(_DiagnosticError):
    """A spec file has missing, unknown, duplicate or wrong fields."""


class BudgetError(_DiagnosticError):
    """A well-formed spec needs more than the hardware has."""


class PlanError(KgenError):
    """The combination is legal but kgen has no schedule for it."""


class RenderError(KgenError):
    """A template asks for something that its plan or the PTX library does not have."""


class CompileError(KgenError):
    """A compiler or the ptxas gate refused the source; `log` is the compiler's whole output."""

    exit_code = 1

    def __init__(self, message: str, log: str = "") -> None:
        self.log = log
        super().__init__(message)


class ToolchainError(KgenError):
    """The private compiler environment is missing, incomplete or does not answer."""

    exit_code = 3


class LaunchError(KgenError):
    """A launch was refused: `status` is the launcher's status name."""

    exit_code = 1

    def __init__(self, message: str, status: str = "") -> None:
        self.status = status
        super().__init__(message)


class VerifyError(KgenError):
    """A result could not be compared with its reference."""

    exit_code = 1


class DeviceError(KgenError):
    """This machine has no usable GPU, or lacks the libraries that reach it."""

    exit_code = 3


class EmulatorError(KgenError):
    """The emulator cannot take this PTX or this launch description."""
