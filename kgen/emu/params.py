"""The parameter buffer of a launch. Tensor maps keep their identity: the 128 bytes are never
decoded.
"""

from __future__ import annotations

from kgen.emu.launch import Launch, Pointer, Raw, Scalar, Struct
from kgen.emu.memory import GlobalMemory
from kgen.emu.ptx import Kernel
from kgen.emu.registers import PARAM_WINDOW
from kgen.emu.tensormap import TensorMap
from kgen.errors import EmulatorError

TENSOR_MAP_BYTES = 128


class Parameters:
    """Bytes of the parameters, and the tensor maps by their offset."""

    def __init__(self, kernel: Kernel, launch: Launch, memory: GlobalMemory) -> None:
        where = f"launch of {launch.kernel}: arguments"
        if len(launch.arguments) != len(kernel.params):
            raise EmulatorError(
                f"{where}: {len(launch.arguments)} arguments for the {len(kernel.params)} "
                f"parameters of {kernel.name}"
            )
        offsets = kernel.param_offsets()
        total = max((offsets[p.name] + p.bytes for p in kernel.params), default=0)
        self.data = bytearray(total)
        self.maps: dict[int, TensorMap] = {}
        for index, (param, argument) in enumerate(
            zip(kernel.params, launch.arguments, strict=True)
        ):
            at = offsets[param.name]
            if isinstance(argument, TensorMap):
                if param.bytes != TENSOR_MAP_BYTES:
                    raise EmulatorError(
                        f"{where}[{index}]: a tensor map has {TENSOR_MAP_BYTES} bytes, "
                        f"{param.name} has {param.bytes}"
                    )
                base = memory.by_name[argument.array].base
                argument.validate(base)
                self.maps[at] = argument
                continue
            raw = self._bytes(argument, memory)
            if len(raw) != param.bytes:
                raise EmulatorError(
                    f"{where}[{index}]: {len(raw)} bytes given, parameter {param.name} has "
                    f"{param.bytes}"
                )
            self.data[at : at + len(raw)] = raw

    @classmethod
    def _bytes(cls, argument: Pointer | Scalar | Raw | Struct, memory: GlobalMemory) -> bytes:
        if isinstance(argument, Struct):
            *offsets, size = argument.offsets()
            data = bytearray(size)
            for at, member in zip(offsets, argument.members, strict=True):
                raw = cls._bytes(member, memory)
                data[at : at + len(raw)] = raw
            return bytes(data)
        if isinstance(argument, Pointer):
            return (memory.by_name[argument.array].base + argument.offset).to_bytes(8, "little")
        return argument.to_bytes()

    def load(self, address: int, size: int) -> int:
        """ld.param: an unsigned integer of `size` bytes."""
        at = address - PARAM_WINDOW
        return int.from_bytes(self.data[at : at + size], "little")

    def tensor_map(self, address: int) -> TensorMap | None:
        return self.maps.get(address - PARAM_WINDOW)

    def has_map(self, low: int, high: int) -> bool:
        """Whether bytes low..high of the buffer reach into a tensor map."""
        return any(at < high and low < at + TENSOR_MAP_BYTES for at in self.maps)
