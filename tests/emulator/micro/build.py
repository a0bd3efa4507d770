# pyright: reportMissingImports=false
"""Builds the micro-tests: PTX of the .cu files, which is committed, and all cubins, which are not.

    python3 tests/emulator/micro/build.py --cuda DIR     DIR/bin holds nvcc and ptxas

Cubins are assembled from exactly the PTX that the emulator replays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent)]

from micro.modules import BUILD, COMPILED, MODULES, PTX, ptx_text  # noqa: E402

ARCH = ["-gencode=arch=compute_90a,code=compute_90a"]


def compile_source(nvcc: Path, module: str) -> None:
    """.cu -> committed PTX without the compiler's comments and blank lines."""
    out = BUILD / f"{module}.raw.ptx"
    source = HERE / f"{module}.cu"
    subprocess.run([nvcc, "-std=c++17", "-ptx", *ARCH, source, "-o", out], check=True)
    lines = (line.split("//")[0].rstrip() for line in out.read_text().splitlines())
    PTX.mkdir(exist_ok=True)
    (PTX / f"{module}.ptx").write_text("\n".join(line for line in lines if line.strip()) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", type=Path, required=True)
    parser.add_argument("--keep-ptx", action="store_true", help="do not recompile the .cu files")
    options = parser.parse_args()
    tools = options.cuda / "bin"
    BUILD.mkdir(exist_ok=True)
    if not options.keep_ptx:
        for module in COMPILED:
            compile_source(tools / "nvcc", module)
    for module in MODULES:
        source = BUILD / f"{module}.ptx"
        source.write_text(ptx_text(module))
        cubin = BUILD / f"{module}.cubin"
        subprocess.run([tools / "ptxas", "-arch=sm_90a", source, "-o", cubin], check=True)
        print(f"{module:10} {source.stat().st_size:8} bytes of PTX, cubin {cubin.stat().st_size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
