// SPDX-License-Identifier: Apache-2.0
// The grouped product beside cuBLASLt's dense product of the same FLOPs, in one run, on random
// data, for even and skewed loads, with its results compared with plain sums. Prints a table.
// The weight gradient has a second peer, cuBLASLt's batch of sixteen products of even load, which
// adds to as many f32 matrices as we do; the one dense product adds to a sixteenth of them.
//   cmake --build --preset release --target grouped_gemm_bench && build/release/grouped_gemm_bench
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tephra/device/gpu/grouped_gemm.h"

using namespace tephra::gpu;
using bf16 = __nv_bfloat16;

#define CHECK(call)                                                           \
  do {                                                                        \
    const auto result = (call);                                               \
    if (result != 0) {                                                        \
      std::printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, int(result)); \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

__global__ void fill(bf16* p, int64_t n, uint32_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t x = uint32_t(i) * 2654435761u ^ seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    p[i] = __float2bfloat16((float(x) / 4294967296.0f - 0.5f) * scale);
  }
}

// One thread an element, summed in f64.
__global__ void naive(GroupedGemm g, const bf16* other, const int32_t* picks, int count,
                      double* sums) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int row = picks[2 * i], column = picks[2 * i + 1];
  const bf16* a = static_cast<const bf16*>(g.a);
  double sum = 0;
  if (g.product == GroupedProduct::weight_gradient) {  // row is expert * out + o
    const int e = row / int(g.out), o = row % int(g.out);
    for (int64_t m = g.offsets[e]; m < g.offsets[e + 1]; ++m) {
      sum += double(float(a[m * g.out + o])) * double(float(other[m * g.in + column]));
    }
  } else {
    int e = 0;
    while (e < g.experts && g.offsets[e + 1] <= row) ++e;
    const bool output = g.product == GroupedProduct::output;
    const int64_t depth = output ? g.in : g.out;
    for (int64_t k = 0; e < g.experts && k < depth; ++k) {
      const bf16* w = other + e * g.out * g.in;
      sum += double(float(a[row * depth + k])) *
             double(float(output ? w[column * g.in + k] : w[k * g.in + column]));
    }
  }
  sums[i] = sum;
}

template <class T>
T* device(int64_t n) {
  T* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(T)));
  return p;
}

cudaStream_t at;  // where everything is timed

double seconds(const std::function<void()>& work, int repeats = 10) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) work();
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    CHECK(cudaEventRecord(begin, at));
    work();
    CHECK(cudaEventRecord(end, at));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] / 1e3;
}

// Row-major C[m, n] = op(A) op(B) by cuBLASLt's first choice, as column-major C^T = op(B)^T
// op(A)^T.
struct Dense {
  cublasLtHandle_t handle;
  void* workspace;
  size_t bytes = 64 << 20;
  Dense() {
    CHECK(cublasLtCreate(&handle));
    CHECK(cudaMalloc(&workspace, bytes));
  }
  void run(int64_t m, int64_t n, int64_t k, const bf16* a, bool ta, const bf16* b, bool tb, void* c,
           bool f32, int32_t batch = 1) {
    cublasLtMatmulDesc_t op;
    CHECK(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t t = CUBLAS_OP_T, no = CUBLAS_OP_N;
    CHECK(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, tb ? &t : &no, sizeof t));
    CHECK(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSB, ta ? &t : &no, sizeof t));
    cublasLtMatrixLayout_t la, lb, lc;
    CHECK(cublasLtMatrixLayoutCreate(&lb, CUDA_R_16BF, tb ? k : n, tb ? n : k, tb ? k : n));
    CHECK(cublasLtMatrixLayoutCreate(&la, CUDA_R_16BF, ta ? m : k, ta ? k : m, ta ? m : k));
    CHECK(cublasLtMatrixLayoutCreate(&lc, f32 ? CUDA_R_32F : CUDA_R_16BF, n, m, n));
    const auto repeat = [batch](cublasLtMatrixLayout_t layout, int64_t step) {
      CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                             sizeof batch));
      CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &step, sizeof step));
    };
    repeat(la, m * k), repeat(lb, n * k), repeat(lc, m * n);
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes));
    cublasLtMatmulHeuristicResult_t best;
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle, op, lb, la, lc, lc, preference, 1, &best, &found));
    const float alpha = 1, beta = f32 ? 1 : 0;
    CHECK(cublasLtMatmul(handle, op, &alpha, b, lb, a, la, &beta, c, lc, c, lc, &best.algo,
                         workspace, bytes, at));
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(la), cublasLtMatrixLayoutDestroy(lb),
        cublasLtMatrixLayoutDestroy(lc);
    cublasLtMatmulDescDestroy(op);
  }
};

std::vector<int32_t> cuts(int64_t rows, int experts, int kind) {
  std::vector<double> share(experts, 1.0);
  if (kind == 1)
    for (int e = 0; e < experts; ++e) share[e] = 0.25 + (e * 7 % experts) * 0.1;
  if (kind == 2)
    for (int e = 0; e < experts; ++e) share[e] = e == 3 ? experts : e % 4 == 1 ? 0 : 0.3;
  double total = 0;
  for (double s : share) total += s;
  std::vector<int32_t> out{0};
  double sum = 0;
  for (double s : share) out.push_back(int32_t(rows * ((sum += s) / total) + 0.5));
  out.back() = int32_t(rows);
  return out;
}

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 32768;
  const int experts = 16;
  Dense dense;
  Stream stream(tephra::Device{tephra::Device::Kind::gpu, 0});
  at = stream.raw();
  const auto run = [&](const GroupedGemm& g) {
    if (!grouped_gemm_hopper(stream, g)) std::printf("the device is not for it\n"), std::exit(1);
  };
  std::printf("%-16s %5s %5s %-8s %9s %9s %7s %9s %10s\n", "product", "in", "out", "load",
              "TFLOP/s", "dense", "share", "batched", "error");
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{2048, 4096}, {2048, 2048}}) {
    bf16* x = device<bf16>(rows * in);
    bf16* dy = device<bf16>(rows * out);
    bf16* w = device<bf16>(experts * in * out);
    bf16* y = device<bf16>(rows * std::max(in, out));
    float* dw = device<float>(experts * in * out);
    int32_t* offsets = device<int32_t>(experts + 1);
    fill<<<1024, 256>>>(x, rows * in, 1, 2), fill<<<1024, 256>>>(dy, rows * out, 2, 2);
    fill<<<1024, 256>>>(w, experts * in * out, 3, 2);
    for (const GroupedProduct product : {GroupedProduct::output, GroupedProduct::input_gradient,
                                         GroupedProduct::weight_gradient}) {
      const bool weights = product == GroupedProduct::weight_gradient;
      const bool output = product == GroupedProduct::output;
      const double flops = 2.0 * rows * in * out;
      const double peer = seconds([&] {
        if (output)
          dense.run(rows, out, in, x, false, w, true, y, false);
        else if (!weights)
          dense.run(rows, in, out, dy, false, w, false, y, false);
        else
          dense.run(out, in, rows, dy, true, x, false, dw, true);
      });
      const double batched = weights ? seconds([&] {
        dense.run(out, in, rows / experts, dy, true, x, false, dw, true, experts);
      })
                                     : 0.0;
      for (int kind = 0; kind < 3; ++kind) {
        const std::vector<int32_t> bounds = cuts(rows, experts, kind);
        CHECK(cudaMemcpy(offsets, bounds.data(), bounds.size() * 4, cudaMemcpyHostToDevice));
        const GroupedGemm g{.product = product,
                            .experts = experts,
                            .rows = rows,
                            .in = in,
                            .out = out,
                            .offsets = offsets,
                            .a = output ? x : dy,
                            .a_stride = output ? in : out,
                            .b = weights ? x : w,
                            .b_stride = in,
                            .c = weights ? static_cast<void*>(dw) : y,
                            .c_stride = output ? out : in,
                            .accumulate = true};
        const int count = 20000;
        const int64_t c_rows = weights ? experts * out : rows, c_columns = output ? out : in;
        std::vector<int32_t> picks(2 * count);
        uint32_t state = 12345 + kind;
        for (int i = 0; i < count; ++i) {
          state = state * 1664525 + 1013904223, picks[2 * i] = int32_t(state % c_rows);
          state = state * 1664525 + 1013904223,
          picks[2 * i + 1] = int32_t((state >> 8) % c_columns);
        }
        int32_t* d_picks = device<int32_t>(2 * count);
        double* d_sums = device<double>(count);
        CHECK(cudaMemcpy(d_picks, picks.data(), picks.size() * 4, cudaMemcpyHostToDevice));
        naive<<<count / 100, 100>>>(g, static_cast<const bf16*>(g.b), d_picks, count, d_sums);
        CHECK(cudaMemset(y, 0xff, rows * c_columns * 2));
        CHECK(cudaMemset(dw, 0, experts * in * out * 4));
        CHECK(cudaDeviceSynchronize());  // the stream of ours does not wait for the default one
        run(g);
        CHECK(cudaDeviceSynchronize());
        std::vector<double> want(count);
        CHECK(cudaMemcpy(want.data(), d_sums, count * 8, cudaMemcpyDeviceToHost));
        std::vector<char> got(weights ? experts * in * out * 4 : rows * c_columns * 2);
        CHECK(cudaMemcpy(got.data(), g.c, got.size(), cudaMemcpyDeviceToHost));
        double difference = 0, norm = 0;
        for (int i = 0; i < count; ++i) {
          const int64_t at = picks[2 * i] * c_columns + picks[2 * i + 1];
          const double value = weights ? reinterpret_cast<float*>(got.data())[at]
                                       : double(float(reinterpret_cast<bf16*>(got.data())[at]));
          difference += (value - want[i]) * (value - want[i]), norm += want[i] * want[i];
        }
        const double ours = seconds([&] { run(g); });
        std::printf("%-16s %5ld %5ld %-8s %9.0f %9.0f %6.1f%% %9.0f %10.2e\n",
                    output    ? "output"
                    : weights ? "weight gradient"
                              : "input gradient",
                    long(in), long(out),
                    kind == 0   ? "even"
                    : kind == 1 ? "uneven"
                                : "skewed",
                    flops / ours / 1e12, flops / peer / 1e12, 100 * peer / ours,
                    weights ? flops / batched / 1e12 : 0.0, std::sqrt(difference / norm));
        std::fflush(stdout);
        CHECK(cudaFree(d_picks));
        CHECK(cudaFree(d_sums));
      }
    }
    for (void* p : {(void*)x, (void*)dy, (void*)w, (void*)y, (void*)dw, (void*)offsets})
      cudaFree(p);
  }
}
