"""The TMA tensor map: what cuTensorMapEncodeTiled accepts, and which bytes a box names.

Owns addresses and bounds only; moving bytes, barriers and order belong to tma.py.
Dimensions, boxes and coordinates are listed innermost first, as in the driver call and in PTX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from kgen.emu.layout import SWIZZLE_WIDTHS, swizzle
from kgen.emu.numerics import decode, encode
from kgen.errors import EmulatorError

ELEMENT_BYTES = {
    "u8": 1, "u16": 2, "f16": 2, "bf16": 2,
    "u32": 4, "s32": 4, "f32": 4, "f32_ftz": 4, "tf32": 4, "tf32_ftz": 4,
    "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip
"""Element types of a tensor map (CUtensorMapDataType); fp8 and s8 tensors use u8."""

_FLOATS = {"f16", "bf16", "f32", "f32_ftz", "tf32", "tf32_ftz", "f64"}
_L2_PROMOTION = ("none", "64B", "128B", "256B")
UNIT_BYTES = 16
"""TMA addresses global memory in units of 16 bytes, counted from the start of a row."""

_MAX_DIM, _MAX_STRIDE, _MAX_BOX, _MAX_ELEMENT_STRIDE = 1 << 32, 1 << 40, 256, 8


@dataclass(frozen=True, eq=False)
class Box:
    """One box of a tensor map at given coordinates: flat arrays, one entry per element.

    global_bytes   byte offset from the map's global address; meaningless where out of bounds
    in_bounds      False outside the tensor: where a load fills the element
    written        where a store or reduction writes: in bounds, or behind the inner end of the
                   tensor in the 16 bytes that hold the end
    shared_bytes   byte offset from the shared-memory address of the copy, after swizzling
    indices        element coordinates (rank, elements), innermost first
    """

    global_bytes: np.ndarray
    in_bounds: np.ndarray
    written: np.ndarray
    shared_bytes: np.ndarray
    indices: np.ndarray


@dataclass(frozen=True)
class TensorMap:
    """Arguments of cuTensorMapEncodeTiled.

    dtype            a key of ELEMENT_BYTES
    array, offset    the allocation and the byte offset in it at which element 0 lies
    dims             elements per dimension
    strides          bytes from one index to the next, dimensions 1 and up
    box              elements of the tensor that one copy spans, per dimension
    element_strides  every n-th element is copied (dimension 0: ignored); empty means all 1
    swizzle          0, 32, 64 or 128 bytes
    interleave       only "none": the 16B and 32B layouts of images are outside kgen
    l2_promotion     none, 64B, 128B, 256B: no effect on values
    oob_fill         "zero", or "nan" for float types
    Source  CUDA driver API, tensor map object management
    """

    dtype: str
    array: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    offset: int = 0
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0
    interleave: str = "none"
    l2_promotion: str = "none"
    oob_fill: str = "zero"

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Element step per dimension; TMA has none in dimension 0."""
        return (1, *self.element_strides[1:]) if self.element_strides else (1,) * self.rank

    @cached_property
    def copied(self) -> tuple[int, ...]:
        """Elements per dimension that one copy moves: ceil(box / step)."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    @property
    def box_elements(self) -> int:
        return prod(self.copied)

    @property
    def tx_bytes(self) -> int:
        """Bytes that a load adds to its mbarrier; out-of-bounds elements count."""
        return self.box_elements * self.element_bytes

    @property
    def row_bytes(self) -> int:
        return self.box[0] * self.element_bytes

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory: the swizzle width, which a
        narrower box does not fill.
        """
        return self.swizzle or self.row_bytes

    @property
    def shared_alignment(self) -> int:
        """Alignment in bytes that the shared-memory address of every copy needs."""
        return 128

    @property
    def pattern_bytes(self) -> int:
        """Bytes after which the swizzle pattern repeats; a tile should be aligned to it."""
        return 8 * self.swizzle or 128

    @property
    def extent(self) -> tuple[int, int]:
        """First byte and end of everything the map can reach, relative to the array."""
        reach = (self.dims[0] - 1) * self.element_bytes
        reach += sum((d - 1) * s for d, s in zip(self.dims[1:], self.strides, strict=True))
        return self.offset, self.offset + reach + self.element_bytes

    # -------------------------------------------------------- what the driver refuses

    def validate(self, base_address: int = 0) -> TensorMap:
        """Returns self, or raises EmulatorError naming the field and the rule.

        base_address is the address of the array; the driver checks address + offset.
        A stride of 0, or below a row's bytes, is legal: broadcast and overlapping views.
        """
        self._check_shape()
        if (base_address + self.offset) % 16:
            self._refuse(
                "offset",
                f"global address {base_address + self.offset:#x} is not a multiple of 16 bytes",
            )
        for i, dim in enumerate(self.dims):
            if not 1 <= dim <= _MAX_DIM:
                self._refuse(f"dims[{i}]", f"{dim} is not in 1..2^32")
        for i, stride in enumerate(self.strides):
            if stride % 16 or not 0 <= stride < _MAX_STRIDE:
                self._refuse(f"strides[{i}]", f"{stride} bytes is not a multiple of 16 in 0..2^40")
        for i, box in enumerate(self.box):
            if not 1 <= box <= _MAX_BOX:
                self._refuse(f"box[{i}]", f"{box} is not in 1..256")
        for i, step in enumerate(self.element_strides):
            if not 1 <= step <= _MAX_ELEMENT_STRIDE:
                self._refuse(f"element_strides[{i}]", f"{step} is not in 1..8")
        inner = self.row_bytes
        if inner % UNIT_BYTES:
            self._refuse(
                "box[0]",
                f"{self.box[0]} x {self.element_bytes} B = {inner} B is not a multiple of 16",
            )
        if self.swizzle and inner > self.swizzle:
            self._refuse(
                "box[0]",
                f"{self.box[0]} x {self.element_bytes} B = {inner} B is wider "
                f"than the {self.swizzle}B swizzle",
            )
        if self.oob_fill == "nan" and self.dtype not in _FLOATS:
            self._refuse("oob_fill", f"nan needs a float type, not {self.dtype}")
        return self

    def _check_shape(self) -> None:
        """Names and list lengths, which the driver's own types already enforce."""
        if self.dtype not in ELEMENT_BYTES:
            self._refuse("dtype", f"{self.dtype!r} is none of {', '.join(ELEMENT_BYTES)}")
        if not 1 <= self.rank <= 5:
            self._refuse("dims", f"rank {self.rank} is not in 1..5")
        lengths = {"strides": self.rank - 1, "box": self.rank}
        if self.element_strides:
            lengths["element_strides"] = self.rank
        for field, length in lengths.items():
            found = len(getattr(self, field))
            if found != length:
                self._refuse(field, f"{found} entries, rank {self.rank} needs {length}")
        choices = {
            "swizzle": SWIZZLE_WIDTHS,
            "interleave": ("none",),
            "l2_promotion": _L2_PROMOTION,
            "oob_fill": ("zero", "nan"),
        }
        for field, allowed in choices.items():
            value = getattr(self, field)
            if value not in allowed:
                names = ", ".join(map(str, allowed))
                self._refuse(field, f"{value!r} is none of {names}")

    def _refuse(self, field: str, what: str) -> None:
        raise EmulatorError(f"tensor map of {self.array}: {field}: {what}")

    # -------------------------------------------------------- addresses

    @cached_property
    def _relative(self) -> np.ndarray:
        """Element coordinates relative to the box corner, (rank, elements), innermost fastest."""
        grid = np.indices(self.copied[::-1], dtype=np.int64)[::-1].reshape(self.rank, -1)
        return grid * np.array(self.steps)[:, None]

    @cached_property
    def _byte_strides(self) -> np.ndarray:
        return np.array((self.element_bytes, *self.strides), np.int64)

    @cached_property
    def _relative_bytes(self) -> np.ndarray:
        return self._byte_strides @ self._relative

    def box_addresses(self, coords: Sequence[int], shared_address: int = 0) -> Box:
        """The elements of the box whose corner is at `coords` (may be negative).

        shared_address is the absolute shared-memory address of the copy, on which swizzle acts.
        """
        corner = np.array(coords, np.int64)
        if corner.shape != (self.rank,):
            self._refuse("dims", f"{corner.size} coordinates for a map of rank {self.rank}")
        indices = self._relative + corner[:, None]
        if all(
            c >= 0 and c + (n - 1) * s < d
            for c, n, s, d in zip(corner, self.copied, self.steps, self.dims, strict=True)
        ):
            inside = written = np.ones(self.box_elements, bool)
        else:
            sizes = np.array(self.dims, np.int64)[:, None]
            inside = np.logical_and.reduce((indices >= 0) & (indices < sizes))
            sizes[0] = -(-self.dims[0] * self.element_bytes // UNIT_BYTES) * UNIT_BYTES
            sizes[0] //= self.element_bytes
            written = np.logical_and.reduce((indices >= 0) & (indices < sizes))
        start = int(self._byte_strides @ corner)
        places = self.shared_bytes(shared_address)
        return Box(self._relative_bytes + start, inside, written, places, indices)

    def refuses(self, coords: Sequence[int], store: bool) -> str:
        """Why the instruction raises an illegal instruction at these coordinates, or "".

        Measured on an H200: loads, stores and reductions at an inner coordinate that is not a
        multiple of 16 bytes, below 0 or not; stores at (-8, -3), where 16-byte units begin. Which
        of the two negative coordinates is at fault was not measured, so both are refused.
        """
        inner = coords[0] * self.element_bytes
        if inner % UNIT_BYTES:
            return (
                f"coordinate 0 is {coords[0]}: {coords[0]} x {self.element_bytes} B = {inner} B"
                f" is not a multiple of {UNIT_BYTES}"
            )
        for i, coordinate in enumerate(coords):
            if store and coordinate < 0:
                return f"coordinate {i} is {coordinate}: a store or reduction takes none below 0"
        return ""

    def shared_bytes(self, shared_address: int = 0) -> np.ndarray:
        """Offset of each element of a box from `shared_address`, swizzled."""
        cache = self.__dict__.setdefault("_shared_cache", {})
        phase = shared_address % 1024
        if phase not in cache:
            row, inner = np.divmod(np.arange(self.box_elements, dtype=np.int64), self.copied[0])
            linear = phase + row * self.row_pitch + inner * self.element_bytes
            offsets = swizzle(linear, self.swizzle) - phase
            offsets.flags.writeable = False
            cache[phase] = offsets
        return cache[phase]

    # -------------------------------------------------------- values

    def converts_on_load(self) -> bool:
        """True for the types whose bits TMA changes on the way into shared memory."""
        return self.dtype in ("tf32", "tf32_ftz")

    def load_values(self, bits: np.ndarray) -> np.ndarray:
        """uint32 element bits as a load delivers them: tf32 rounds to nearest.

        Subnormal numbers pass unchanged through f32_ftz and tf32_ftz (measured on an H200).
        """
        return encode(decode(bits, "f32"), "tf32", "rn") if self.converts_on_load() else bits

    @property
    def fill_bits(self) -> int:
        """Bit pattern of an element that lies outside the tensor.

        The NaN of every type is a repeated 0x7ff7 (measured on an H200).
        """
        if self.oob_fill == "zero":
            return 0
        return int.from_bytes(b"\xf7\x7f" * (self.element_bytes // 2), "little")
