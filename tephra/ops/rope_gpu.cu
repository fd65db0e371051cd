// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rotary_table_gpu.h"

namespace tephra::kernel {
namespace {

template <class T>
struct RopeColumns {
  gpu::Rows<const T> x;
  const float* table;
  int64_t head_dim, rotary_dim, first;
  bool interleaved, inverse;
  gpu::Rows<T> y;
  bool accumulate;

  // W columns turn alike and their partners lie as they do, unless they are interleaved.
  bool wide() const {
    const int64_t cols = head_dim | rotary_dim / 2 | first;
    return !interleaved && rotary_dim % 2 == 0 && gpu::are_wide(cols, x, table, y);
  }

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const int64_t at = c % head_dim - first, half = rotary_dim / 2;
    auto value = gpu::load<W>(x[r] + c);
    if (at >= 0 && at < rotary_dim) {
      const int64_t pair = interleaved ? at / 2 : at % half;
      const bool second = interleaved ? at % 2 == 1 : at >= half;
      const int64_t away = interleaved ? 1 : half;
      const auto partner = gpu::load<W>(x[r] + (second ? c - away : c + away));
      const auto cosine = gpu::load<W>(table + r * rotary_dim + pair);
      const auto sine = gpu::load<W>(table + r * rotary_dim + half + pair);
      const float sign = second == inverse ? -1.0f : 1.0f;
#pragma unroll
      for (int i = 0; i < W; ++i) value[i] = value[i] * cosine[i] + partner[i] * (sine[i] * sign);
    }
    gpu::write(y[r] + c, value, accumulate);
  }
};

}  // namespace

void Rope::on_gpu(gpu::Stream& stream) const {
  const Tensor table = gpu::rotary_table(stream, position_N, form);
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const RopeColumns<T> f{gpu::rows_of<const T>(x),
                           table.data<float>(),
                           form.head_dim,
                           form.rotary_dim,
                           form.first,
                           form.interleaved,
                           inverse,
                           gpu::rows_of<T>(y.grad),
                           y.accumulate};
    gpu::for_each_wide(stream, x.rows(), x.cols(), f.wide(), f);
  });
}

}  // namespace tephra::kernel
