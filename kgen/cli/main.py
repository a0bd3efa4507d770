"""The `kgen` command: assembles the commands and turns errors into texts and exit codes.

Nothing here or at the top of a command module may load more than typer, so that help is instant.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from kgen._version import __version__
from kgen.cli import (
    build_commands,
    device_commands,
    emulator_commands,
    ship_commands,
    spec_commands,
    sweep_commands,
)
from kgen.cli.output import EXIT_CANNOT, EXIT_WRONG_QUESTION, note
from kgen.errors import Diagnostic, KgenError, printable

app = typer.Typer(
    name="kgen",
    help=(
        "A YAML spec to one self-contained, readable CUDA GEMM kernel, with the evidence for it."
        "\n\n"
        "Exit codes: 0 good, 1 the answer is no, 2 the question was wrong, 3 this machine cannot, "
        "4 not known."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

for _module in (
    spec_commands,
    build_commands,
    device_commands,
    emulator_commands,
    sweep_commands,
    ship_commands,
):
    _module.register(app)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"kgen {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point. What kgen refuses and what the machine refuses is a text, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an ASCII terminal is no reason to fail
    try:
        with _signals_as_exits():
            app()
    except KgenError as error:
        _fail(str(error), error.exit_code, getattr(error, "diagnostics", ()))
    except BrokenPipeError:
        _forget_broken_output()
        sys.exit(1)
    except OSError as error:
        # Anything else without a name is no file of the user's, so it is a bug of kgen's.
        if error.filename is None and error.errno not in _NO_ROOM:
            raise
        broken = _forget_broken_output()
        words = [str(error.filename)] if error.filename is not None else []
        _fail(": ".join([*words, str(error.strerror)]), _code_of(error), quiet=broken)
    except KeyboardInterrupt:
        sys.exit(130)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def _fail(
    text: str, code: int, diagnostics: tuple[Diagnostic, ...] = (), quiet: bool = False
) -> None:
    """Report an error and exit: JSON on standard output where --json asks for it, else text.

    quiet  standard output takes nothing, as is found out here, too
    """
    if "--json" in sys.argv and not quiet:
        rows: list[Any] = [asdict(d) for d in diagnostics]
        found = {"error": text, "exit_code": code, "diagnostics": rows}
        with contextlib.suppress(OSError):
            print(json.dumps(found, indent=2), flush=True)
            sys.exit(code)
        _forget_broken_output()
    with contextlib.suppress(OSError):
        note(printable(text, "\n\t"))
    sys.exit(code)


def _code_of(error: OSError) -> int:
    """A full disk and kgen's own cache are the machine's fault, another file the question's."""
    from kgen.build import cache, toolchain

    if error.errno in _NO_ROOM:
        return EXIT_CANNOT
    with contextlib.suppress(KgenError):
        for folder in (cache.root(), toolchain.home()):
            if Path(os.fsdecode(error.filename)).absolute().is_relative_to(folder):
                return EXIT_CANNOT
    return EXIT_WRONG_QUESTION


def _forget_broken_output() -> bool:
    """If standard output takes nothing more, let Python's last flush of it go nowhere."""
    try:
        sys.stdout.flush()
        return False
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True


@contextlib.contextmanager
def _signals_as_exits() -> Iterator[None]:
    """SIGTERM and SIGHUP end kgen as Ctrl-C does: child processes and temporary folders go."""

    def stop(number: int, _frame: object) -> None:
        for handled in before:
            signal.signal(handled, signal.SIG_IGN)  # the clean-up is not to be interrupted
        sys.exit(128 + number)

    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
