// SPDX-License-Identifier: Apache-2.0
// A number of a tensor's bits, for comparing states that are too large to be kept: the same on
// every device, and fast where the tensor is.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// The sum over the tensor's 16-bit words of a mix of word and place, mod 2^64. Dense tensors of an
// even number of bytes.
uint64_t checksum(const Tensor& x);

namespace kernel {

// Each word by itself, so sums may be taken in any order.
constexpr uint64_t mixed_word(uint64_t place, uint16_t word) {
  uint64_t v = place * 0x9e3779b97f4a7c15u + word;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  v = (v ^ v >> 27) * 0x94d049bb133111ebu;
  return v ^ v >> 31;
}

struct Checksum {
  static constexpr int64_t kParts = 1024;
  const Tensor& x;
  Tensor& parts;  // [kParts], i64

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
