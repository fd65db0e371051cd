// SPDX-License-Identifier: Apache-2.0
// What this machine can reach at best, measured and not read from a datasheet: the matrix library
// called directly, and plain streams over memory. A speed is stated as a share of the peer that
// does the same amount of the same kind of work.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tephra {

class Storage;

// C[m, n] = op(A) op(B) in float, `count` times on different matrices.
struct GemmShape {
  int64_t m, n, k;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t count = 1;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(count);
  }
};

// oneDNN's own sgemm, one product after the other, its rows or columns shared out to the threads.
class GemmPeer {
 public:
  explicit GemmPeer(std::vector<GemmShape> shapes);

  double flops() const;
  void run(int threads) const;

 private:
  void run_one(const GemmShape& shape, int64_t index, int threads) const;

  std::vector<GemmShape> shapes_;
  int64_t a_stride_ = 0, b_stride_ = 0, c_stride_ = 0;  // floats between two matrices
  std::shared_ptr<Storage> a_, b_, c_;
};

// So many arrays read and so many written side by side, element by element.
struct StreamMix {
  int reads = 1;
  int writes = 1;

  bool operator==(const StreamMix&) const = default;
};
inline constexpr int kMaxStreamReads = 4;
inline constexpr int kMaxStreamWrites = 3;

// The mix nearest to this ratio.
StreamMix nearest_mix(double read_bytes, double write_bytes);

// Streams with ordinary stores on all threads. Bytes are those asked for: what the cache fetches
// before a store is not counted, here or in any op.
class StreamPeer {
 public:
  StreamPeer(StreamMix mix, int64_t bytes);

  double bytes() const;
  void run() const;

 private:
  StreamMix mix_;
  int64_t elements_;  // of each stream
  std::shared_ptr<Storage> block_;
};

struct StreamCeiling {
  StreamMix mix;
  double gb_per_s;
};

struct Ceilings {
  double gemm_gflops = 0;             // all threads
  double gemm_gflops_per_thread = 0;  // one thread, the others idle
  std::vector<StreamCeiling> streams;
  double load_average = 0;  // when it was measured: on a busy machine these are no ceilings
};

// The best of several passes of each kind, `seconds` in all, roughly.
Ceilings measure_ceilings(double seconds);
// One of its figures alone: all threads multiplying, or reading kMaxStreamReads streams each.
double measure_gemm_gflops(double seconds);
double measure_read_gb_per_s(double seconds);

// Bytes that no cache of this machine holds: what a memory stream must cover.
int64_t beyond_cache_bytes();

// The instruction set that our own kernels run with, as Highway names it.
const char* simd_target();

}  // namespace tephra
