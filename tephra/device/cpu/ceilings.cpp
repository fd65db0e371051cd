// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/ceilings.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"

namespace tephra {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Values of ordinary size: zeros and subnormals would be another measurement.
std::shared_ptr<Storage> operand(int64_t elements) {
  auto block = Storage::allocate(kCpu, std::max<int64_t>(elements, 1) * 4, Purpose::workspace);
  auto* data = static_cast<float*>(block->data());
  parallel_for(elements, 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) data[i] = static_cast<float>(i % 17 - 8) / 8;
  });
  return block;
}

// oneDNN takes its thread count from OpenMP's setting of the calling thread; our own products rely
// on that being one.
class LibraryThreads {
 public:
  explicit LibraryThreads(int count) : before_(omp_get_max_threads()) {
    omp_set_num_threads(count);
  }
  ~LibraryThreads() { omp_set_num_threads(before_); }
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int before_;
};

double best_seconds(double budget_s, FunctionRef<void()> pass) {
  pass();  // warms caches, pages and code
  double best = std::numeric_limits<double>::infinity();
  const double end = steady_seconds() + budget_s;
  for (int i = 0; i < 3 || steady_seconds() < end; ++i) best = std::min(best, seconds_of(pass));
  return best;
}

double best_gemm_gflops(int threads, double budget_s) {
  const GemmPeer peer({{.m = 1536, .n = 1536, .k = 1536}});
  return peer.flops() / best_seconds(budget_s, [&] { peer.run(threads); }) / 1e9;
}

}  // namespace

GemmPeer::GemmPeer(std::vector<GemmShape> shapes) : shapes_(std::move(shapes)) {
  int64_t count = 1;
  for (const GemmShape& s : shapes_) {
    count = std::max(count, s.count);
    a_stride_ = std::max(a_stride_, s.m * s.k);
    b_stride_ = std::max(b_stride_, s.k * s.n);
    c_stride_ = std::max(c_stride_, s.m * s.n);
  }
  a_ = operand(a_stride_ * count);
  b_ = operand(b_stride_ * count);
  c_ = operand(c_stride_ * count);
}

double GemmPeer::flops() const {
  double sum = 0;
  for (const GemmShape& s : shapes_) sum += s.flops();
  return sum;
}

void GemmPeer::run(int threads) const {
  for (const GemmShape& s : shapes_) {
    for (int64_t i = 0; i < s.count; ++i) run_one(s, i, threads);
  }
}

// Each thread computes rows, or columns where there are more of them. The library's own threading
// is left alone: oneDNN 2.6 corrupts its memory now and then when the machine is busy.
void GemmPeer::run_one(const GemmShape& s, int64_t index, int threads) const {
  constexpr int64_t kMultiple = 48;
  const bool by_rows = s.m >= s.n;
  const int64_t size = by_rows ? s.m : s.n;
  const int64_t piece = ceil_div(ceil_div(size, std::max(1, threads)), kMultiple) * kMultiple;
  const float* a = static_cast<const float*>(a_->data()) + index * a_stride_;
  const float* b = static_cast<const float*>(b_->data()) + index * b_stride_;
  float* c = static_cast<float*>(c_->data()) + index * c_stride_;
  parallel_for(size, std::min(piece, std::max<int64_t>(1, size)), [&](int64_t begin, int64_t end) {
    const LibraryThreads scope(1);
    use_signal_stack();
    const int64_t row = by_rows ? begin : 0, column = by_rows ? 0 : begin;
    const dnnl_status_t status = dnnl_sgemm(
        s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', by_rows ? end - begin : s.m,
        by_rows ? s.n : end - begin, s.k, 1.0f, a + (s.transpose_a ? row : row * s.k),
        s.transpose_a ? s.m : s.k, b + (s.transpose_b ? column * s.k : column),
        s.transpose_b ? s.k : s.n, 0.0f, c + row * s.n + column, s.n);
    TEPHRA_ASSERT(status == dnnl_success, "oneDNN accepts every dense product");
  });
}

StreamMix nearest_mix(double read_bytes, double write_bytes) {
  // Beyond the mixes there are: next to nothing is written, or read. Streams that only read are
  // fastest several at once, as a matrix times a vector reads its rows.
  if (write_bytes * 2 * kMaxStreamReads < read_bytes) return {kMaxStreamReads, 0};
  if (read_bytes * 2 * kMaxStreamWrites < write_bytes) return {0, 1};
  StreamMix best;
  double distance = std::numeric_limits<double>::infinity();
  for (int writes = 1; writes <= kMaxStreamWrites; ++writes) {
    for (int reads = 1; reads <= kMaxStreamReads; ++reads) {
      const double d = std::abs(std::log(read_bytes / write_bytes * writes / reads));
      if (d < distance - 1e-9) distance = d, best = {reads, writes};
    }
  }
  return best;
}

int64_t beyond_cache_bytes() {
  const Machine machine = this_machine();
  int64_t cached = 0;
  for (const Cache& c : machine.caches) cached = std::max(cached, c.bytes * c.instances);
  int64_t memory = machine.memory_available_bytes;
  if (machine.memory_limit_bytes > 0) memory = std::min(memory, machine.memory_limit_bytes);
  const int64_t limit = std::max(64 * kMiB, memory / 4);
  return std::min(std::clamp(4 * cached, 256 * kMiB, 4096 * kMiB), limit);
}

double measure_gemm_gflops(double seconds) { return best_gemm_gflops(num_threads(), seconds); }

double measure_read_gb_per_s(double seconds) {
  const StreamPeer peer({kMaxStreamReads, 0}, beyond_cache_bytes());
  const double best = best_seconds(seconds, [&] { peer.run(); });
  return peer.bytes() / best / 1e9;
}

Ceilings measure_ceilings(double seconds) {
  constexpr StreamMix kMixes[] = {{1, 0}, {4, 0}, {1, 1}, {2, 1}, {3, 1}, {4, 3}, {0, 1}};
  const double share = seconds / static_cast<double>(std::size(kMixes) + 3);
  const int threads = num_threads();
  Ceilings c;
  c.load_average = load_average();
  c.gemm_gflops = best_gemm_gflops(threads, 2 * share);
  c.gemm_gflops_per_thread = threads == 1 ? c.gemm_gflops : best_gemm_gflops(1, share);
  const int64_t bytes = beyond_cache_bytes();
  for (const StreamMix& mix : kMixes) {
    const StreamPeer peer(mix, bytes);
    const double s = best_seconds(share, [&] { peer.run(); });
    c.streams.push_back({mix, peer.bytes() / s / 1e9});
  }
  trim_memory();
  return c;
}

}  // namespace tephra
