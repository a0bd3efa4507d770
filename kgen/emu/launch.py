"""The launch description: everything besides the PTX that a run of one kernel needs.

Written by kgen from a plan, or by hand as YAML for any kernel (`load_launch`). It says what lies
in global memory and what the kernel parameters are; it knows nothing of execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np

from kgen.emu.numerics import FORMATS, decode, encode
from kgen.emu.tensormap import TensorMap
from kgen.errors import EmulatorError

MAX_SHARED_BYTES = 232448
"""Shared memory one CTA may use on sm_90. Source: CUDA C++ Programming Guide, technical specs."""
MAX_THREADS, MAX_CLUSTER = 1024, 16

_INTEGERS = {
    f"{s}{b}": np.dtype(f"{'i' if s == 's' else 'u'}{b // 8}")
    for s in "su"
    for b in (8, 16, 32, 64)
}
_FLOAT_BITS = {**{name: fmt.bits for name, fmt in FORMATS.items()}, "f64": 64}
DTYPES = tuple(_INTEGERS) + tuple(_FLOAT_BITS)
SCALAR_TYPES = (*_INTEGERS, "f32", "f64")

POISON_BYTE = 0xFF
"""Every byte of memory nobody has written: NaN in each float format, -1 in signed integers."""


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element in memory."""
    return _INTEGERS[dtype].itemsize if dtype in _INTEGERS else _FLOAT_BITS[dtype] // 8


def bits_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers -> unsigned bits, rounded to nearest even; integers must be in range."""
    unsigned = np.dtype(f"u{dtype_bytes(dtype)}")
    if dtype in _INTEGERS:
        return np.asarray(values).astype(_INTEGERS[dtype]).view(unsigned)
    if dtype == "f64":
        return np.asarray(values, np.float64).view(unsigned)
    return encode(np.asarray(values, np.float64), dtype)


def values_of(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Unsigned bits -> numbers: float32 for formats up to 32 bits, float64, or the integer type."""
    if dtype in _INTEGERS:
        return bits.view(_INTEGERS[dtype])
    return bits.view(np.float64) if dtype == "f64" else decode(bits, dtype)


# ---------------------------------------------------------------- global memory


@dataclass(frozen=True)
class Integers:
    """Uniform random integers lo..hi, both included: numpy's PCG64 seeded with `seed`."""

    lo: int
    hi: int
    seed: int = 0


@dataclass(frozen=True)
class Constant:
    """Every element is `value`."""

    value: float


@dataclass(frozen=True)
class Poison:
    """POISON_BYTE everywhere: reading it before a write is a mistake that shows in the result."""


@dataclass(frozen=True)
class File:
    """A .npy file of the array's shape, either numbers or the unsigned bits of the dtype."""

    path: str


Fill = Integers | Constant | Poison | File


@dataclass(frozen=True)
class Array:
    """One allocation in global memory.

    shape        elements, outermost first
    row_stride   elements from one row (last dimension) to the next, the leading dimension of a
                 matrix; None is dense. Padding between rows is poisoned and belongs to nobody
    guard_bytes  bytes before and behind the allocation that the kernel must not touch
    role         in: the kernel may not write it; out: it must write every element; inout: neither
    constant     no grid writes it; else one that is still running when this one starts may
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Fill = Poison()
    row_stride: int | None = None
    guard_bytes: int = 0
    role: Literal["in", "out", "inout"] = "inout"
    constant: bool = False

    @property
    def element_bytes(self) -> int:
        return dtype_bytes(self.dtype)

    @property
    def pitch(self) -> int:
        """Elements from row to row."""
        return self.shape[-1] if self.row_stride is None else self.row_stride

    @property
    def rows(self) -> int:
        return prod(self.shape[:-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the allocation without guards; the last row ends it, padding does not."""
        return ((self.rows - 1) * self.pitch + self.shape[-1]) * self.element_bytes

    def element_offsets(self) -> np.ndarray:
        """Byte offset of every element in the allocation, int64 of the array's shape."""
        rows = np.arange(self.rows, dtype=np.int64)[:, None] * self.pitch
        offsets = (rows + np.arange(self.shape[-1])) * self.element_bytes
        return offsets.reshape(self.shape)

    def contents(self) -> np.ndarray:
        """Unsigned bits of every element at launch, in the array's shape."""
        unsigned = np.dtype(f"u{self.element_bytes}")
        match self.fill:
            case Integers(lo, hi, seed):
                values = np.random.default_rng(seed).integers(lo, hi + 1, self.shape)
                return bits_of(values, self.dtype)
            case Constant(value):
                number = int(value) if self.dtype in _INTEGERS else value
                return np.broadcast_to(bits_of(np.array(number), self.dtype), self.shape).copy()
            case Poison():
                return np.full((*self.shape, self.element_bytes), POISON_BYTE, np.uint8).view(
                    unsigned
                )[..., 0]
            case File(path):
                return self._read(path)

    def _read(self, path: str) -> np.ndarray:
        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise EmulatorError(f"array {self.name}: fill.file: {path}: {error}") from None
        if loaded.shape != self.shape:
            raise EmulatorError(
                f"array {self.name}: fill.file: {path} has shape {loaded.shape}, "
                f"the array {self.shape}"
            )
        unsigned = np.dtype(f"u{self.element_bytes}")
        if loaded.dtype == unsigned:
            return loaded
        native = {"f16": "f2", "f32": "f4", "tf32": "f4", "f64": "f8"}.get(self.dtype)
        if loaded.dtype == _INTEGERS.get(self.dtype, native):
            return loaded.view(unsigned)
        raise EmulatorError(
            f"array {self.name}: fill.file: {path} holds {loaded.dtype}, which is "
            f"neither {self.dtype} nor its bits ({unsigned})"
        )

    def allocate(self) -> np.ndarray:
        """The allocation at launch: `nbytes` uint8, guards not included."""
        memory = np.full(self.nbytes, POISON_BYTE, np.uint8)
        elements = np.ascontiguousarray(self.contents()).view(np.uint8)
        places = self.element_offsets()[..., None] + np.arange(self.element_bytes)
        memory[places.ravel()] = elements.ravel()
        return memory

    def elements(self, memory: np.ndarray) -> np.ndarray:
        """Unsigned bits of every element out of `nbytes` of memory."""
        places = self.element_offsets()[..., None] + np.arange(self.element_bytes)
        return np.ascontiguousarray(memory[places]).view(f"u{self.element_bytes}")[..., 0]

    def values(self, memory: np.ndarray) -> np.ndarray:
        """The numbers that `nbytes` of memory hold."""
        return values_of(self.elements(memory), self.dtype)


# ---------------------------------------------------------------- kernel parameters


@dataclass(frozen=True)
class Pointer:
    """Global address of an array plus `offset` bytes (64 bits)."""

    array: str
    offset: int = 0


@dataclass(frozen=True)
class Scalar:
    """A number passed by value."""

    type: str
    value: int | float

    def to_bytes(self) -> bytes:
        return bits_of(np.array([self.value]), self.type).tobytes()


@dataclass(frozen=True)
class Raw:
    """Any structure passed by value, as hexadecimal bytes."""

    hex: str

    def to_bytes(self) -> bytes:
        return bytes.fromhex(self.hex)


@dataclass(frozen=True)
class Struct:
    """A structure passed by value: its members in order, aligned as C aligns them."""

    members: tuple[Pointer | Scalar, ...]

    def offsets(self) -> list[int]:
        """Byte offset of every member, and the size of the whole as the last entry."""
        sizes = [8 if isinstance(m, Pointer) else dtype_bytes(m.type) for m in self.members]
        offsets, at = [], 0
        for size in sizes:
            offsets.append(-(-at // size) * size)
            at = offsets[-1] + size
        return [*offsets, -(-at // max(sizes)) * max(sizes)]


Argument = Pointer | Scalar | Raw | Struct | TensorMap


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel.

    grid, block, cluster   CTAs, threads, CTAs; x y z
    dynamic_shared_bytes   the launch parameter, static shared memory not included
    arguments              in the order of the kernel's parameters
    registers              per thread at launch, as ptxas reports them (for the setmaxnreg pool)
    overlaps_previous      launched with programmatic stream serialisation: the grid before may run
                           until griddepcontrol.wait
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: tuple[Array, ...] = ()
    arguments: tuple[Argument, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    registers: int | None = None
    overlaps_previous: bool = False

    def array(self, name: str) -> Array:
        return next(a for a in self.arrays if a.name == name)

    def validate(self) -> Launch:
        """Returns self, or raises EmulatorError naming the field and the rule."""
        for problem in self.problems():
            raise EmulatorError(f"launch of {self.kernel}: {problem[0]}: {problem[1]}")
        return self

    def problems(self) -> list[tuple[str, str]]:
        """Every broken rule as (field, what), in field order."""
        from kgen.emu.launch_rules import launch_problems

        return launch_problems(self)


# ---------------------------------------------------------------- YAML


def load_launch(path: str | Path) -> Launch:
    """Reads a launch description; every mistake is reported with file:line:col."""
    from kgen.emu.launch_yaml import read  # ruamel.yaml is needed here only

    return read(Path(path))


def dump_launch(launch: Launch, path: str | Path | None = None) -> str:
    """The YAML text that load_launch reads back as an equal Launch; written to `path` if given."""
    from kgen.emu.launch_text import write

    text = write(launch)
    if path is not None:
        Path(path).write_text(text)
    return text
