"""Registers of the schedules whose warps have roles: the pool, the split, what a role may hold."""

from __future__ import annotations

from kgen.arch import Arch, launch_register_cap
from kgen.budget.ring import register_pool, update
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaPersistent, WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M, mma_n

# A producer warpgroup keeps this many; 24 spilled in the fast kernels that were studied.
PRODUCER_SPLIT = {1: 40, 2: 40}
PRODUCER_SPLIT_MANY = 32


def _roles(spec: KernelSpec) -> WgmmaWs | WgmmaPersistent:
    assert isinstance(spec.schedule, WgmmaWs | WgmmaPersistent)
    return spec.schedule


def with_registers(spec: KernelSpec, arch: Arch, threads: int, producer_needs: int) -> KernelSpec:
    """`registers: auto` gives the producer warpgroup little and shares the rest of the pool."""
    s = _roles(spec)
    if s.registers != "auto" or s.producer != "warpgroup":
        return spec
    least = -(-producer_needs // arch.register_step) * arch.register_step
    producer = max(least, PRODUCER_SPLIT.get(s.consumers, PRODUCER_SPLIT_MANY))
    pool = register_pool(arch, threads)
    consumer = (pool - producer) // s.consumers // arch.register_step * arch.register_step
    largest = arch.registers_per_thread // arch.register_step * arch.register_step - 8
    split = Registers(producer=producer, consumer=max(24, min(consumer, largest)))
    return update(spec, registers=split)


def register_caps(spec: KernelSpec, arch: Arch, threads: int) -> tuple[int, int]:
    """What a thread of the producer and of a consumer may hold."""
    split = _roles(spec).registers
    if isinstance(split, Registers):
        return split.producer, split.consumer
    cap = launch_register_cap(arch, threads)
    return cap, cap


def slab_accumulators(spec: KernelSpec, arch: Arch) -> int:
    """Registers per thread that hold the sums of one 64-row slab."""
    bits = dtype(spec.gemm.accumulator).bits
    return SLAB_M * mma_n(_roles(spec)) * bits // 32 // arch.warpgroup_threads
