// The tests of a project that carries kernels shipped by kgen. `dispatch` and `refusals` need no
// GPU; `multiply` runs every kernel and every dispatch table on one.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "gemm.h"

namespace {

constexpr int kSkipped = 77;
using Pick = const gemm_kernel* (*)(int64_t m, int64_t n, int64_t k);

#define REQUIRE(condition)                                                    \
    do {                                                                      \
        if (!(condition)) {                                                   \
            std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                         \
        }                                                                     \
    } while (0)

// Any shape has an answer, and it is a kernel of this folder.
int dispatch() {
    const int64_t sizes[] = {INT64_MIN, -1, 0, 1, 8, 129, 8192, 1 << 30, INT64_MAX};
    for (int64_t m : sizes)
        for (int64_t n : sizes)
            for (int64_t k : sizes)
                for (Pick pick : {gemm_sm_90a_f16_f16acc_pick, gemm_sm_90a_f16_f32acc_pick}) {
                    const gemm_kernel* kernel = pick(m, n, k);
                    REQUIRE(kernel && gemm_find(kernel->name) == kernel);
                }
    REQUIRE(gemm_find("no such kernel") == nullptr);
    return 0;
}

// A broken precondition is a status with a text, found before any CUDA call.
int refusals() {
    for (const gemm_kernel* kernel = gemm_kernels; kernel->name; ++kernel) {
        auto launch = [kernel](int64_t m) {
            return kernel->launch(nullptr, nullptr, nullptr, m, 64, 64, 64, 64, 64, nullptr, nullptr);
        };
        int status = launch(64);
        REQUIRE(std::strcmp(kernel->status_string(status), "a is null") == 0);
        status = launch(-1);
        REQUIRE(std::strncmp(kernel->status_string(status), "m must be", 9) == 0);
        REQUIRE(launch(0) == 0);  // an empty output is no work
    }
    return 0;
}

// Small integers: every partial sum is exact, so the product must be, too.
int multiply_with(const gemm_kernel* kernel, int m, int n, int k) {
    std::vector<__half> a(size_t(m) * k), b(size_t(n) * k), d(size_t(m) * n);
    uint32_t state = 1;
    auto fill = [&state](std::vector<__half>& values) {
        for (__half& value : values) {
            state = state * 1664525u + 1013904223u;
            value = __float2half(state >> 31 ? 1.0f : -1.0f);
        }
    };
    fill(a);
    fill(b);
    __half *device_a, *device_b, *device_d;
    REQUIRE(cudaMalloc(&device_a, a.size() * 2) == cudaSuccess);
    REQUIRE(cudaMalloc(&device_b, b.size() * 2) == cudaSuccess);
    REQUIRE(cudaMalloc(&device_d, d.size() * 2) == cudaSuccess);
    void* workspace = nullptr;
    if (const size_t bytes = kernel->workspace_bytes(m, n, k)) {
        REQUIRE(cudaMalloc(&workspace, bytes) == cudaSuccess);
        REQUIRE(cudaMemset(workspace, 0, bytes) == cudaSuccess);
    }
    REQUIRE(cudaMemcpy(device_a, a.data(), a.size() * 2, cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaMemcpy(device_b, b.data(), b.size() * 2, cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaMemset(device_d, 0xff, d.size() * 2) == cudaSuccess);  // NaN

    const int status =
        kernel->launch(device_a, device_b, device_d, m, n, k, k, k, n, workspace, nullptr);
    if (status != 0) {
        std::printf("%s: %s, CUDA error %d\n", kernel->name, kernel->status_string(status),
                    kernel->last_error());
        return 1;
    }
    REQUIRE(cudaMemcpy(d.data(), device_d, d.size() * 2, cudaMemcpyDeviceToHost) == cudaSuccess);
    for (int row = 0; row < m; ++row)
        for (int col = 0; col < n; ++col) {
            float want = 0;
            for (int i = 0; i < k; ++i)
                want += __half2float(a[size_t(row) * k + i]) * __half2float(b[size_t(col) * k + i]);
            const float got = __half2float(d[size_t(row) * n + col]);
            if (got != want) {
                std::printf("%s: D[%d,%d] = %g, want %g\n", kernel->name, row, col, got, want);
                return 1;
            }
        }
    cudaFree(device_a);
    cudaFree(device_b);
    cudaFree(device_d);
    cudaFree(workspace);
    std::printf("%s: %d x %d x %d is right\n", kernel->name, m, n, k);
    return 0;
}

int multiply() {
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, 0);
    if (error != cudaSuccess) {
        std::printf("skipped: no GPU: %s\n", cudaGetErrorString(error));
        return kSkipped;
    }
    if (properties.major != 9 || properties.minor != 0) {
        std::printf("skipped: %s is not of compute capability 9.0\n", properties.name);
        return kSkipped;
    }
    for (const gemm_kernel* kernel = gemm_kernels; kernel->name; ++kernel) {
        REQUIRE(kernel->init() == 0);
        if (multiply_with(kernel, 300, 520, 136) != 0) return 1;
        if (multiply_with(kernel, 1, 8, 0) != 0) return 1;
    }
    for (Pick pick : {gemm_sm_90a_f16_f16acc_pick, gemm_sm_90a_f16_f32acc_pick})
        if (multiply_with(pick(257, 264, 200), 257, 264, 200) != 0) return 1;
    return 0;
}

}  // namespace

int main(int count, char** words) {
    if (count == 2 && std::strcmp(words[1], "dispatch") == 0) return dispatch();
    if (count == 2 && std::strcmp(words[1], "refusals") == 0) return refusals();
    if (count == 2 && std::strcmp(words[1], "multiply") == 0) return multiply();
    std::printf("usage: test_gemm dispatch | refusals | multiply\n");
    return 2;
}
