// Tensor and bulk copies, one kernel per form. Each dumps or loads `bytes` of the tile at shared offset 0.
#include "micro.cuh"

// `offset` moves the copy inside the tile, for swizzle patterns that do not start at a multiple of 1024.
template <typename Issue>
__device__ __forceinline__ void load(u32* out, int bytes, int tx_bytes, Issue issue) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    const u32 bar = shared_address(shared_memory), dst = shared_address(tile);
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_barrier_init();
    }
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) tile[i] = kUntouched;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        arrive_expect_tx(bar, tx_bytes);
        issue(dst, bar);
    }
    const bool done = wait_bounded(bar, 0);
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
    if (threadIdx.x == 0) out[bytes / 4] = done;
}

#define LOAD(RANK, COORDS, ...)                                                                             \
    extern "C" __global__ void tma_load_##RANK##d(const __grid_constant__ Map map, u32* out, int bytes,     \
                                                  int tx_bytes, int offset, int x, int y, int z, int w,     \
                                                  int v) {                                                  \
        load(out, bytes, tx_bytes, [&](u32 dst, u32 bar) {                                                  \
            asm volatile("cp.async.bulk.tensor." #RANK                                                      \
                         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" COORDS   \
                         "}], [%2];" ::"r"(dst + offset),                                                   \
                         "l"(&map), "r"(bar), __VA_ARGS__                                                   \
                         : "memory");                                                                       \
        });                                                                                                 \
    }
LOAD(1, "%3", "r"(x))
LOAD(2, "%3, %4", "r"(x), "r"(y))
LOAD(3, "%3, %4, %5", "r"(x), "r"(y), "r"(z))
LOAD(4, "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(w))
LOAD(5, "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(w), "r"(v))

// Prefetches and a cache policy must not change what arrives.
extern "C" __global__ void tma_load_hints(const __grid_constant__ Map map, u32* out, int bytes, int tx_bytes,
                                          int x, int y) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(x), "r"(y)
                 : "memory");
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0f3F800000;" : "=l"(policy));
    load(out, bytes, tx_bytes, [&](u32 dst, u32 bar) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
            "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
            "l"(&map), "r"(bar), "r"(x), "r"(y), "l"(policy)
            : "memory");
    });
}

// Two CTAs. CTA r loads the box at row y + r * rows into slot r and sends it to the CTAs in mask r. Both dump both slots.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    tma_load_multicast(const __grid_constant__ Map map, u32* out, int box_bytes, int tx0, int tx1, int mask0,
                       int mask1, int x, int y, int rows) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    const u32 bar = shared_address(shared_memory), rank = cluster_rank();
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_barrier_init();
    }
    const int words = box_bytes / 2;  // two slots
    for (int i = threadIdx.x; i < words; i += blockDim.x) tile[i] = kUntouched;
    fence_proxy_async();
    cluster_sync();
    if (threadIdx.x == 0) {
        const u16 mask = static_cast<u16>(rank ? mask1 : mask0);
        arrive_expect_tx(bar, rank ? tx1 : tx0);
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(tile) + rank * box_bytes),
            "l"(&map), "r"(bar), "r"(x), "r"(y + static_cast<int>(rank) * rows), "h"(mask)
            : "memory");
    }
    const bool done = wait_bounded(bar, 0);
    u32* mine = out + rank * (words + 1);
    for (int i = threadIdx.x; i < words; i += blockDim.x) mine[i] = tile[i];
    if (threadIdx.x == 0) mine[words] = done;
    cluster_sync();
}

template <typename Issue>
__device__ __forceinline__ void store(const u32* in, int bytes, Issue issue) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) tile[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        issue(shared_address(tile));
        store_commit_wait();
    }
}

#define STORE(NAME, OP, RANK, COORDS, ...)                                                                  \
    extern "C" __global__ void NAME(const __grid_constant__ Map map, const u32* in, int bytes, int offset,  \
                                    int x, int y, int z) {                                                  \
        store(in, bytes, [&](u32 src) {                                                                     \
            asm volatile(OP " [%0, {" COORDS "}], [%1];" ::"l"(&map), "r"(src + offset), __VA_ARGS__       \
                         : "memory");                                                                       \
        });                                                                                                 \
    }
#define TENSOR(RANK) "cp.async.bulk.tensor." RANK ".global.shared::cta.tile.bulk_group"
#define REDUCE(OP) "cp.reduce.async.bulk.tensor.2d.global.shared::cta." OP ".tile.bulk_group"
STORE(tma_store_1d, TENSOR("1d"), 1, "%2", "r"(x))
STORE(tma_store_2d, TENSOR("2d"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_store_3d, TENSOR("3d"), 3, "%2, %3, %4", "r"(x), "r"(y), "r"(z))
STORE(tma_reduce_add, REDUCE("add"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_min, REDUCE("min"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_max, REDUCE("max"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_inc, REDUCE("inc"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_dec, REDUCE("dec"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_and, REDUCE("and"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_or, REDUCE("or"), 2, "%2, %3", "r"(x), "r"(y))
STORE(tma_reduce_xor, REDUCE("xor"), 2, "%2, %3", "r"(x), "r"(y))

extern "C" __global__ void bulk_load(const u32* in, u32* out, int bytes) {
    load(out, bytes, bytes, [&](u32 dst, u32 bar) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         dst),
                     "l"(in), "r"(bytes), "r"(bar)
                     : "memory");
    });
}

#define BULK(NAME, OP)                                                                                      \
    extern "C" __global__ void NAME(const u32* in, u32* out, int bytes) {                                   \
        store(in, bytes, [&](u32 src) {                                                                     \
            asm volatile(OP " [%0], [%1], %2;" ::"l"(out), "r"(src), "r"(bytes) : "memory");               \
        });                                                                                                 \
    }
BULK(bulk_store, "cp.async.bulk.global.shared::cta.bulk_group")
BULK(bulk_reduce_add_f32, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32")
BULK(bulk_reduce_add_f16, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16")
BULK(bulk_reduce_add_bf16, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16")
BULK(bulk_reduce_add_s32, "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32")

// CTA 0 copies its shared memory into CTA 1's, which waits on its own barrier.
extern "C" __global__ void __cluster_dims__(2, 1, 1) bulk_to_peer(const u32* in, u32* out, int bytes) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    const u32 bar = shared_address(shared_memory), rank = cluster_rank();
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_barrier_init();
    }
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) tile[i] = rank ? kUntouched : in[i];
    fence_proxy_async();
    cluster_sync();
    bool done = true;
    if (rank == 0) {
        if (threadIdx.x == 0)
            asm volatile(
                "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    map_to_rank(shared_address(tile), 1)),
                "r"(shared_address(tile)), "r"(bytes), "r"(map_to_rank(bar, 1))
                : "memory");
    } else {
        if (threadIdx.x == 0) arrive_expect_tx(bar, bytes);
        done = wait_bounded(bar, 0);
        for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
        if (threadIdx.x == 0) out[bytes / 4] = done;
    }
    cluster_sync();
}
