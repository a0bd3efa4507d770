"""The driver API of cuda-bindings: importing it, and its error codes as exceptions."""

from __future__ import annotations

from typing import Any

from kgen.errors import DeviceError


def import_driver() -> Any:
    """The driver API of cuda-bindings. Raises DeviceError when it is not installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(f"cuda-bindings is not installed ({error})") from error
    return driver


def checked(answer: tuple[Any, ...], call: str) -> Any:
    """What a call of the driver gave, its status taken off. Raises DeviceError with the status."""
    error, *values = answer
    if int(error):
        raise DeviceError(f"{call}: {error.name}")
    return values[0] if values else None
