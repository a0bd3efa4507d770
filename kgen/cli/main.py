"""The `kgen` command: assembles the commands and turns errors into texts and exit codes.

Nothing here or at the top of a command module may load more than typer, so that help is instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kgen._version import __version__
from kgen.cli import build_commands, device_commands, emulator_commands, spec_commands
from kgen.errors import KgenError

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

for _module in (spec_commands, build_commands, device_commands, emulator_commands):
    _module.register(app)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"kgen {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point. A KgenError prints its text and exits with its code, without a traceback."""
    try:
        app()
    except KgenError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
