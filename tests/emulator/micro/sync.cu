// Barriers, warp exchanges and atomics. Outputs are flags and values that no schedule can change.
#include "micro.cuh"

__device__ __forceinline__ void arrive(u32 bar, u32 count) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void expect_tx(u32 bar, u32 bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void complete_tx(u32 bar, u32 bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// One thread walks a barrier through its phases and notes both parities after each step.
#define NOTE                          \
    do {                              \
        out[n++] = test_wait(bar, 0); \
        out[n++] = test_wait(bar, 1); \
    } while (0)

extern "C" __global__ void mbarrier_counts(u32* out) {
    const u32 bar = shared_address(shared_memory);
    if (threadIdx.x) return;
    int n = 0;
    barrier_init(bar, 3);
    NOTE;  // fresh: parity 1 has "completed"
    arrive(bar, 1);
    NOTE;
    arrive(bar, 2);
    NOTE;  // phase 0 done
    arrive(bar, 3);
    NOTE;  // phase 1 done
    arrive(bar, 2);
    NOTE;
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
    barrier_init(bar, 1);
    NOTE;
    arrive(bar, 1);
    NOTE;
}

extern "C" __global__ void mbarrier_bytes(u32* out) {
    const u32 bar = shared_address(shared_memory);
    if (threadIdx.x) return;
    int n = 0;
    barrier_init(bar, 2);
    arrive_expect_tx(bar, 48);
    NOTE;
    complete_tx(bar, 48);
    NOTE;  // bytes are there, one arrival is missing
    arrive(bar, 1);
    NOTE;  // phase 0 done
    arrive(bar, 1);
    expect_tx(bar, 16);
    arrive(bar, 1);
    NOTE;  // arrivals are there, bytes are missing
    complete_tx(bar, 16);
    NOTE;  // phase 1 done
    complete_tx(bar, 32);
    NOTE;  // bytes may arrive before they are expected
    arrive(bar, 1);
    arrive_expect_tx(bar, 32);
    NOTE;  // phase 2 done
}

// What an arrival returns: the phase it belongs to, seen through pending_count and test_wait with a state.
extern "C" __global__ void mbarrier_state(u32* out) {
    const u32 bar = shared_address(shared_memory);
    if (threadIdx.x) return;
    barrier_init(bar, 4);
    u64 state;
    for (int i = 0; i < 4; ++i) {
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
        u32 pending, done;
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done)
            : "r"(bar), "l"(state)
            : "memory");
        out[2 * i] = pending;
        out[2 * i + 1] = done;
    }
}

// CTA 1 arrives on CTA 0's barrier, then adds bytes to it; CTA 0 completes them.
extern "C" __global__ void __cluster_dims__(2, 1, 1) mbarrier_remote(u32* out) {
    const u32 bar = shared_address(shared_memory), rank = cluster_rank();
    if (threadIdx.x == 0) {
        barrier_init(bar, 1);
        fence_barrier_init();
    }
    cluster_sync();
    const u32 leader = map_to_rank(bar, 0);
    if (rank == 1 && threadIdx.x == 0)
        asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(leader) : "memory");
    if (rank == 0) {
        const bool done = wait_bounded(bar, 0);
        if (threadIdx.x == 0) out[0] = done;
    }
    cluster_sync();
    if (rank == 1 && threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(leader), "r"(64)
                     : "memory");
    cluster_sync();
    if (rank == 0 && threadIdx.x == 0) {
        out[1] = test_wait(bar, 1);
        complete_tx(bar, 64);
        out[2] = test_wait(bar, 1);
    }
    if (rank == 1 && threadIdx.x == 0) out[3] = test_wait(bar, 1);  // its own barrier never moved
    cluster_sync();
}

// The first 32 threads publish through bar.arrive, the others collect through bar.sync.
extern "C" __global__ void named_barriers(const u32* in, u32* out) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    const u32 t = threadIdx.x;
    if (t < 32) {
        tile[t] = in[t];
        asm volatile("bar.arrive 2, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[t - 32] = tile[63 - t];
    }
    asm volatile("barrier.cta.sync.aligned 3, 64;" ::: "memory");
    out[t + 32] = tile[t % 32] + 1;
}

extern "C" __global__ void barrier_reductions(const u32* in, u32* out) {
    const u32 t = threadIdx.x;
    out[t] = __syncthreads_count(in[t] & 1) << 8 | __syncthreads_and(in[t] < 1000) << 4 | __syncthreads_or(in[t] == 7);
}

// Shared memory of the peer through ld / st.shared::cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_memory(const u32* in, u32* out) {
    u32* tile = reinterpret_cast<u32*>(shared_memory + kBarrierBytes);
    const u32 rank = cluster_rank(), t = threadIdx.x;
    tile[t] = in[rank * 32 + t];
    cluster_sync();
    const u32 peer = map_to_rank(shared_address(tile), rank ^ 1);
    u32 value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(peer + 4 * t) : "memory");
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(peer + 4 * (32 + t)), "r"(value + rank) : "memory");
    cluster_sync();
    out[rank * 64 + t] = tile[t];
    out[rank * 64 + 32 + t] = tile[32 + t];
}

// What the special registers say in a cluster of 2 along x, 3-D block.
extern "C" __global__ void __cluster_dims__(2, 1, 1) special_registers(u32* out) {
    u32 r[12];
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r[0]));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r[1]));
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(r[2]));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(r[3]));
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(r[4]));
    asm("mov.u32 %0, %%laneid;" : "=r"(r[5]));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r[6]));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(r[7]));
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r[8]));
    r[9] = threadIdx.x | threadIdx.y << 8 | threadIdx.z << 16;
    r[10] = blockIdx.x | blockIdx.y << 8 | gridDim.x << 16 | gridDim.y << 24;
    r[11] = blockDim.x | blockDim.y << 8 | blockDim.z << 16;
    const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const u32 cta = blockIdx.x + gridDim.x * blockIdx.y;
    for (int i = 0; i < 12; ++i) out[(cta * 64 + thread) * 12 + i] = r[i];
}
