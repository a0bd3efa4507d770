"""Tiny sources for sm_90a, each of which makes ptxas write one kind of note; no header is needed.

Run as a script with a folder to write the logs that tests/unit/test_gate.py reads; with a toolkit's
root as second argument, also those of its nvcc.
"""

from __future__ import annotations

import textwrap

FENCE = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'
COMMIT = 'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'
WAIT_0 = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
WAIT_1 = 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'
LOOP = "for (int k = 0; k < steps; ++k)"
ZERO = "for (int i = 0; i < N; ++i) d[i] = 0.f;"
TIE = 'for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");'
STORE = "for (int i = 0; i < N; ++i) out[i * 128 + threadIdx.x] = d[i];"


def mma(n: int = 128, scale_d: str = "1") -> str:
    """One m64 x n x k16 f16 wgmma into the f32 array d; scale_d is a C expression."""
    regs = ", ".join(f"%{i}" for i in range(n // 2))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(n // 2))
    a, b, p = n // 2, n // 2 + 1, n // 2 + 2
    return (
        f'asm volatile("{{.reg .pred p; setp.ne.b32 p, %{p}, 0; '
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{regs}}}, %{a}, %{b}, p, 1, 1, "
        f'0, 0;}}" : {outs} : "l"(da), "l"(db), "r"((int)({scale_d})));'
    )


def kernel(*body: str, n: int = 128, bounds: str = "128, 1", before: str = "") -> str:
    """A kernel `probe` around these lines; N is the number of accumulator registers."""
    lines = [
        "#pragma nv_diag_suppress 177, 549",
        before,
        f'extern "C" __global__ void __launch_bounds__({bounds}) probe(',
        "    float* out, unsigned long long da, unsigned long long db, int steps) {",
        f"    constexpr int N = {n // 2};",
        "    float d[N];",
        *(f"    {line}" for line in body),
        "}",
    ]
    return "\n".join(lines) + "\n"


def second(text: str) -> str:
    """The same text about the array e."""
    return text.replace("d[", "e[")


PRINTF = 'extern "C" __device__ int printf(const char*, ...);'
PRODUCER = 'if (threadIdx.x < 128) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");'

# A group stays in flight across the loop's back edge and ptxas has nothing to say.
CLEAN = kernel(f"{LOOP} {{ {FENCE} {mma(scale_d='k > 0')} {COMMIT} {WAIT_1} }}", WAIT_0, TIE, STORE)
# The main loop of a real kernel: four k-steps of a 64 x 256 f32 tile, one group in flight.
MAIN_LOOP = kernel(
    f"{LOOP} {{ {FENCE} {mma(256, 'k > 0')} {mma(256) * 3} {COMMIT} {WAIT_1} }}",
    WAIT_0,
    TIE,
    STORE,
    n=256,
    bounds="384, 1",
)
SPILL = kernel(
    "for (int i = 0; i < N; ++i) d[i] = out[i];",
    f"{LOOP} for (int i = 0; i < N; ++i) d[i] = d[i] * d[(i + 7) % N] + out[i + k];",
    STORE,
    bounds="1024, 2",
)
C7507 = kernel(
    PRODUCER,
    "for (int i = 0; i < N; ++i) d[i] = out[i * 7 + threadIdx.x];",
    "for (int i = 0; i < N; ++i) out[i] = d[(i * 5) % N];",
    '} else { asm volatile("setmaxnreg.inc.sync.aligned.u32 32;");',
    f"{FENCE} {mma(scale_d='0')} {COMMIT} {WAIT_0} {TIE} {STORE} }}",
    bounds="384, 1",
)
C7508 = kernel(
    f"{PRODUCER} out[0] = 1; }}",
    'else { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); out[1] = 2; }',
    bounds="384",
)
C7510 = kernel(
    ZERO,
    f'{LOOP} {{ {FENCE} {mma()} {COMMIT} printf("x"); {WAIT_1} }}',
    WAIT_0,
    STORE,
    before=PRINTF,
)
C7511 = kernel(
    "float e[N];",
    f"{LOOP} {{ {FENCE} {mma(256, 'k > 0')} {second(mma(256, 'k > 0'))} {COMMIT} {WAIT_1} }}",
    WAIT_0,
    TIE,
    second(TIE),
    "for (int i = 0; i < N; ++i) out[i * 128 + threadIdx.x] = d[i] + e[i];",
    n=256,
    bounds="256, 1",
)
C7514 = kernel(
    ZERO,
    f"{LOOP} {{ if (out[k] > 5) {{ {FENCE} {mma()} {COMMIT} }}",
    f"if (out[k + 1] > 6) {{ {WAIT_1} {STORE} }} }}",
    WAIT_0,
    STORE,
)
C7515 = kernel(ZERO, f"{LOOP} {{ {FENCE} {mma()} {COMMIT} {WAIT_1} }}", WAIT_0, TIE, STORE)
C7517 = kernel(
    f"{FENCE} {mma(scale_d='0')} {COMMIT}", "d[0] += 1.f; d[5] += out[3];", WAIT_0, TIE, STORE
)
C7519 = kernel(ZERO, f"{mma()} {COMMIT} {WAIT_0}", TIE, STORE)  # no fence; ptxas 13.0 says so
C7602 = kernel(f"{FENCE} {mma(256, '0')} {COMMIT} {WAIT_0}", TIE, STORE, n=256, bounds="512, 1")
TWO_KERNELS = (
    "__device__ __noinline__ void fill(float* p, int n) {\n"
    "    volatile float t[8]; for (int i = 0; i < n; ++i) t[i & 7] = p[i]; p[0] = t[n & 7];\n}\n"
    'extern "C" __global__ void __launch_bounds__(64) first(float* p, int n) {\n'
    "    __shared__ float s[64]; s[threadIdx.x] = p[threadIdx.x]; __syncthreads();\n"
    "    p[threadIdx.x] = s[63 - threadIdx.x];\n}\n"
    'extern "C" __global__ void second(float* p, int n) { fill(p, n); fill(p + n, n); }\n'
)
ALL = {
    "clean": CLEAN,
    "spill": SPILL,
    "c7507": C7507,
    "c7508": C7508,
    "c7510": C7510,
    "c7511": C7511,
    "c7514": C7514,
    "c7515": C7515,
    "c7517": C7517,
    "c7519": C7519,
    "c7602": C7602,
    "two_kernels": TWO_KERNELS,
}


# Sources for other tests.

TINY = 'extern "C" __global__ void tiny(float* p) { p[threadIdx.x] = 1.f; }\n'
# NVRTC needs minutes for this: every sinf is inlined with its slow path.
SLOW = (
    'extern "C" __global__ void slow(float* o) { float x = o[0];\n'
    + "".join(f"x = sinf(x * {i}.f) + o[{i}];\n" for i in range(2000))
    + "o[0] = x; }\n"
)
LAUNCHER = TINY + textwrap.dedent("""
    #include <cuda_runtime.h>
    extern "C" int tiny_answer() { return 42; }
    extern "C" int tiny_entry_point() {
        void* entry = nullptr;
        cudaDriverEntryPointQueryResult found;
        return (int)cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    }
    extern "C" int tiny_launch(float* p) {
        tiny<<<1, 32>>>(p);
        return (int)cudaGetLastError();
    }
""")

# NVRTC's log of every case; nvcc lays out one line differently; ptxas 13.0 words two notes
# differently, and only it speaks of a missing fence.
NVCC_LOGS = ("clean", "spill", "c7515", "two_kernels")
OLDER_NVCC_LOGS = ("c7517", "c7519")


def _main() -> None:
    import sys
    from pathlib import Path

    from kgen.build.compile import compile_source
    from kgen.errors import CompileError

    runs: list[tuple[str, str, dict]] = [(case, "nvrtc", {}) for case in ALL]
    runs += [(case, "nvcc", {"compiler": "nvcc"}) for case in NVCC_LOGS]
    if len(sys.argv) > 2:
        older = {"compiler": "nvcc", "toolchain": sys.argv[2]}
        runs += [(case, "nvcc13.0", older) for case in OLDER_NVCC_LOGS]
    for case, label, options in runs:
        try:
            log = compile_source(ALL[case], name="probe", target="sm_90a", **options).log
        except CompileError as error:
            log = error.log
        (Path(sys.argv[1]) / f"{case}.{label}.txt").write_text(log.rstrip("\0\n") + "\n")


if __name__ == "__main__":
    _main()
