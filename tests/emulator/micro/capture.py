# pyright: reportMissingImports=false
"""Runs every micro-test on a GPU and writes what it left in memory.

    python3 tests/emulator/micro/capture.py --out DIR

Needs cupy, cuda-bindings and the cubins of build.py; compiles nothing. Writes DIR/golden.npz
(small, to be committed) and DIR/full.npz (every byte, for finding out why a replay differs). Each
case runs twice, and differing results count as a failure. A worker process owns the GPU: a fault
or a hang costs its case and a restart, not the run.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent)]

import numpy as np  # noqa: E402
from micro.cases import Case, all_cases  # noqa: E402
from micro.goldens import Golden, module_digest  # noqa: E402
from micro.modules import BUILD, MODULES, ptx_text  # noqa: E402

from kgen.emu.launch import Array, Pointer, Raw, Scalar  # noqa: E402
from kgen.emu.tensormap import TensorMap  # noqa: E402

FIRST_SECONDS, CASE_SECONDS = 60, 15
_MAP_TYPES = {
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "s32": "INT32",
    "u64": "UINT64",
    "s64": "INT64",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bf16": "BFLOAT16",
    "f32_ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
    "tf32_ftz": "TFLOAT32_FTZ",
}


@cache
def _initial(array: Array) -> np.ndarray:
    return array.allocate()


class Device:
    """The GPU side of a worker."""

    def __init__(self) -> None:
        import cupy
        from cuda.bindings import driver

        self.cupy, self.driver = cupy, driver
        self.modules: dict[str, Any] = {}
        cupy.zeros(1)

    def name(self) -> str:
        properties = self.cupy.cuda.runtime.getDeviceProperties(0)
        version = self.cupy.cuda.runtime.driverGetVersion()
        return f"{properties['name'].decode()}, driver API {version}"

    def run(self, case: Case) -> dict[str, bytes]:
        """One launch; the contents of every array that is not role `in`."""
        launch = case.launch
        memory = {a.name: self.cupy.asarray(_initial(a)) for a in launch.arrays}
        if case.module not in self.modules:
            path = str(BUILD / f"{case.module}.cubin")
            self.modules[case.module] = self.cupy.RawModule(path=path)
        kernel = self.modules[case.module].get_function(launch.kernel)
        if launch.dynamic_shared_bytes > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = launch.dynamic_shared_bytes
        arguments = tuple(self._argument(a, memory) for a in launch.arguments)
        kernel(launch.grid, launch.block, arguments, shared_mem=launch.dynamic_shared_bytes)
        self.cupy.cuda.Device().synchronize()
        return {a.name: memory[a.name].get().tobytes() for a in launch.arrays if a.role != "in"}

    def _argument(self, argument: Any, memory: dict[str, Any]) -> Any:
        match argument:
            case Pointer(array, offset):
                return np.uint64(memory[array].data.ptr + offset)
            case Scalar(type_, value):
                name = type_.replace("s", "int").replace("u", "uint").replace("f", "float")
                return np.dtype(name).type(value)
            case Raw():
                return np.void(argument.to_bytes())
            case TensorMap():
                return self._tensor_map(argument, memory[argument.array].data.ptr)
        raise TypeError(argument)

    def _tensor_map(self, m: TensorMap, base: int) -> np.void:
        d = self.driver
        swizzle = (
            f"CU_TENSOR_MAP_SWIZZLE_{m.swizzle}B" if m.swizzle else ("CU_TENSOR_MAP_SWIZZLE_NONE")
        )
        oob = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}[m.oob_fill]
        # an empty list would become a null pointer, which rank 1 does not want either
        strides = m.strides or (16,)
        error, encoded = d.cuTensorMapEncodeTiled(
            getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[m.dtype]}"),
            m.rank, base + m.offset,
            [d.cuuint64_t(x) for x in m.dims], [d.cuuint64_t(x) for x in strides],
            [d.cuuint32_t(x) for x in m.box],
            [d.cuuint32_t(x) for x in m.element_strides or (1,) * m.rank],
            d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(d.CUtensorMapSwizzle, swizzle),
            d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            getattr(d.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{oob}"),
        )  # fmt: skip
        if int(error):
            raise RuntimeError(f"cuTensorMapEncodeTiled refuses {m}: {error}")
        raw = ctypes.string_at(int(encoded.getPtr()), 128)
        return np.frombuffer(raw, "V128")[0]


def work(pipe: Any, names: list[str]) -> None:
    """Worker: sends (case name, results or None, error text) for each case."""
    device = Device()
    pipe.send(("", {}, device.name()))
    for name in names:
        try:
            first, second = device.run(all_cases()[name]), device.run(all_cases()[name])
            unstable = [a for a in first if first[a] != second[a]]
            text = f"two runs differ in {', '.join(unstable)}" if unstable else ""
            pipe.send((name, first, text))
        except Exception as error:
            pipe.send((name, None, f"{type(error).__name__}: {error}"[:300]))
            if "cudaError" in str(error) or "CUDA_ERROR" in str(error):
                return  # the context is lost


def capture(names: list[str]) -> Golden:
    golden = Golden({m: module_digest(ptx_text(m)) for m in MODULES})
    context = multiprocessing.get_context("spawn")
    left = list(names)
    while left:
        ours, theirs = context.Pipe()
        worker = context.Process(target=work, args=(theirs, left), daemon=True)
        worker.start()
        theirs.close()
        patience = FIRST_SECONDS
        while left:
            try:
                if not ours.poll(patience):
                    golden.failures[left.pop(0)] = "no answer: the kernel hangs"
                    break
                name, result, error = ours.recv()
            except EOFError:
                # ended without a word: after a reported fault nothing more is lost
                worker.join()
                if patience == FIRST_SECONDS:
                    raise SystemExit("the worker cannot use the GPU, see above") from None
                if worker.exitcode:
                    golden.failures[left.pop(0)] = f"the worker ended with {worker.exitcode}"
                break
            patience = CASE_SECONDS
            if not name:
                golden.device = error
                continue
            left.remove(name)
            if error:
                golden.failures[name] = error
            if result is not None:
                golden.results[name] = result
        worker.kill()
        worker.join()
    return golden


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    missing = [m for m in MODULES if not (BUILD / f"{m}.cubin").exists()]
    if missing:
        print(f"no cubin of {', '.join(missing)}: run build.py first", file=sys.stderr)
        return 3
    start = time.monotonic()
    names = [name for name in all_cases() if options.only in name]
    golden = capture(names)
    options.out.mkdir(parents=True, exist_ok=True)
    golden.save(options.out / "golden.npz")
    golden.save(options.out / "full.npz", full_bytes=1 << 40)
    for name, text in golden.failures.items():
        print(f"FAILED {name}: {text}")
    size = (options.out / "golden.npz").stat().st_size
    print(
        f"{len(golden.results)} of {len(names)} cases captured on {golden.device} in "
        f"{time.monotonic() - start:.1f} s, {len(golden.failures)} failures; "
        f"golden.npz {size} bytes"
    )
    return 1 if golden.failures else 0


if __name__ == "__main__":
    sys.exit(main())
