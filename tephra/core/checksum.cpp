// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/checksum.h"

#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

int64_t words_of(const Tensor& x) { return x.numel() * size_of(x.dtype()) / 2; }

}  // namespace

void kernel::Checksum::on_cpu() const {
  const auto* words = static_cast<const uint16_t*>(x.raw());
  const int64_t count = words_of(x), each = ceil_div(count, kParts);
  parallel_for(kParts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      uint64_t sum = 0;
      for (int64_t i = p * each; i < std::min(count, (p + 1) * each); ++i) {
        sum += mixed_word(static_cast<uint64_t>(i), words[i]);
      }
      parts.data<int64_t>()[p] = static_cast<int64_t>(sum);
    }
  });
}

uint64_t checksum(const Tensor& x) {
  require(x.numel() * size_of(x.dtype()) % 2 == 0 && (x.rows() <= 1 || x.row_stride() == x.cols()),
          "checksum: expected a dense tensor of an even number of bytes, got {} {}", x.dtype(),
          x.shape());
  Tensor parts({kernel::Checksum::kParts}, DType::i64, x.device(), Purpose::workspace);
  launch(x.device(), "checksum", kernel::Checksum{x, parts});
  const Tensor read = to_device(parts, kCpu);
  uint64_t sum = 0;
  for (int64_t i = 0; i < read.numel(); ++i) {
    sum += static_cast<uint64_t>(read.data<int64_t>()[i]);
  }
  return sum;
}

}  // namespace tephra
