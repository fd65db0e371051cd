// SPDX-License-Identifier: Apache-2.0
#include <numbers>

#include "tephra/core/gpu_kernel.h"
#include "tephra/core/rng.h"

namespace tephra::kernel {
namespace {

template <class T>
struct RandomElement {
  gpu::Rows<T> x;
  int64_t cols;
  RngKey key;
  bool is_normal;
  double shift, scale;

  __device__ double draw(uint64_t index) const {
    const std::array<uint32_t, 4> r = philox(key, index);
    if (!is_normal) return unit_interval(r[0], r[1]);
    const double u = 1.0 - unit_interval(r[0], r[1]);
    return sqrt(-2.0 * log(u)) * cos(2.0 * std::numbers::pi * unit_interval(r[2], r[3]));
  }
  __device__ void operator()(int64_t r, int64_t c) const {
    x[r][c] = T(float(shift + scale * draw(static_cast<uint64_t>(r * cols + c))));
  }
};

}  // namespace

void FillRandom::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, x.rows(), x.cols(),
                  RandomElement<T>{gpu::rows_of<T>(x), x.cols(), key, is_normal, shift, scale});
  });
}

}  // namespace tephra::kernel
