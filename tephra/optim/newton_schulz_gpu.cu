// SPDX-License-Identifier: Apache-2.0
// Newton-Schulz by whole products of the batch: with A the smaller square, X <- a X + X B or
// a X + B X for B = b A + c A^2, where the sums are the products' own (beta). The portable form
// does not use symmetry.
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/optim/newton_schulz.h"

namespace tephra::kernel {
namespace {

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
    multiply({side_, side_, inner, x.raw(), cols_, tall, x.raw(), cols_, !tall, gram_.raw(), side_,
              number_, number_, 1, 0, count_, size, size, square});
    gpu::Gemm squared{side_,       side_,  side_,    gram_.raw(), side_,   false,   gram_.raw(),
                      side_,       false,  b_.raw(), side_,       number_, number_, float(o_.c),
                      float(o_.b), count_, square,   square,      square};
    squared.addend = gram_.raw();
    multiply(squared);
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

 private:
  void multiply(const gpu::Gemm& g) const { gpu::gemm(stream_, g); }

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
