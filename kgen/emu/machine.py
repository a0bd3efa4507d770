"""The machine: grid, clusters, CTAs, warps, and fragments (the lanes of a warp that share a program
counter).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kgen.emu.operands import TileCache
from kgen.emu.order import AsyncOp, Knowledge, OrderTracker
from kgen.emu.registers import SHARED_BASE, WARP_LANES
from kgen.emu.shadow import SharedShadow
from kgen.emu.sync import ClusterBarrier, Mbarrier, NamedBarrier, RegisterPool

if TYPE_CHECKING:
    from kgen.emu.grid import Grid
    from kgen.emu.wgmma_state import WgmmaCall

_LANES = np.arange(WARP_LANES, dtype=np.uint32)


def lane_bits(lanes: np.ndarray) -> int:
    """32 booleans as a 32-bit integer, lane 0 in the lowest bit."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


class Wait(ABC):
    """Why a fragment is parked."""

    soft = False  # a poll: may be resumed, with the answer "not yet", when nothing else can run

    @abstractmethod
    def describe(self) -> str:
        """What a deadlock report prints."""


class Fragment:
    """Lanes that execute together. Each fragment has its own copy of the uniform registers.

    joins  where its lanes meet others they parted from, outermost first: (instruction, all lanes
           that parted there, as bits)
    """

    __slots__ = ("bits", "count", "full", "joins", "leader", "mask", "pc", "uniform", "waiting")

    def __init__(
        self,
        pc: int,
        mask: np.ndarray,
        uniform: list[int],
        joins: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.pc = pc
        self.uniform = uniform
        self.joins = joins
        self.waiting: Wait | None = None
        self.set_mask(mask)

    def set_mask(self, mask: np.ndarray) -> None:
        self.mask = mask
        self.bits = lane_bits(mask)
        self.count = int(mask.sum())
        self.full = self.count == WARP_LANES
        self.leader = int(mask.argmax())


class Warp:
    """32 lanes, their registers, and what they know of the rest of the grid."""

    def __init__(self, grid: Grid, cta: Cta, number: int, index: int) -> None:
        registers = grid.program.registers
        self.grid = grid
        self.cta = cta
        self.number = number  # in the CTA
        self.index = index  # in the grid
        self.matrix32 = np.zeros((max(1, registers.counts["rows32"]), WARP_LANES), np.uint32)
        self.rows32 = list(self.matrix32)
        self.rows64 = list(np.zeros((max(1, registers.counts["rows64"]), WARP_LANES), np.uint64))
        self.rowsp = list(np.zeros((max(1, registers.counts["rowsp"]), WARP_LANES), bool))
        self.order = OrderTracker(index, grid.warp_count)
        self.threads = min(WARP_LANES, cta.threads - number * WARP_LANES)
        mask = self.threads > _LANES
        self.all_lanes = lane_bits(mask)
        self.fragments = [Fragment(0, mask, [0] * registers.counts["uniform"])]
        self.queued = False
        self.visited: set[int] = set()
        self.registers = 0  # per thread, for setmaxnreg
        self.store_open: list[AsyncOp] = []  # bulk stores since the last commit
        self.store_groups: list[list[AsyncOp]] = []
        self.wgmma = grid.new_wgmma_state()
        self.seen_phase: dict[tuple[int, int], int] = {}  # (CTA, mbarrier) -> phase observed last
        self.timed_out: set[int] = set()  # try_waits whose time limit has passed once
        self.polled: tuple[int, int, object] = (-1, -1, None)  # pc, version, value of the last poll
        self.carry = np.zeros(WARP_LANES, bool)  # condition code of each thread
        self.specials = self._specials()

    @property
    def name(self) -> str:
        return f"CTA {self.cta.number} warp {self.number}"

    def _specials(self) -> dict[str, np.ndarray | int]:
        cta, launch = self.cta, self.grid.launch
        thread = _LANES + np.uint32(WARP_LANES * self.number)
        x, y, _z = (np.uint32(size) for size in launch.block)
        values: dict[str, np.ndarray | int] = {
            "%tid.x": thread % x,
            "%tid.y": thread // x % y,
            "%tid.z": thread // (x * y),
            "%laneid": _LANES,
            "%lanemask_eq": np.uint32(1) << _LANES,
            "%lanemask_lt": (np.uint32(1) << _LANES) - np.uint32(1),
            "%lanemask_le": (np.uint32(2) << _LANES) - np.uint32(1),
            "%warpid": self.number,
            "%nwarpid": -(-cta.threads // WARP_LANES),
            "%smid": cta.number,
            "%nsmid": 132,
            "%gridid": 0,
            "%cluster_ctarank": cta.rank,
            "%cluster_nctarank": cta.cluster.size,
            "%is_explicit_cluster": int(cta.cluster.size > 1),
            "%dynamic_smem_size": launch.dynamic_shared_bytes,
            "%total_smem_size": launch.dynamic_shared_bytes
            + self.grid.program.registers.static_bytes,
        }
        every = np.uint32(0xFFFFFFFF)
        values["%lanemask_ge"] = every ^ np.asarray(values["%lanemask_lt"])
        values["%lanemask_gt"] = every ^ np.asarray(values["%lanemask_le"])
        for axis, letter in enumerate("xyz"):
            values[f"%ntid.{letter}"] = launch.block[axis]
            values[f"%nctaid.{letter}"] = launch.grid[axis]
            values[f"%ctaid.{letter}"] = cta.position[axis]
            values[f"%clusterid.{letter}"] = cta.position[axis] // launch.cluster[axis]
            values[f"%nclusterid.{letter}"] = launch.grid[axis] // launch.cluster[axis]
            values[f"%cluster_ctaid.{letter}"] = cta.position[axis] % launch.cluster[axis]
            values[f"%cluster_nctaid.{letter}"] = launch.cluster[axis]
        return values

    def special(self, name: str) -> int:
        """A special register that is the same in all lanes."""
        if name in self.specials:
            return int(self.specials[name])
        return self.grid.clock(name)

    def lane_special(self, name: str) -> np.ndarray:
        """A special register that differs between lanes."""
        return np.asarray(self.specials[name])

    def live_lanes(self) -> int:
        return sum(fragment.count for fragment in self.fragments)


class Cta:
    """A CTA: shared memory with its shadow, barriers, and the register pool of its SM."""

    def __init__(
        self, grid: Grid, cluster: Cluster, number: int, position: tuple[int, int, int], rank: int
    ) -> None:
        launch = grid.launch
        self.cluster = cluster
        self.number = number
        self.position = position
        self.rank = rank
        self.threads = launch.block[0] * launch.block[1] * launch.block[2]
        self.shared_window = (
            rank << 24
        )  # a shared::cluster address: rank, then the offset in that CTA
        self.shared_end = SHARED_BASE + grid.shared_bytes
        size = -(-self.shared_end // 16) * 16
        self.shared = np.full(size, 0xFF, np.uint8)
        self.shared16 = self.shared.view(np.uint16)
        self.shared32 = self.shared.view(np.uint32)
        self.shadow = SharedShadow(self, size)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.barriers: dict[int, NamedBarrier] = {}
        self.pool = RegisterPool()
        self.wgmma_calls: dict[
            tuple[int, int], WgmmaCall
        ] = {}  # (warpgroup, sequence) -> being issued
        self.wgmma_waiters: list[tuple[Warp, Fragment]] = []
        self.tiles = TileCache()
        self.warps: list[Warp] = []
        self.remote_steps: dict[
            int, int
        ] = {}  # warp of another CTA -> its last step that reached in here
        self.remote_operations: list[int] = []  # numbers of other CTAs' operations that write here
        self.exit_knowledge: Knowledge | None = None  # of the warps that have ended

    @property
    def live_warps(self) -> int:
        return sum(1 for warp in self.warps if warp.fragments)


@dataclass(eq=False)
class Cluster:
    """CTAs that can reach each other's shared memory."""

    size: int
    ctas: list[Cta] = field(default_factory=list)
    barrier: ClusterBarrier = field(default_factory=ClusterBarrier)
