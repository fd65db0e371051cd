// SPDX-License-Identifier: Apache-2.0
// Attention for Hopper: compared with plain sums in f64 on odd shapes ("check"), and timed on
// causal batches (documents x tokens, a window, the size of a head). bench/gpu/attention_peer.py
// times cuDNN beside it.
//   cmake --build --preset release --target attention_bench
//   build/release/attention_bench check 2x4096 1x16384 1x16384w1024 2x4096d64
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "tephra/device/gpu/attention.h"

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

// Roughly normal: the sum of four uniform numbers.
__global__ void fill(bf16* p, int64_t n, uint32_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    float sum = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      uint32_t x = uint32_t(4 * i + j) * 2654435761u ^ seed * 0x9e3779b9u;
      x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
      sum += float(x) / 4294967296.0f - 0.5f;
    }
    p[i] = __float2bfloat16(sum * 1.7320508f);
  }
}

struct Problem {
  int64_t queries, keys;
  int heads, kv_heads, dim;
  std::vector<int32_t> first, last;
  double pairs() const {
    double sum = 0;
    for (size_t i = 0; i < first.size(); ++i) sum += last[i] - first[i];
    return sum;
  }
};

Problem causal(const std::vector<int64_t>& lengths, int heads, int kv_heads, int64_t window = 0,
               int dim = 128) {
  Problem p{0, 0, heads, kv_heads, dim, {}, {}};
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      p.first.push_back(
          int32_t(p.queries + (window > 0 ? std::max<int64_t>(0, i + 1 - window) : 0)));
      p.last.push_back(int32_t(p.queries + i + 1));
    }
    p.queries += length;
  }
  p.keys = p.queries;
  return p;
}

template <class T>
T* device(int64_t n) {
  T* p = nullptr;
  CHECK(cudaMalloc(&p, n * sizeof(T)));
  CHECK(cudaMemset(p, 0xff, n * sizeof(T)));  // NaN
  return p;
}

cudaStream_t at;  // where everything is timed

struct Data {
  Problem p;
  bf16 *q, *k, *v, *d_o, *o, *dq, *dk, *dv;
  float *lse, *dlse;
  int32_t *first, *last;
  void* workspace;
  std::vector<void*> all;

  explicit Data(const Problem& problem) : p(problem) {
    const int64_t of_q = p.queries * p.heads * p.dim, of_k = p.keys * p.kv_heads * p.dim;
    for (bf16** x : {&q, &d_o, &o, &dq}) all.push_back(*x = device<bf16>(of_q));
    for (bf16** x : {&k, &v, &dk, &dv}) all.push_back(*x = device<bf16>(of_k));
    fill<<<1024, 256, 0, at>>>(q, of_q, 1), fill<<<1024, 256, 0, at>>>(d_o, of_q, 4);
    fill<<<1024, 256, 0, at>>>(k, of_k, 2), fill<<<1024, 256, 0, at>>>(v, of_k, 3);
    for (float** x : {&lse, &dlse}) all.push_back(*x = device<float>(p.queries * p.heads));
    for (int32_t** x : {&first, &last}) all.push_back(*x = device<int32_t>(p.queries));
    std::vector<float> values(p.queries * p.heads);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * float(i % 7);
    CHECK(cudaMemcpy(dlse, values.data(), values.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(first, p.first.data(), p.queries * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(last, p.last.data(), p.queries * 4, cudaMemcpyHostToDevice));
    all.push_back(workspace = device<uint8_t>(attention_grad_workspace(input())));
    CHECK(cudaDeviceSynchronize());
  }
  ~Data() {
    for (void* x : all) cudaFree(x);
  }
  AttentionInput input() const {
    return {{q, p.heads * p.dim},
            {k, p.kv_heads * p.dim},
            {v, p.kv_heads * p.dim},
            first,
            last,
            p.queries,
            p.keys,
            p.heads,
            p.kv_heads,
            p.dim,
            1 / std::sqrt(float(p.dim))};
  }
  void forward(Stream& stream) const {
    attention_hopper(stream, input(), {o, p.heads * p.dim}, {lse, p.heads});
  }
  void backward(Stream& stream, bool with_dlse, bool queries = true, bool keys = true) const {
    attention_grad_hopper(stream, input(),
                          {{d_o, p.heads * p.dim},
                           {o, p.heads * p.dim},
                           {lse, p.heads},
                           {with_dlse ? dlse : nullptr, p.heads},
                           {queries ? dq : nullptr, p.heads * p.dim},
                           {keys ? dk : nullptr, p.kv_heads * p.dim},
                           {keys ? dv : nullptr, p.kv_heads * p.dim}},
                          workspace);
  }
};

// A block for each query and head: probabilities and score gradients of all keys.
__global__ void plain_scores(const bf16* q, const bf16* k, const bf16* v, const bf16* d_o,
                             const float* dlse, const int32_t* first, const int32_t* last,
                             int64_t keys, int heads, int kv_heads, int dim, double scale,
                             double* P, double* dS, double* lse) {
  const int64_t i = blockIdx.x, h = blockIdx.y, kv = h / (heads / kv_heads);
  double* p = P + (h * gridDim.x + i) * keys;
  double* ds = dS + (h * gridDim.x + i) * keys;
  for (int64_t j = threadIdx.x; j < keys; j += blockDim.x) {
    double s = 0, dp = 0;
    const bool seen = j >= first[i] && j < last[i];
    for (int c = 0; seen && c < dim; ++c) {
      s += double(float(q[(i * heads + h) * dim + c])) *
           double(float(k[(j * kv_heads + kv) * dim + c]));
      dp += double(float(d_o[(i * heads + h) * dim + c])) *
            double(float(v[(j * kv_heads + kv) * dim + c]));
    }
    p[j] = seen ? exp(s * scale) : 0;
    ds[j] = dp;
  }
  __syncthreads();
  __shared__ double total, delta;
  if (threadIdx.x == 0) {
    total = delta = 0;
    for (int64_t j = first[i]; j < last[i]; ++j) total += p[j], delta += p[j] * ds[j];
    delta = delta / total - dlse[i * heads + h];
    lse[i * heads + h] = log(total);
  }
  __syncthreads();
  for (int64_t j = threadIdx.x; j < keys; j += blockDim.x) {
    p[j] = p[j] == 0 ? 0 : p[j] / total;
    ds[j] = p[j] == 0 ? 0 : scale * p[j] * (ds[j] - delta);
  }
}

// out[i, h, :] = sum over j of w[h][i][j] x[j, h's KV head, :]
__global__ void plain_rows(const double* w, const bf16* x, int64_t keys, int heads, int kv_heads,
                           double* out) {
  const int64_t i = blockIdx.x, h = blockIdx.y, kv = h / (heads / kv_heads), c = threadIdx.x,
                dim = blockDim.x;
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const double p = w[(h * gridDim.x + i) * keys + j];
    if (p != 0) sum += p * double(float(x[(j * kv_heads + kv) * dim + c]));
  }
  out[(i * heads + h) * dim + c] = sum;
}

// out[j, kv, :] = sum over its heads h and i of w[h][i][j] x[i, h, :]
__global__ void plain_columns(const double* w, const bf16* x, int64_t queries, int heads,
                              double* out) {
  const int64_t j = blockIdx.x, kv = blockIdx.y, keys = gridDim.x, c = threadIdx.x,
                dim = blockDim.x;
  const int group = heads / int(gridDim.y);
  double sum = 0;
  for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
    for (int64_t i = 0; i < queries; ++i) {
      sum += w[(h * queries + i) * keys + j] * double(float(x[(i * heads + h) * dim + c]));
    }
  }
  out[(j * gridDim.y + kv) * dim + c] = sum;
}

template <class T>
double error_of(const T* got, const double* want, int64_t n) {
  std::vector<T> a(n);
  std::vector<double> b(n);
  CHECK(cudaMemcpy(a.data(), got, n * sizeof(T), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(b.data(), want, n * 8, cudaMemcpyDeviceToHost));
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isinf(b[i])) {  // a row that sees nothing
      if (float(a[i]) != b[i]) return NAN;
      continue;
    }
    difference += (float(a[i]) - b[i]) * (float(a[i]) - b[i]), norm += b[i] * b[i];
  }
  return norm == 0 ? difference : std::sqrt(difference / norm);
}

uint64_t hash_of(const void* data, int64_t bytes) {
  std::vector<uint8_t> host(bytes);
  CHECK(cudaMemcpy(host.data(), data, bytes, cudaMemcpyDeviceToHost));
  uint64_t h = 1469598103934665603ull;
  for (const uint8_t b : host) h = (h ^ b) * 1099511628211ull;
  return h;
}

bool compare(Stream& stream, const char* name, const Problem& p) {
  const Data d(p);
  const int64_t of_q = p.queries * p.heads * p.dim, of_k = p.keys * p.kv_heads * p.dim;
  double* P = device<double>(p.heads * p.queries * p.keys);
  double* dS = device<double>(p.heads * p.queries * p.keys);
  double* rows = device<double>(of_q);
  double* columns = device<double>(of_k);
  double* lse = device<double>(p.queries * p.heads);
  const dim3 each_q(p.queries, p.heads), each_k(p.keys, p.kv_heads);
  plain_scores<<<each_q, 128, 0, at>>>(d.q, d.k, d.v, d.d_o, d.dlse, d.first, d.last, p.keys,
                                       p.heads, p.kv_heads, p.dim, 1 / std::sqrt(double(p.dim)), P,
                                       dS, lse);
  // Keys that nobody sees may hold anything.
  std::vector<char> heard(p.keys, 0);
  for (int64_t i = 0; i < p.queries; ++i) {
    for (int32_t j = p.first[i]; j < p.last[i]; ++j) heard[j] = 1;
  }
  CHECK(cudaDeviceSynchronize());
  for (int64_t j = 0; j < p.keys; ++j) {
    if (heard[j] != 0) continue;
    CHECK(cudaMemset(d.k + j * p.kv_heads * p.dim, 0xff, p.kv_heads * p.dim * 2));
    CHECK(cudaMemset(d.v + j * p.kv_heads * p.dim, 0xff, p.kv_heads * p.dim * 2));
  }
  if (!takes_attention(stream, d.input())) std::printf("the device is not for it\n"), std::exit(1);
  d.forward(stream);
  d.backward(stream, true);
  CHECK(cudaDeviceSynchronize());
  double errors[5];
  plain_rows<<<each_q, p.dim, 0, at>>>(P, d.v, p.keys, p.heads, p.kv_heads, rows);
  CHECK(cudaDeviceSynchronize());
  errors[0] = error_of(d.o, rows, of_q);
  errors[1] = error_of(d.lse, lse, p.queries * p.heads);
  plain_rows<<<each_q, p.dim, 0, at>>>(dS, d.k, p.keys, p.heads, p.kv_heads, rows);
  CHECK(cudaDeviceSynchronize());
  errors[2] = error_of(d.dq, rows, of_q);
  plain_columns<<<each_k, p.dim, 0, at>>>(dS, d.q, p.queries, p.heads, columns);
  CHECK(cudaDeviceSynchronize());
  errors[3] = error_of(d.dk, columns, of_k);
  plain_columns<<<each_k, p.dim, 0, at>>>(P, d.d_o, p.queries, p.heads, columns);
  CHECK(cudaDeviceSynchronize());
  errors[4] = error_of(d.dv, columns, of_k);
  for (double* x : {P, dS, rows, columns, lse}) CHECK(cudaFree(x));
  bool good = true;
  for (int i = 0; i < 5; ++i) good &= errors[i] < (i == 1 ? 1e-4 : 8e-3);
  std::printf("%-44s o %.1e lse %.1e dq %.1e dk %.1e dv %.1e %s\n", name, errors[0], errors[1],
              errors[2], errors[3], errors[4], good ? "" : "WRONG");
  std::fflush(stdout);
  return good;
}

// Ten calls at a time, so that the host keeps ahead of the device; the median of nine such.
double seconds(const std::function<void()>& work) {
  constexpr int kCalls = 10;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 10; ++i) {
    CHECK(cudaEventRecord(begin, at));
    for (int j = 0; j < kCalls; ++j) work();
    CHECK(cudaEventRecord(end, at));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(ms / kCalls);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] / 1e3;
}

// Query heads of 1024 columns together, a quarter of that in keys.
void time_shape(Stream& stream, int64_t documents, int64_t tokens, int64_t window, int dim) {
  const Data d(causal(std::vector<int64_t>(documents, tokens), 1024 / dim, 256 / dim, window, dim));
  d.forward(stream), d.backward(stream, false);
  const auto hash = [&] {
    CHECK(cudaDeviceSynchronize());
    uint64_t h = 0;
    for (const bf16* x : {d.o, d.dq})
      h = h * 31 + hash_of(x, d.p.queries * d.p.heads * d.p.dim * 2);
    for (const bf16* x : {d.dk, d.dv})
      h = h * 31 + hash_of(x, d.p.keys * d.p.kv_heads * d.p.dim * 2);
    return h;
  };
  const uint64_t once = hash();
  const double forward = seconds([&] { d.forward(stream); });
  const double backward = seconds([&] { d.backward(stream, false); });
  const double of_queries = seconds([&] { d.backward(stream, false, true, false); });
  const double of_keys = seconds([&] { d.backward(stream, false, false, true); });
  const double pairs = window > 0 ? d.p.pairs() : 0.5 * double(documents * tokens * tokens);
  const double flops = 4.0 * d.p.dim * d.p.heads * pairs;
  std::printf(
      "%ldx%ld w%ld d%d forward %.4f ms %.0f TFLOP/s backward %.4f ms %.0f TFLOP/s "
      "(dq alone %.4f, dk and dv alone %.4f ms)%s\n",
      long(documents), long(tokens), long(window), dim, forward * 1e3, flops / forward / 1e12,
      backward * 1e3, 2.5 * flops / backward / 1e12, of_queries * 1e3, of_keys * 1e3,
      hash() == once ? "" : " NOT THE SAME BITS");
  std::fflush(stdout);
}

bool compare_all(Stream& stream, int dim) {
  std::printf("heads of %d, errors relative to f64:\n", dim);
  const auto compare_causal = [&](const char* name, const std::vector<int64_t>& lengths, int heads,
                                  int kv_heads, int64_t window = 0) {
    return compare(stream, name, causal(lengths, heads, kv_heads, window, dim));
  };
  bool good = compare_causal("a tile", {128}, 8, 2);
  good &= compare_causal("part of a tile", {37}, 8, 2);
  good &= compare_causal("a single token", {1}, 2, 2);
  good &= compare_causal("several tiles", {512}, 8, 2);
  good &= compare_causal("several tiles and a remainder", {777}, 8, 2);
  good &= compare_causal("documents", {1, 137, 3, 250, 64, 307}, 8, 2);
  good &= compare_causal("a window", {700}, 8, 2, 100);
  good &= compare_causal("a window and documents", {300, 65, 500}, 4, 1, 129);
  good &= compare_causal("as many KV heads, three", {400}, 3, 3);
  good &= compare_causal("six heads to one", {400}, 6, 1);
  Problem chunk = causal({200}, 8, 2, 0, dim);  // the last rows of a cache, 3 of it not seen
  chunk.keys = 700;
  for (int i = 0; i < 200; ++i) chunk.first[i] = 3, chunk.last[i] = 500 + i;
  good &= compare(stream, "a chunk on a cache", chunk);
  Problem decode = causal({5}, 8, 2, 0, dim);
  decode.keys = 600;
  decode.first = {0, 40, 41, 320, 10}, decode.last = {33, 41, 300, 590, 10};
  good &= compare(stream, "decode steps, gaps, a row that sees nothing", decode);
  Problem nothing = causal({130}, 8, 2, 0, dim);
  for (int i = 0; i < 130; ++i) nothing.first[i] = nothing.last[i] = i;
  good &= compare(stream, "nothing is seen", nothing);
  return good;
}

int main(int argc, char** argv) {
  Stream stream(tephra::Device{tephra::Device::Kind::gpu, 0});
  at = stream.raw();
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    long documents = 0, tokens = 0, window = 0, dim = 128;
    if (std::strcmp(argv[i], "check") == 0) {
      for (const int each : {64, 128, 256}) good &= compare_all(stream, each);
    } else if (std::sscanf(argv[i], "%ldx%ld", &documents, &tokens) == 2) {
      if (const char* w = std::strchr(argv[i], 'w')) window = std::atol(w + 1);
      if (const char* d = std::strchr(argv[i], 'd')) dim = std::atol(d + 1);
      time_shape(stream, documents, tokens, window, int(dim));
    } else {
      std::printf("usage: attention_bench [check] [DOCUMENTSxTOKENS[wWINDOW][dHEAD]]...\n");
      return 2;
    }
  }
  return good ? 0 : 1;
}
