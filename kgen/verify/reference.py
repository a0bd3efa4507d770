"""The product that a right kernel approximates, and the magnitudes its error may have. Knows no
gate.

numpy computes it on the CPU. On the GPU torch does, on the same memory through DLPack, with TF32
switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import DeviceError
from kgen.verify.numbers import Array, Numerics, array_module, to_float32, to_host
from kgen.verify.scaling import Scales
from kgen.verify.tiling import pad_to_tiles, tile_blocks, tile_counts, tile_elements

# Above this many multiply-adds the reference is float32: on a GPU float64 is affordable for
# 16384**3, two CPU cores take about a minute for 2**38.
GPU_FLOAT64_LIMIT = 1 << 42
CPU_FLOAT64_LIMIT = 1 << 38
_PREFIXES = 16  # partial sums looked at along K


@dataclass(frozen=True)
class Reference:
    """Shapes  product, magnitude (M, N) in `precision`; partial_rms (ceil(M/tile_m),
    ceil(N/tile_n)) on the host.
    """

    product: Array  # A @ B.T
    magnitude: Array | None  # |A| @ |B|.T
    partial_rms: np.ndarray  # root mean square, over the tile and along K, of the tensor core's sum
    precision: str  # "float64" or "float32"


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            "the reference of a GPU array needs torch; fix: install a CUDA build of it"
        ) from error
    return torch


@contextmanager
def _tf32_off(torch: Any) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def torch_product(a: Array, b: Array) -> Array:
    """a @ b.T by torch where the arrays live. Shapes a (M, K), b (N, K), float32 or float64."""
    torch = _import_torch()
    with _tf32_off(torch):
        out = torch.from_dlpack(a) @ torch.from_dlpack(b).T
    return array_module(a).from_dlpack(out)


def numpy_product(a: Array, b: Array) -> Array:
    """a @ b.T by numpy. Shapes a (M, K), b (N, K)."""
    return a @ b.T


def tile_square_sums(matrix: Array, numerics: Numerics) -> np.ndarray:
    """Sum of squares over every output tile, in float64 on the host."""
    m, n = matrix.shape
    sums = np.zeros(tile_counts(m, n, numerics))
    for row, rows in tile_blocks(m, numerics.tile_m):
        tiles = pad_to_tiles(matrix[rows].astype("float64"), numerics.tile_n)
        sums[row] = to_host((tiles * tiles).sum(axis=(0, 2)))
    return sums


def default_precision(m: int, n: int, k: int, xp: Any) -> str:
    """float64 where it is affordable, else float32."""
    limit = CPU_FLOAT64_LIMIT if xp is np else GPU_FLOAT64_LIMIT
    return "float64" if m * n * k <= limit else "float32"


def reference(
    a: Array,
    b: Array,
    numerics: Numerics,
    *,
    magnitude: bool = True,
    precision: str | None = None,
    product: Callable[[Array, Array], Array] | None = None,
    scales: Scales | None = None,
) -> Reference:
    """D = A @ B.T with what the gates need besides it.

    Shapes  a (M, K), b (N, K), raw storage of numerics.a and numerics.b, any strides
    magnitude  whether |A| @ |B|.T is needed (the element bound's); it costs a second product
    product  multiplies two float arrays; default numpy_product on the CPU, torch_product on the GPU
    scales  of the blocks of A and B, which numerics.block_k then says the length of
    Raises  DeviceError if a GPU array is given and torch is missing
    """
    xp = array_module(a)
    (m, k), n = a.shape, b.shape[0]
    precision = precision or default_precision(m, n, k, xp)
    multiply = product or (numpy_product if xp is np else torch_product)
    total = xp.zeros((m, n), dtype=precision)
    sizes = xp.zeros((m, n), dtype=precision) if magnitude else None
    squares = np.zeros(tile_counts(m, n, numerics))
    # Prefixes end where an MMA ends, as the accumulator's roundings do; the sums of blocks are
    # rounded block by block.
    step = -(-max(k, 1) // (_PREFIXES * numerics.mma_k)) * numerics.mma_k
    step = numerics.block_k or step
    prefixes = range(0, k if m and n else 0, step)
    for start in prefixes:
        left = to_float32(a[:, start : start + step], numerics.a)
        right = to_float32(b[:, start : start + step], numerics.b)
        if scales is not None:
            left, right = scales.applied(left, right, start)
        left, right = left.astype(precision), right.astype(precision)
        part = multiply(left, right)
        total += part
        if sizes is not None:
            sizes += multiply(xp.abs(left), xp.abs(right))
        squares += tile_square_sums(part if numerics.block_k else total, numerics)
    count = tile_elements(m, n, numerics) * max(len(prefixes), 1)
    return Reference(total, sizes, np.sqrt(squares / count), precision)
