"""Hardware limits of every target; nothing else in kgen knows one.

Sources: [CC] CUDA C++ Programming Guide, "Compute Capabilities", technical specifications table;
[PTX] PTX ISA, the section named; [M] read or measured on the device that the line names;
[AS] assembled with ptxas 13.5, no such device was used; [H] CUDA 13.5 headers, cuda.h;
[DSL] constants of CUTLASS 4 (C++ and CuTe DSL). Nobody here has a Blackwell or Rubin device: what
their entries say is documentation, not measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Arch:
    """Limits of one compilation target. Sizes in bytes, counts per SM unless named otherwise."""

    target: str  # the name nvcc takes, suffix included
    family: str  # the MMA family: "wgmma" or "tcgen05"
    devices: str
    feature_macro: str  # nvcc defines it for this target's suffix only
    compute_capability: tuple[int, int]
    minimum_cuda: tuple[int, int]
    sm_count: int  # of the largest device; for estimates and test shapes, never in a kernel
    smem_per_cta: int  # dynamic shared memory a CTA may opt in to
    registers: int  # 32-bit
    register_quadrants: int  # warp schedulers; each owns registers / quadrants
    register_step: int  # allocation granularity per thread
    registers_per_thread: int
    threads_per_cta: int
    warpgroup_threads: int
    grid_x: int
    named_barriers: int
    setmaxnreg: range  # legal immediates
    tma_box_extent: int  # elements along any axis of a box
    tma_inner_multiple: int  # bytes
    tma_stride_multiple: int  # bytes; also the alignment of the base address
    tma_stride_limit: int  # bytes, exclusive
    tma_extent_limit: int  # elements, inclusive
    swizzle_bytes: tuple[int, ...]
    smem_alignment: int  # of a 128-byte swizzle pattern
    cluster_ctas: int  # largest portable cluster
    mma_k_bytes: tuple[int, ...]  # K extents of one MMA instruction that some kind has
    fp8_sum_bits: int  # significand bits of a running f32 sum of fp8; bits below are cut off
    tmem_columns: int = 0  # tensor memory: 32-bit columns of 128 lanes; 0 has none
    tmem_exclusive_columns: int = 0  # with tcgen05.alloc.exclusive; 0 adds none
    tmem_unit: int = 32  # columns; an allocation that is not exclusive is a power of two of them
    smem_oversized_per_cta: int = 0  # bytes with the oversized shared-memory mode; 0 has none
    oversized_minimum_cuda: tuple[int, int] = (0, 0)
    descriptor_address_bits: int = 14  # of a shared-memory matrix descriptor, units of 16 bytes
    mma_flops_per_clock: int = 0  # per SM, dense, 16-bit operands; 0 where it is not known


SM_90A = Arch(
    target="sm_90a",
    family="wgmma",
    devices="H100, H200",
    feature_macro="__CUDA_ARCH_FEAT_SM90_ALL",  # CUDA C++ Programming Guide, feature-set macros
    compute_capability=(9, 0),
    minimum_cuda=(12, 5),  # cudaGetDriverEntryPointByVersion; the device code is older
    sm_count=132,  # [M] H200 SXM
    smem_per_cta=232448,  # [CC] 227 KiB; [M] H200
    registers=65536,  # [CC]
    register_quadrants=4,  # [M] launch caps of ptxas: 288 threads get 168, 544 get 96
    register_step=8,  # [PTX] setmaxnreg; [M] the same caps
    registers_per_thread=255,  # [CC]
    threads_per_cta=1024,  # [CC]
    warpgroup_threads=128,  # [PTX] wgmma: four consecutive warps
    grid_x=2**31 - 1,  # [CC]
    named_barriers=16,  # [CC]
    setmaxnreg=range(
        24, 249, 8
    ),  # [PTX] setmaxnreg; ptxas 13.5 refuses 256, more than a thread has
    tma_box_extent=256,  # CUDA driver API, cuTensorMapEncodeTiled; [M] H200 return codes
    tma_inner_multiple=16,  # the same
    tma_stride_multiple=16,  # the same
    tma_stride_limit=2**40,  # the same
    tma_extent_limit=2**32,  # the same
    swizzle_bytes=(32, 64, 128),  # the same
    smem_alignment=1024,  # [PTX] shared-memory matrix descriptor: 8 rows x 128 bytes
    cluster_ctas=8,  # [CC]
    mma_k_bytes=(32,),  # [PTX] wgmma shapes: k16 of 16 bits, k32 of 8, k8 of tf32
    fp8_sum_bits=14,  # [M] H200; arXiv 2511.10909 says 13 behind the leading one
    # NVIDIA H100 white paper: 4 tensor cores an SM, 512 FMA of f16 a clock each; an FMA is 2 FLOP.
    mma_flops_per_clock=4096,
)

# What the three tcgen05 targets share, and share with Hopper where the line is not repeated.
SM_100A = replace(
    SM_90A,
    target="sm_100a",
    family="tcgen05",
    devices="B200, GB200",
    feature_macro="__CUDA_ARCH_FEAT_SM100_ALL",
    compute_capability=(10, 0),
    minimum_cuda=(12, 8),  # [PTX] 8.6 came with it
    sm_count=148,  # published specification of B200
    smem_per_cta=232448,  # [CC] 227 KiB
    smem_alignment=1024,  # [PTX] tcgen05 matrix descriptor: 8 rows x 128 bytes
    fp8_sum_bits=24,  # [PTX] tcgen05.mma: the accumulator is f32
    mma_k_bytes=(32,),  # [PTX] tcgen05.mma; 48 exists for fp4 of sm_103a, and kgen does not use it
    tmem_columns=512,  # [PTX] tensor memory
    mma_flops_per_clock=0,  # not measured by anybody who could tell
)

SM_103A = replace(
    SM_100A,
    target="sm_103a",
    devices="B300, GB300",
    feature_macro="__CUDA_ARCH_FEAT_SM103_ALL",
    compute_capability=(10, 3),
    minimum_cuda=(12, 9),  # [PTX] 8.8
    sm_count=160,  # published specification of Blackwell Ultra
)

SM_107A = replace(
    SM_100A,
    target="sm_107a",
    devices="Vera Rubin",
    feature_macro="__CUDA_ARCH_FEAT_SM107_ALL",
    compute_capability=(10, 7),
    minimum_cuda=(13, 4),  # [PTX] 9.4; [AS] with 13.5
    sm_count=224,  # published specification of Rubin
    mma_k_bytes=(32, 64),  # [DSL] instruction descriptor of SM107
    tmem_exclusive_columns=576,  # [AS] SASS of alloc.exclusive takes 0x240 columns
    smem_oversized_per_cta=334848,  # [DSL] 327 KiB; may vary by chip, so the launcher asks it
    oversized_minimum_cuda=(13, 4),  # [H] 13.3 has neither the mode nor the function attribute
    descriptor_address_bits=15,  # [DSL] 14 bits would alias past 256 KiB
)

ARCHS: dict[str, Arch] = {a.target: a for a in (SM_90A, SM_100A, SM_103A, SM_107A)}
"""Every target that kgen renders for, by name."""


def launch_register_cap(arch: Arch, threads: int) -> int:
    """Registers per thread that a CTA of `threads` can be launched with.

    Registers belong to a quarter of the SM and warps are dealt out to the quarters in turn, so a
    ninth warp costs as much as a twelfth: 288 threads leave 168, 544 leave 96.
    Source: launch caps reported by ptxas 13.0 for sm_90a.
    """
    warps = -(-threads // 32)
    warps_per_quadrant = -(-warps // arch.register_quadrants)
    cap = arch.registers // arch.register_quadrants // (32 * warps_per_quadrant)
    return min(cap // arch.register_step * arch.register_step, arch.registers_per_thread)
