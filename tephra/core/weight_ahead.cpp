// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/weight_ahead.h"

#include <array>

#include "tephra/base/read_ahead.h"

namespace tephra {
namespace {

constexpr int64_t kFewRows = 4;

std::span<const std::byte> bytes_of(const Weight& weight) {
  const Tensor& tensor = weight.is_packed() ? weight.packed().blocks() : weight.tensor();
  if (tensor.device().kind != Device::Kind::cpu) return {};
  return {static_cast<const std::byte*>(tensor.raw()), static_cast<size_t>(weight.bytes())};
}

}  // namespace

void read_ahead(int64_t rows, std::initializer_list<std::span<const Weight>> weights) {
  if (rows > kFewRows) return;
  std::array<std::span<const std::byte>, kMostAhead> ranges;
  size_t count = 0;
  for (const std::span<const Weight> some : weights) {
    for (const Weight& weight : some) {
      if (count == ranges.size()) break;
      if (weight.defined()) ranges[count++] = bytes_of(weight);
    }
  }
  read_ahead(std::span<const std::span<const std::byte>>(ranges.data(), count));
}

}  // namespace tephra
