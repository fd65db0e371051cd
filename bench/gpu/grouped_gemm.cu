// SPDX-License-Identifier: Apache-2.0
// The products of experts beside cuBLASLt's in one run, on random data, for even, uneven and skewed
// loads, with results compared with plain sums. Prints tables of TFLOP/s, after rest and without.
// Peers, each the fastest of eight algorithms that cuBLASLt proposes:
// - dense: one product of the same FLOPs; of a weight gradient it adds to a sixteenth of our bytes;
// - same: one product of a weight gradient's FLOPs that adds to as many bytes as ours, an expert's
//   tokens deep and all experts' outputs wide;
// - batched: sixteen products of even load in one call, the same work as ours;
// and beside them
// - tiles: weight gradients by our other form, which is ours where experts have few rows. Both must
//   have the same bits.
//   cmake --build --preset release --target grouped_gemm_bench
//   build/release/grouped_gemm_bench [tokens] [ours]     ours: weight gradients without cuBLASLt's
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tephra/device/gpu/grouped_gemm.h"

using namespace tephra::gpu;
using bf16 = __nv_bfloat16;
using Work = std::function<void()>;

#define CHECK(call)                                                           \
  do {                                                                        \
    const auto result = (call);                                               \
    if (result != 0) {                                                        \
      std::printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, int(result)); \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

constexpr int kExperts = 16;
cudaStream_t at;  // where everything is timed

__device__ uint32_t mixed(uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ x >> 16;
}

template <class T>
__global__ void fill(T* p, int64_t n, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    p[i] = T((float(mixed(uint32_t(i) * 2654435761u ^ seed)) / 4294967296.0f - 0.5f) * 2);
  }
}

// Changes with any bit of any word.
__global__ void hash(const uint32_t* p, int64_t n, unsigned long long* sum) {
  unsigned long long own = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    own += (uint64_t{mixed(p[i] ^ uint32_t(i))} << 32 | mixed(p[i] + uint32_t(i)));
  }
  atomicAdd(sum, own);
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

// What is there now, of bf16 or f32.
__global__ void read(const void* c, bool f32, int64_t columns, const int32_t* picks,
                     double* values) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t place = picks[2 * i] * columns + picks[2 * i + 1];
  values[i] = f32 ? double(static_cast<const float*>(c)[place])
                  : double(float(static_cast<const bf16*>(c)[place]));
}

template <class T>
T* device(int64_t n) {
  T* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(T)));
  return p;
}

template <class T>
T* filled(int64_t n, uint32_t seed) {
  T* p = device<T>(n);
  fill<<<1024, 256>>>(p, n, seed);
  return p;
}

double timed(const Work& work, int launches) {
  static cudaEvent_t begin, end;
  if (!begin) {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  CHECK(cudaEventRecord(begin, at));
  for (int i = 0; i < launches; ++i) work();
  CHECK(cudaEventRecord(end, at));
  CHECK(cudaEventSynchronize(end));
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  return ms / 1e3 / launches;
}

// The median of eleven, each alone, after 30 ms of rest.
double after_rest(const Work& work) {
  CHECK(cudaDeviceSynchronize());
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) times.push_back(timed(work, 1));
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  return times[5];
}

// Launches in a row for 60 ms, after 120 that bring the card to its limit of power.
double without_rest(const Work& work) {
  const int launches = 1 + int(0.06 / timed(work, 3));
  timed(work, 2 * launches);
  return timed(work, launches);
}

// Row-major C[m, n] = op(A) op(B), or += in f32, by cuBLASLt, as column-major C^T = op(B)^T
// op(A)^T.
struct Shape {
  int64_t m, n, k;
  bool ta, tb, f32 = false, adds = false;
  int32_t batch = 1;
};

class Dense {
 public:
  Dense(const Shape& s, const bf16* a, const bf16* b, void* c)
      : a_(a), b_(b), c_(c), beta_(s.adds ? 1 : 0) {
    if (!handle_) {
      CHECK(cublasLtCreate(&handle_));
      CHECK(cudaMalloc(&workspace_, kBytes));
    }
    CHECK(cublasLtMatmulDescCreate(&op_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t t = CUBLAS_OP_T, no = CUBLAS_OP_N;
    CHECK(cublasLtMatmulDescSetAttribute(op_, CUBLASLT_MATMUL_DESC_TRANSA, s.tb ? &t : &no,
                                         sizeof t));
    CHECK(cublasLtMatmulDescSetAttribute(op_, CUBLASLT_MATMUL_DESC_TRANSB, s.ta ? &t : &no,
                                         sizeof t));
    lb_ = layout(CUDA_R_16BF, s.tb ? s.k : s.n, s.tb ? s.n : s.k, s.batch);
    la_ = layout(CUDA_R_16BF, s.ta ? s.m : s.k, s.ta ? s.k : s.m, s.batch);
    lc_ = layout(s.f32 ? CUDA_R_32F : CUDA_R_16BF, s.n, s.m, s.batch);
    choose();
  }

  void operator()() const {
    const float alpha = 1;
    CHECK(cublasLtMatmul(handle_, op_, &alpha, b_, lb_, a_, la_, &beta_, c_, lc_, c_, lc_, &algo_,
                         workspace_, kBytes, at));
  }

 private:
  static cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t columns,
                                       int32_t batch) {
    cublasLtMatrixLayout_t made;
    const int64_t step = rows * columns;
    CHECK(cublasLtMatrixLayoutCreate(&made, type, rows, columns, rows));
    CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                           sizeof batch));
    CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                           sizeof step));
    return made;
  }

  void choose() {
    cublasLtMatmulPreference_t preference;
    CHECK(cublasLtMatmulPreferenceCreate(&preference));
    CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kBytes, sizeof kBytes));
    cublasLtMatmulHeuristicResult_t proposed[8];
    int found = 0;
    CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, op_, lb_, la_, lc_, lc_, preference, 8, proposed,
                                         &found));
    cublasLtMatmulPreferenceDestroy(preference);
    double best = 1e9;
    cublasLtMatmulAlgo_t fastest{};
    for (int i = 0; i < found; ++i) {
      algo_ = proposed[i].algo;
      timed(*this, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      timed(*this, 20);  // or the first ones find a cooler card
      const double time = timed(*this, 20);
      if (time < best) best = time, fastest = algo_;
    }
    if (found == 0) std::printf("cuBLASLt proposes nothing\n"), std::exit(1);
    algo_ = fastest;
  }

  static constexpr size_t kBytes = 64 << 20;
  static inline cublasLtHandle_t handle_ = nullptr;
  static inline void* workspace_ = nullptr;
  cublasLtMatmulDesc_t op_;
  cublasLtMatrixLayout_t la_, lb_, lc_;
  cublasLtMatmulAlgo_t algo_;
  const bf16* a_;
  const bf16* b_;
  void* c_;
  float beta_;
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

const char* const kLoads[] = {"even", "uneven", "skewed"};

// One matrix of an expert layer and its three products.
struct Layer {
  int64_t rows, in, out;
  bf16* x = filled<bf16>(rows * in, 1);
  bf16* dy = filled<bf16>(rows * out, 2);
  bf16* w = filled<bf16>(kExperts * in * out, 3);
  bf16* y = device<bf16>(rows * std::max(in, out));
  float* dw = device<float>(kExperts * in * out);

  double flops() const { return 2.0 * rows * in * out; }

  GroupedGemm ours(GroupedProduct product, const int32_t* offsets, bool adds) const {
    const bool weights = product == GroupedProduct::weight_gradient;
    const bool output = product == GroupedProduct::output;
    return {.product = product,
            .experts = kExperts,
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
            .accumulate = adds};
  }

  Dense dense(GroupedProduct product, bool adds) const {
    if (product == GroupedProduct::output) return {{rows, out, in, false, true}, x, w, y};
    if (product == GroupedProduct::input_gradient) return {{rows, in, out, false, false}, dy, w, y};
    return {{out, in, rows, true, false, true, adds}, dy, x, dw};
  }
  Dense same(bool adds) const {
    return {{kExperts * out, in, rows / kExperts, true, false, true, adds}, dy, x, dw};
  }
  Dense batched(bool adds) const {
    return {{out, in, rows / kExperts, true, false, true, adds, kExperts}, dy, x, dw};
  }
};

unsigned long long hash_of(const void* p, int64_t words) {
  auto* sum = device<unsigned long long>(1);
  CHECK(cudaMemset(sum, 0, 8));
  hash<<<1024, 256>>>(static_cast<const uint32_t*>(p), words, sum);
  unsigned long long found = 0;
  CHECK(cudaMemcpy(&found, sum, 8, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(sum));
  return found;
}

struct Checked {
  unsigned long long hash;
  double error;  // relative, of 20,000 elements
};

// One product, a gradient's onto numbers that it adds to or must not keep.
Checked checked(const GroupedGemm& g, const Work& run) {
  const int count = 20000;
  const bool weights = g.product == GroupedProduct::weight_gradient;
  const int64_t c_rows = weights ? g.experts * g.out : g.rows;
  const int64_t c_columns = g.product == GroupedProduct::output ? g.out : g.in;
  std::vector<int32_t> picks(2 * count);
  uint32_t state = 12345;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223, picks[2 * i] = int32_t(state % c_rows);
    state = state * 1664525 + 1013904223, picks[2 * i + 1] = int32_t((state >> 8) % c_columns);
  }
  int32_t* d_picks = device<int32_t>(2 * count);
  double* d_sums = device<double>(count);
  double* d_values = device<double>(2 * count);  // before and after
  CHECK(cudaMemcpy(d_picks, picks.data(), picks.size() * 4, cudaMemcpyHostToDevice));
  naive<<<count / 100, 100>>>(g, static_cast<const bf16*>(g.b), d_picks, count, d_sums);
  if (weights) fill<<<1024, 256>>>(static_cast<float*>(g.c), c_rows * c_columns, 4);
  read<<<count / 100, 100>>>(g.c, weights, c_columns, d_picks, d_values);
  CHECK(cudaDeviceSynchronize());  // the stream of ours does not wait for the default one
  run();
  CHECK(cudaDeviceSynchronize());
  read<<<count / 100, 100>>>(g.c, weights, c_columns, d_picks, d_values + count);
  Checked found{hash_of(g.c, c_rows * c_columns / (weights ? 1 : 2)), 0};
  std::vector<double> want(count), values(2 * count);
  CHECK(cudaMemcpy(want.data(), d_sums, count * 8, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(values.data(), d_values, 2 * count * 8, cudaMemcpyDeviceToHost));
  double difference = 0, norm = 0;
  for (int i = 0; i < count; ++i) {
    const double got = values[count + i] - (weights && g.accumulate ? values[i] : 0);
    difference += (got - want[i]) * (got - want[i]), norm += want[i] * want[i];
  }
  found.error = std::sqrt(difference / norm);
  for (void* p : {(void*)d_picks, (void*)d_sums, (void*)d_values}) CHECK(cudaFree(p));
  return found;
}

// Of each form the median of three rounds, which begin with different ones: what comes first finds
// a cooler card.
std::vector<double> in_rounds(const std::vector<Work>& forms, double (*seconds)(const Work&)) {
  std::vector<std::vector<double>> found(forms.size());
  for (size_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < forms.size(); ++i) {
      const size_t form = (i + round) % forms.size();
      found[form].push_back(seconds(forms[form]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& times : found) {
    std::sort(times.begin(), times.end());
    medians.push_back(times[1]);
  }
  return medians;
}

// Ours first, then the peers there are: TFLOP/s, and ours as a share of each.
void print_rates(double flops, const std::vector<Work>& forms, double (*seconds)(const Work&)) {
  const std::vector<double> times = in_rounds(forms, seconds);
  for (const double time : times) std::printf(" %4.0f", flops / time / 1e12);
  for (size_t i = 1; i < times.size(); ++i) std::printf(" %5.1f%%", 100 * times[i] / times[0]);
}

struct Product {
  const char* name;
  GroupedProduct product;
  bool adds;
};
constexpr Product kProducts[] = {{"output", GroupedProduct::output, false},
                                 {"input gradient", GroupedProduct::input_gradient, false},
                                 {"weights, added", GroupedProduct::weight_gradient, true},
                                 {"weights, written", GroupedProduct::weight_gradient, false}};
constexpr int kOfAStep = 3;  // the first of these

struct Bench {
  int64_t rows;
  bool alone;  // weight gradients without cuBLASLt's
  Stream stream{tephra::Device{tephra::Device::Kind::gpu, 0}};
  int processors = 0;
  Layer layers[2] = {{rows, 2048, 4096}, {rows, 2048, 2048}};
  int32_t* offsets[3];

  Bench(int64_t tokens, bool no_peers) : rows(tokens), alone(no_peers) {
    at = stream.raw();
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    for (int kind = 0; kind < 3; ++kind) {
      const std::vector<int32_t> bounds = cuts(rows, kExperts, kind);
      offsets[kind] = device<int32_t>(kExperts + 1);
      CHECK(cudaMemcpy(offsets[kind], bounds.data(), bounds.size() * 4, cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
  }

  Work ours(const Layer& layer, const Product& p, int kind) {
    return [this, g = layer.ours(p.product, offsets[kind], p.adds)] {
      if (!grouped_gemm_hopper(stream, g)) std::printf("the device is not for it\n"), std::exit(1);
    };
  }

  Work in_tiles(const Layer& layer, const Product& p, int kind) {
    return [this, g = layer.ours(p.product, offsets[kind], p.adds)] {
      if (!grouped_gemm_in_tiles(stream, g, processors))
        std::printf("not in tiles\n"), std::exit(1);
    };
  }

  std::vector<Work> peers(const Layer& layer, const Product& p) const {
    if (alone) return {};
    const Work dense = layer.dense(p.product, p.adds);
    if (p.product != GroupedProduct::weight_gradient) return {dense};
    return {dense, layer.same(p.adds), layer.batched(p.adds)};
  }

  void each(double (*seconds)(const Work&)) {
    for (const Layer& layer : layers) {
      for (const Product& p : kProducts) {
        if (alone && p.product != GroupedProduct::weight_gradient) continue;
        std::vector<Work> forms = peers(layer, p);
        forms.insert(forms.begin(), Work());
        const bool weights = p.product == GroupedProduct::weight_gradient;
        if (weights) forms.push_back(Work());
        for (int kind = 0; kind < 3; ++kind) {
          forms[0] = ours(layer, p, kind);
          if (weights) forms.back() = in_tiles(layer, p, kind);
          std::printf("%-16s %4ld to %4ld %-6s |", p.name, long(layer.in), long(layer.out),
                      kLoads[kind]);
          print_rates(layer.flops(), forms, seconds);
          const GroupedGemm g = layer.ours(p.product, offsets[kind], p.adds);
          const Checked found = checked(g, forms[0]);
          std::printf(" | %016llx %.1e\n", found.hash, found.error);
          std::fflush(stdout);
          if (weights && checked(g, forms.back()).hash != found.hash) {
            std::printf("in tiles: other bits\n"), std::exit(1);
          }
        }
      }
    }
  }

  // Weight gradients of two streams at once and recorded ones: whether all have the bits of one
  // alone.
  bool undisturbed() {
    Stream other(stream.device());
    const GroupedGemm one = layers[0].ours(GroupedProduct::weight_gradient, offsets[2], false);
    const GroupedGemm two = layers[1].ours(GroupedProduct::weight_gradient, offsets[1], false);
    const auto words = [](const GroupedGemm& g) { return g.experts * g.in * g.out; };
    const auto bits = [&] {
      CHECK(cudaDeviceSynchronize());
      const std::pair found{hash_of(one.c, words(one)), hash_of(two.c, words(two))};
      for (const GroupedGemm* g : {&one, &two}) CHECK(cudaMemset(g->c, 0xff, 4 * words(*g)));
      CHECK(cudaDeviceSynchronize());
      return found;
    };
    grouped_gemm_hopper(stream, one), grouped_gemm_hopper(stream, two);
    const auto alone_bits = bits();
    for (int i = 0; i < 20; ++i) grouped_gemm_hopper(stream, one), grouped_gemm_hopper(other, two);
    const bool at_once = bits() == alone_bits;
    Graph graph;
    graph.begin(stream);
    grouped_gemm_hopper(stream, one), grouped_gemm_hopper(stream, two);
    graph.end(stream);
    for (int i = 0; i < 3; ++i) graph.launch(stream);
    return at_once && bits() == alone_bits;
  }

  // The three products of both matrices, one after the other: ours, dense, and dense with as many
  // bytes of weight gradients.
  void together(double (*seconds)(const Work&)) {
    std::vector<Work> parts[3];
    double flops = 0;
    for (const Layer& layer : layers) {
      for (int i = 0; i < kOfAStep; ++i, flops += layer.flops()) {
        const std::vector<Work> found = peers(layer, kProducts[i]);
        parts[1].push_back(found[0]);
        parts[2].push_back(found.size() > 1 ? found[1] : found[0]);
      }
    }
    std::vector<Work> forms;
    for (const std::vector<Work>& of : parts) {
      forms.push_back([&of] {
        for (const Work& part : of) part();
      });
    }
    for (int kind = 0; kind < 3; ++kind) {
      parts[0].clear();
      for (const Layer& layer : layers) {
        for (int i = 0; i < kOfAStep; ++i) parts[0].push_back(ours(layer, kProducts[i], kind));
      }
      std::printf("%-29s %-6s |", "the three of both matrices", kLoads[kind]);
      print_rates(flops, forms, seconds);
      std::printf("\n");
    }
  }
};

int main(int argc, char** argv) {
  Bench bench(argc > 1 ? std::atoll(argv[1]) : 32768, argc > 2 && std::string(argv[2]) == "ours");
  if (!bench.undisturbed()) std::printf("two streams or a graph: other bits\n"), std::exit(1);
  const struct {
    const char* name;
    double (*seconds)(const Work&);
  } regimes[] = {{"after rest", after_rest}, {"without rest", without_rest}};
  for (const auto& regime : regimes) {
    std::printf(
        "%ld tokens, %s: TFLOP/s of ours, dense, same, batched, in tiles, and our share of each\n",
        long(bench.rows), regime.name);
    bench.each(regime.seconds);
    if (!bench.alone) bench.together(regime.seconds);
  }
}
