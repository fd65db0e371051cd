// SPDX-License-Identifier: Apache-2.0
// The portable matrix product beside the vendor's library in one run, on random data: the shapes of
// ZAYA1-8B's dense layers at 16,384 tokens and a large square, forward and as gradients. Prints
// TFLOP/s after rest and without, the median of three rounds that begin with either.
//   cmake --build --preset release --target portable_gemm_bench
//   build/release/portable_gemm_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "tephra/device/gpu/gemm.h"

using namespace tephra::gpu;

namespace {

__global__ void fill(uint16_t* p, int64_t n, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    p[i] = tephra::bf16(static_cast<float>(x) / 4294967296.0f - 0.5f).bits;
  }
}

struct Bench {
  Stream stream{tephra::Device{tephra::Device::Kind::gpu, 0}};
  RawEvent begin, end;

  Bench() {
    check(TEPHRA_GPU_API(EventCreate)(&begin), "timing products");
    check(TEPHRA_GPU_API(EventCreate)(&end), "timing products");
  }
  void* random(int64_t elements, uint32_t seed) {
    void* p = nullptr;
    check(TEPHRA_GPU_API(Malloc)(&p, static_cast<size_t>(elements * 4)), "timing products");
    stream.launch(fill, {.blocks = 1024}, static_cast<uint16_t*>(p), 2 * elements, seed);
    return p;
  }
  // Seconds of a launch; `busy`: of many in a row.
  double seconds(const std::function<void()>& work, bool busy) {
    std::vector<double> times;
    for (int i = 0; i < (busy ? 3 : 7); ++i) {
      if (!busy) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const int runs = busy ? 20 : 1;
      check(TEPHRA_GPU_API(EventRecord)(begin, stream.raw()), "timing products");
      for (int k = 0; k < runs; ++k) work();
      check(TEPHRA_GPU_API(EventRecord)(end, stream.raw()), "timing products");
      stream.synchronize();
      float ms = 0;
      check(TEPHRA_GPU_API(EventElapsedTime)(&ms, begin, end), "timing products");
      times.push_back(ms / 1e3 / runs);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

struct Shape {
  const char* name;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  Number out;
};
constexpr Shape kShapes[] = {
    {"square", 8192, 8192, 8192, false, true, Number::bf16},
    {"output 2048 to 4096", 16384, 4096, 2048, false, true, Number::bf16},
    {"input gradient 4096 to 2048", 16384, 2048, 4096, false, false, Number::bf16},
    {"weight gradient 4096 x 2048", 4096, 2048, 16384, true, false, Number::f32},
    {"output 2048 to 256", 16384, 256, 2048, false, true, Number::bf16}};

}  // namespace

int main() {
  if (only_portable() || gemm_library_version().empty()) {
    std::printf("%s is not there to compare with\n", gemm_library_name().c_str());
    return 2;
  }
  Bench bench;
  std::printf("%-28s %5s %9s %9s %7s\n", "bf16", "", "portable", "library", "share");
  for (const Shape& s : kShapes) {
    void* a = bench.random(s.m * s.k / 2 + 1, 1);
    void* b = bench.random(s.n * s.k / 2 + 1, 2);
    void* c = bench.random(s.m * s.n, 3);
    const Gemm g{.m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = a,
                 .lda = s.transpose_a ? s.m : s.k,
                 .transpose_a = s.transpose_a,
                 .b = b,
                 .ldb = s.transpose_b ? s.k : s.n,
                 .transpose_b = s.transpose_b,
                 .c = c,
                 .ldc = s.n,
                 .in = Number::bf16,
                 .out = s.out};
    const std::function<void()> forms[] = {[&] { gemm_portable(bench.stream, g); },
                                           [&] { gemm(bench.stream, g); }};
    for (const auto& form : forms) form();
    for (const bool busy : {false, true}) {
      double rates[2];
      std::vector<double> times[2];
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 2; ++i) {
          const int form = (round + i) % 2;
          times[form].push_back(bench.seconds(forms[form], busy));
        }
      }
      for (int form = 0; form < 2; ++form) {
        std::sort(times[form].begin(), times[form].end());
        rates[form] = 2.0 * s.m * s.n * s.k / times[form][1] / 1e12;
      }
      std::printf("%-28s %5s %9.0f %9.0f %6.1f%%\n", busy ? "" : s.name, busy ? "busy" : "rest",
                  rates[0], rates[1], 100 * rates[0] / rates[1]);
    }
    for (void* p : {a, b, c}) check(TEPHRA_GPU_API(Free)(p), "timing products");
  }
}
