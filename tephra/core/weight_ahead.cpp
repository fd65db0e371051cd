// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/weight_ahead.h"

#include <array>

#include "tephra/base/read_ahead.h"

namespace tephra {
namespace {

constexpr int64_t kFewRows = 4;

std::span<const std::byte> bytes_of(const Tensor& tensor, int64_t bytes) {
  if (tensor.device().kind != Device::Kind::cpu) return {};
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(bytes)};
}

std::span<const std::byte> bytes_of(const Weight& weight) {
  return bytes_of(weight.is_packed() ? weight.packed().blocks() : weight.tensor(), weight.bytes());
}

}  // namespace

void read_ahead(int64_t rows, std::initializer_list<const Tensor*> own,
                std::initializer_list<std::span<const Weight>> weights) {
  if (rows > kFewRows) return;
  std::array<std::span<const std::byte>, kMostAhead> mine, shared;
  size_t few = 0, count = 0;
  for (const Tensor* tensor : own) {
    if (few < mine.size() && *tensor) mine[few++] = bytes_of(*tensor, tensor->bytes());
  }
  for (const std::span<const Weight> some : weights) {
    for (const Weight& weight : some) {
      if (count < shared.size() && weight.defined()) shared[count++] = bytes_of(weight);
    }
  }
  read_ahead(std::span<const std::span<const std::byte>>(mine).first(few),
             std::span<const std::span<const std::byte>>(shared).first(count));
}

}  // namespace tephra
