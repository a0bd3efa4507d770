"""Arrays on either side of the bus: numpy on the CPU, cupy on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray: both follow the same array interface


def array_module(array: Array) -> Any:
    """numpy, or cupy for an array on the GPU. cupy is imported only if such an array exists."""
    if type(array).__module__.partition(".")[0] == "cupy":
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy
    return np
