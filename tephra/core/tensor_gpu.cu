// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tephra/core/gpu_kernel.h"

namespace tephra::kernel {
namespace {

template <class To, class From>
struct ConvertColumns {
  gpu::Rows<To> to;
  gpu::Rows<const From> from;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::store(to[r] + c, gpu::load<W>(from[r] + c));
  }
};

// Bits are bits: one kernel for each size of element.
template <class Bits>
struct FillElement {
  Bits* data;
  int64_t stride;
  Bits value;

  __device__ void operator()(int64_t r, int64_t c) const { data[r * stride + c] = value; }
};

template <class Bits>
void fill_rows(gpu::Stream& stream, const Tensor& x, const void* pattern) {
  Bits value;
  std::memcpy(&value, pattern, sizeof value);
  gpu::for_each(stream, x.rows(), x.cols(),
                FillElement<Bits>{static_cast<Bits*>(x.raw()), x.row_stride(), value});
}

}  // namespace

void Convert::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(to.dtype(), [&]<class To>() {
    gpu::visit_float(from.dtype(), [&]<class From>() {
      const ConvertColumns<To, From> f{gpu::rows_of<To>(to), gpu::rows_of<const From>(from)};
      gpu::for_each_wide(stream, to.rows(), to.cols(), gpu::are_wide(to.cols(), f.to, f.from), f);
    });
  });
}

void Fill::on_gpu(gpu::Stream& stream) const {
  const Tensor one({1}, x.dtype());
  Fill{one, value}.on_cpu();
  switch (size_of(x.dtype())) {
    case 1:
      return fill_rows<uint8_t>(stream, x, one.raw());
    case 2:
      return fill_rows<uint16_t>(stream, x, one.raw());
    case 4:
      return fill_rows<uint32_t>(stream, x, one.raw());
    default:
      return fill_rows<uint64_t>(stream, x, one.raw());
  }
}

}  // namespace tephra::kernel
