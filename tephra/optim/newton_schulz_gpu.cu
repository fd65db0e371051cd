// SPDX-License-Identifier: Apache-2.0
// Newton-Schulz by products of the whole batch: with A the smaller square, X <- a X + X B or
// a X + B X for B = b A + c A^2, where the sums are the products' own (beta). A and B are
// symmetric: of large ones only tiles from the diagonal on are multiplied by a kernel for it, or
// stripes by the library, and the rest is mirrored.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/device/gpu/symmetric_gemm.h"
#include "tephra/optim/newton_schulz.h"

namespace tephra::kernel {
namespace {

// Rows of a stripe: 4 of a side of 2,048 are ten sixteenths of the work.
constexpr int64_t kStripe = 512;
constexpr int kMirrorTile = 64;

// The tile at (y, x) of matrix z, where it lies below the diagonal's blocks, becomes the transposed
// tile at (x, y). Bits are bits.
template <class Bits>
__global__ void mirror_tiles(Bits* c, int64_t side) {
  constexpr int kWide = gpu::kWide, kUnits = kMirrorTile / kWide;
  constexpr unsigned kEach = kStripe / kMirrorTile;
  if (blockIdx.y / kEach <= blockIdx.x / kEach) return;
  __shared__ Bits tile[kMirrorTile][kMirrorTile + 2];
  Bits* matrix = c + blockIdx.z * side * side;
  const int64_t row = int64_t{blockIdx.y} * kMirrorTile, column = int64_t{blockIdx.x} * kMirrorTile;
  for (int i = static_cast<int>(threadIdx.x); i < kMirrorTile * kUnits; i += gpu::kThreads) {
    const int line = i / kUnits, first = i % kUnits * kWide;
    const auto v = gpu::load_packed<kWide>(matrix + (column + line) * side + row + first);
#pragma unroll
    for (int k = 0; k < kWide; ++k) tile[first + k][line] = v[k];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kMirrorTile * kUnits; i += gpu::kThreads) {
    const int line = i / kUnits, first = i % kUnits * kWide;
    gpu::store_packed(matrix + (row + line) * side + column + first,
                      gpu::Packed<kWide, Bits>::of([&](int k) { return tile[line][first + k]; }));
  }
}

class GpuIteration {
 public:
  GpuIteration(gpu::Stream& stream, const NewtonSchulzOptions& options, const Tensor& x)
      : stream_(stream),
        o_(options),
        count_(x.dim(0)),
        rows_(x.dim(1)),
        cols_(x.dim(2)),
        side_(std::min(rows_, cols_)),
        number_(options.bf16 ? gpu::Number::bf16 : gpu::Number::f32),
        dtype_(options.bf16 ? DType::bf16 : DType::f32),
        gram_({count_, side_, side_}, dtype_, x.device(), Purpose::workspace),
        b_({count_, side_, side_}, dtype_, x.device(), Purpose::workspace) {}

  DType dtype() const { return dtype_; }

  // y <- one step from x.
  void step(const Tensor& x, const Tensor& y) const {
    const bool tall = rows_ >= cols_;
    const int64_t size = rows_ * cols_, square = side_ * side_, inner = tall ? rows_ : cols_;
    // A = X^T X, or X X^T
    if (!multiply_tiles({count_, side_, inner, x.raw(), tall, gram_.raw()})) {
      multiply_stripes({side_, side_, inner, x.raw(), cols_, tall, x.raw(), cols_, !tall,
                        gram_.raw(), side_, number_, number_, 1, 0, count_, size, size, square});
    }
    if (!multiply_tiles(
            {count_, side_, side_, gram_.raw(), false, b_.raw(), float(o_.c), float(o_.b)})) {
      multiply_squared();
    }
    multiply_next(x, y);
  }

 private:
  // B = b A + c A^2
  void multiply_squared() const {
    const int64_t square = side_ * side_;
    gpu::Gemm squared{side_,       side_,  side_,    gram_.raw(), side_,   false,   gram_.raw(),
                      side_,       false,  b_.raw(), side_,       number_, number_, float(o_.c),
                      float(o_.b), count_, square,   square,      square};
    squared.addend = gram_.raw();
    multiply_stripes(squared);
  }

  // y <- a x + x B, or a x + B x
  void multiply_next(const Tensor& x, const Tensor& y) const {
    const bool tall = rows_ >= cols_;
    const int64_t size = rows_ * cols_, square = side_ * side_;
    gpu::Gemm next{rows_, cols_, side_};
    next.a = tall ? x.raw() : b_.raw();
    next.lda = tall ? cols_ : side_;
    next.a_step = tall ? size : square;
    next.b = tall ? b_.raw() : x.raw();
    next.ldb = tall ? side_ : cols_;
    next.b_step = tall ? square : size;
    next.c = y.raw();
    next.ldc = cols_;
    next.c_step = size;
    next.in = next.out = number_;
    next.beta = float(o_.a);
    next.addend = x.raw();
    next.batch = count_;
    multiply(next);
  }

  void multiply(const gpu::Gemm& g) const { gpu::gemm(stream_, g); }

  // The fast path; false when it does not take this.
  bool multiply_tiles(const gpu::SymmetricGemm& g) const {
    if constexpr (gpu::kHasFastPaths) {
      return dtype_ == DType::bf16 && !gpu::only_portable() &&
             gpu::symmetric_gemm_hopper(stream_, g);
    }
    return false;
  }

  // C is symmetric, square and dense.
  void multiply_stripes(const gpu::Gemm& g) const {
    if (side_ <= kStripe || side_ % kStripe != 0) return multiply(g);
    const int64_t bytes = size_of(dtype_);
    const auto shifted = [&](const void* data, int64_t elements) -> const void* {
      return data ? static_cast<const char*>(data) + elements * bytes : nullptr;
    };
    for (int64_t at = 0; at < side_; at += kStripe) {
      gpu::Gemm stripe = g;
      stripe.m = kStripe;
      stripe.n = side_ - at;
      stripe.a = shifted(g.a, g.transpose_a ? at : at * g.lda);
      stripe.b = shifted(g.b, g.transpose_b ? at * g.ldb : at);
      stripe.c = const_cast<void*>(shifted(g.c, at * (g.ldc + 1)));
      stripe.addend = shifted(g.addend, at * (g.ldc + 1));
      multiply(stripe);
    }
    const gpu::Grid tiles{.blocks = side_ / kMirrorTile,
                          .blocks_y = side_ / kMirrorTile,
                          .blocks_z = count_,
                          .threads = gpu::kThreads};
    if (bytes == 2) {
      stream_.launch(mirror_tiles<uint16_t>, tiles, static_cast<uint16_t*>(g.c), side_);
    } else {
      stream_.launch(mirror_tiles<uint32_t>, tiles, static_cast<uint32_t*>(g.c), side_);
    }
  }

  gpu::Stream& stream_;
  const NewtonSchulzOptions& o_;
  int64_t count_, rows_, cols_, side_;
  gpu::Number number_;
  DType dtype_;
  Tensor gram_, b_;
};

}  // namespace

void NewtonSchulz::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), []<class T>() {});  // refuses f64
  const GpuIteration iteration(stream, options, x);
  Tensor from = x, to = y;
  const bool narrowed = options.bf16 && x.dtype() == DType::f32;
  if (narrowed) {
    from = Tensor(x.shape(), DType::bf16, x.device(), Purpose::workspace);
    to = Tensor(x.shape(), DType::bf16, x.device(), Purpose::workspace);
    copy_into(from, x);
  }
  for (int i = 0; i < options.steps; ++i) {
    iteration.step(from, to);
    std::swap(from, to);
  }
  if (narrowed) copy_into(options.steps % 2 == 0 ? x : y, from);
}

}  // namespace tephra::kernel
