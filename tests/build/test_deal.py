"""The C of a persistent kernel deals tiles out as the Python does: its own text, run on the host.

`Grid` is host code. The device functions are plain C++ once the qualifiers are gone and the two
lines that ask the hardware for the cluster are replaced.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from deal import raster, turns
from persistent import cluster, plan_of

from kgen.plan.hopper import WgmmaPersistentPlan
from kgen.render import render
from kgen.run.grid import Grid, grid_of

MAIN = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
struct uint4 { uint32_t x, y, z, w; };
using std::min;
static int index_of_cluster, count_of_clusters, rank_of_cta;
namespace ptx { int cluster_rank() { return rank_of_cta; } }
@CODE@
int64_t tiles(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }
@GRID@
int main() {
    long long m, n, k;
    int resident;
    while (std::scanf("%lld %lld %lld %d", &m, &n, &k, &resident) == 4) {
        const Grid grid(m, n, k, resident);
        std::printf("grid %lld %lld %lld %lld %lld %zu\n", (long long)grid.tiles_m,
                    (long long)grid.tiles_n, (long long)grid.clusters, (long long)grid.share,
                    (long long)grid.flag_bytes(), grid.workspace_bytes());
        Problem problem{};
        problem.tiles_m = (int)grid.tiles_m;
        problem.tiles_n = (int)grid.tiles_n;
        problem.k_tiles = (int)tiles(k, kTileK);
        problem.share = (int)grid.share;
        count_of_clusters = (int)grid.clusters;
        for (index_of_cluster = 0; index_of_cluster < count_of_clusters; ++index_of_cluster) {
            const Share share = share_of_cluster(problem);
            Work w;
            for (int turn = 0; find_work(share, problem, turn, w); ++turn)
                std::printf("turn %d %d %d %d %d %d %d\n", index_of_cluster, w.tile, w.k_first,
                            w.k_count, w.leaves_part, w.adds_part, w.cut);
        }
        for (int tile = 0; tile < grid.tiles_m * grid.tiles_n; ++tile)
            for (rank_of_cta = 0; rank_of_cta < @SIZE@; ++rank_of_cta) {
                const Tile at = locate_tile(tile, problem);
                std::printf("tile %d %d %d %d\n", tile, rank_of_cta, at.row, at.col);
            }
    }
}
"""


def piece(source: str, start: str, end: str) -> str:
    """The text from the line that begins with `start` to the next line that is `end`, included."""
    found = re.search(rf"^{re.escape(start)}.*?^{re.escape(end)}$", source, re.M | re.S)
    assert found, start
    return found[0]


def host_code(source: str, clustered: bool) -> str:
    """The host program around the kernel's own constants, structs and functions."""
    code = [
        *re.findall(r"^constexpr int(?:64_t)? \w+ = .*?;", source, re.M),
        piece(source, "struct Problem {", "};"),
        piece(source, "struct Share {", "};"),
    ]
    if clustered:
        code.append(piece(source, "struct Member {", "};"))
        code.append(piece(source, "__device__ __forceinline__ Member member() {", "}"))
    code += [
        "int cluster_index() { return index_of_cluster; }",
        "int cluster_count() { return count_of_clusters; }",
        piece(source, "struct Tile {", "};"),
        piece(source, "__device__ __forceinline__ Tile locate_tile(", "}"),
        piece(source, "struct Work {", "};"),
        piece(source, "__device__ Share share_of_cluster(", "}"),
        piece(source, "__device__ __forceinline__ bool find_work(", "}"),
    ]
    text = "\n".join(code).replace("__device__ ", "").replace("__forceinline__", "inline")
    size = "kClusterSize" if clustered else "1"
    grid = piece(source, "struct Grid {", "};")
    return MAIN.replace("@CODE@", text).replace("@GRID@", grid).replace("@SIZE@", size)


KERNELS = {
    "2x1": {},
    "1x1 along m": cluster(1, 1) | {"raster: {along: n, group: 8}": "raster: {along: m, group: 3}"},
    "2x1 snake": {"group: 8}": "group: 3, snake: true}"},
    "1x1 along m, snake": cluster(1, 1)
    | {"raster: {along: n, group: 8}": "raster: {along: m, group: 3, snake: true}"},
    "2x2 at most 7": cluster(2, 2) | {"clusters: auto": "clusters: 7"},
}


def problems(plan: WgmmaPersistentPlan) -> list[tuple[int, int, int, int]]:
    """(M, N, K, resident clusters): shapes of every kind, and those around them."""
    rng = random.Random(31)
    m, n = plan.cluster_tile
    fixed = [
        (1, 8, 8, 132),
        (32 * m, 32 * n, 8192, 66),
        (67 * m, n, 8192, 66),
        (5 * m, 5 * n, 0, 9),
    ]
    drawn = [
        (
            rng.randint(1, rng.choice([3, 20, 40]) * m),
            rng.randint(1, rng.choice([1, 4, 12]) * n),
            rng.randint(1, rng.choice([70, 700, 12000])),
            rng.choice([1, 2, 3, 5, 8, 30, 64, 66, 132]),
        )
        for _ in range(250)
    ]
    return fixed + drawn


@pytest.mark.parametrize("name", KERNELS)
def test_the_c_of_the_kernel_deals_out_as_python_does(name: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no g++ and no clang++ on PATH")
    plan = plan_of(KERNELS[name])
    source = tmp_path / "deal.cpp"
    source.write_text(host_code(render(plan).source, plan.clustered))
    program = tmp_path / "deal"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-ftrapv"]
    done = subprocess.run([compiler, *flags, "-o", program, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shapes = problems(plan)
    given = "".join(f"{m} {n} {k} {resident}\n" for m, n, k, resident in shapes)
    done = subprocess.run([program], input=given, capture_output=True, text=True, check=True)
    got = iter(done.stdout.splitlines())
    cut = 0
    for shape in shapes:
        grid = grid_of(plan, *shape)
        cut += grid.share > 0
        for line in expected(plan, grid, shape[2]):
            assert next(got) == line, shape
        for line in places(plan, grid):
            assert next(got) == line, shape
    assert next(got, None) is None
    assert cut >= 10, "enough of the shapes are worth cutting"


def expected(plan: WgmmaPersistentPlan, grid: Grid, k: int) -> list[str]:
    """The lines of grid and turns that the Python arithmetic stands for."""
    first = [grid.tiles_m, grid.tiles_n, grid.clusters, grid.share, grid.flag_bytes]
    lines = [" ".join(map(str, ["grid", *first, grid.workspace_bytes]))]
    k_tiles = -(-k // plan.tile[2])
    for index in range(grid.clusters):
        for turn in turns(grid, k_tiles, index):
            lines.append(f"turn {index} " + " ".join(str(int(x)) for x in asdict(turn).values()))
    return lines


def places(plan: WgmmaPersistentPlan, grid: Grid) -> list[str]:
    """The lines of every CTA tile, in raster order and there by rank."""
    group, (m, n) = plan.constant("kRasterGroup"), plan.cluster
    order = raster(grid, group, along_n=plan.raster_along_n, snakes=plan.snakes)
    return [
        f"tile {index} {rank} {(row * m + rank % m) * plan.tile[0]} "
        f"{(col * n + rank // m) * plan.tile[1]}"
        for index, (row, col) in enumerate(order)
        for rank in range(m * n)
    ]
