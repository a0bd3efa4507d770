"""Every micro-test by name.

The same launch runs on a GPU (capture.py) and in the emulator (tests/emulator/test_micro.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from kgen.emu.launch import Argument, Array, Integers, Pointer, Poison

from .case import SHARED, Case, launch_of
from .lane_cases import atomic_cases, lane_cases, matrix_cases, mma_cases
from .tma_cases import bulk_cases, multicast_cases, reduce_cases, tma_load_cases, tma_store_cases
from .wgmma_cases import wgmma_cases

__all__ = ["Case", "all_cases"]


def sync_cases() -> Iterator[Case]:
    def case(
        kernel: str, threads: int, words: int, read: int = 0, ctas: int = 1, cluster: int = 1
    ) -> Case:
        arrays = [Array("out", "u32", (words,), Poison())]
        if read:
            arrays.insert(0, Array("in", "u32", (read,), Integers(0, 1000, 71), role="in"))
        arguments: list[Argument] = [Pointer(a.name) for a in arrays]
        return Case(
            kernel, "sync", launch_of(kernel, threads, arrays, arguments, SHARED, ctas, cluster)
        )

    yield case("mbarrier_counts", 32, 14)
    yield case("mbarrier_bytes", 32, 14)
    yield case("mbarrier_state", 32, 8)
    yield case("mbarrier_remote", 32, 4, ctas=2, cluster=2)
    yield case("named_barriers", 64, 96, read=32)
    yield case("barrier_reductions", 64, 64, read=64)
    yield case("cluster_memory", 32, 128, read=64, ctas=2, cluster=2)
    registers = case("special_registers", 64, 8 * 64 * 12, ctas=4, cluster=2)
    yield replace(registers, launch=replace(registers.launch, grid=(4, 2, 1), block=(8, 4, 2)))


@cache
def all_cases() -> dict[str, Case]:
    """Every case by name."""
    sources = (
        lane_cases,
        atomic_cases,
        mma_cases,
        matrix_cases,
        wgmma_cases,
        tma_load_cases,
        multicast_cases,
        tma_store_cases,
        reduce_cases,
        bulk_cases,
        sync_cases,
    )
    cases = [case for source in sources for case in source()]
    found = {case.name: case for case in cases}
    assert len(found) == len(cases)
    return found
