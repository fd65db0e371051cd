// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/segments.h"

#include <algorithm>
#include <limits>

namespace tephra {

Segments Segments::packed(std::span<const int64_t> lengths) {
  return continued(lengths, std::vector<int64_t>(lengths.size(), 0));
}

Segments Segments::continued(std::span<const int64_t> lengths, std::span<const int64_t> past) {
  require(lengths.size() == past.size(), "segments: {} lengths but {} past lengths", lengths.size(),
          past.size());
  int64_t tokens = 0;
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < lengths.size(); ++i) {
    require(lengths[i] >= 0, "segments: a length cannot be negative, got {}", lengths[i]);
    require(past[i] >= 0, "segments: a past length cannot be negative, got {}", past[i]);
    require(lengths[i] < kLimit - tokens, "segments: at most {} tokens, got {} and {} more", kLimit,
            tokens, lengths[i]);
    require(past[i] < kLimit - lengths[i], "segments: positions end at {}, got {} and {} more",
            kLimit, past[i], lengths[i]);
    tokens += lengths[i];
  }
  Segments s;
  s.count = static_cast<int64_t>(lengths.size());
  s.start_N = Tensor({tokens}, DType::i32);
  s.end_N = Tensor({tokens}, DType::i32);
  s.position_N = Tensor({tokens}, DType::i32);
  s.sequence_N = Tensor({tokens}, DType::i32);
  s.bounds = Tensor({s.count + 1}, DType::i32);
  int32_t row = 0;
  for (int32_t i = 0; i < s.count; ++i) {
    const int32_t start = row;
    const int32_t end = start + static_cast<int32_t>(lengths[i]);
    s.bounds.data<int32_t>()[i] = start;
    for (; row < end; ++row) {
      s.start_N.data<int32_t>()[row] = start;
      s.end_N.data<int32_t>()[row] = end;
      s.position_N.data<int32_t>()[row] = static_cast<int32_t>(past[i]) + row - start;
      s.sequence_N.data<int32_t>()[row] = i;
    }
  }
  s.bounds.data<int32_t>()[s.count] = row;
  return s;
}

Segments Segments::batch(int64_t sequences, int64_t tokens_each) {
  require(sequences >= 0, "segments: expected 0 or more sequences, got {}", sequences);
  return packed(std::vector<int64_t>(static_cast<size_t>(sequences), tokens_each));
}

Segments Segments::padded(const Tensor& mask) {
  require(mask.ndim() == 2, "segments: a mask is [sequences, tokens], got {}", mask.shape());
  Segments s = batch(mask.dim(0), mask.dim(1));
  s.real_N = Tensor({mask.numel()}, DType::i32);
  for (int64_t i = 0; i < mask.numel(); ++i) {
    s.real_N.set(i, mask.at(i) != 0 ? 1 : 0);
    const bool first = i % mask.dim(1) == 0;
    require(first || s.real_N.at(i) >= s.real_N.at(i - 1),
            "segments: padding must be at the left, but token {} of sequence {} is masked after "
            "one that is not",
            i % mask.dim(1), i / mask.dim(1));
  }
  return s;
}

Segments to_device(const Segments& segments, Device device) {
  Segments s = segments;
  for (Tensor* t : {&s.start_N, &s.end_N, &s.position_N, &s.sequence_N, &s.bounds, &s.real_N}) {
    *t = to_device(*t, device);
  }
  return s;
}

KeyRanges to_device(const KeyRanges& ranges, Device device) {
  KeyRanges r = ranges;
  for (Tensor* t : {&r.first_N, &r.last_N, &r.pages}) *t = to_device(*t, device);
  return r;
}

KeyRanges causal_ranges(const Segments& segments, int64_t window) {
  const Device device = segments.start_N.device();
  if (device.kind != Device::Kind::cpu) {
    return to_device(causal_ranges(to_device(segments, kCpu), window), device);
  }
  const int64_t n = segments.tokens();
  KeyRanges ranges{Tensor({n}, DType::i32), Tensor({n}, DType::i32)};
  const int32_t* start = segments.start_N.data<int32_t>();
  const int32_t* real = segments.real_N ? segments.real_N.data<int32_t>() : nullptr;
  int64_t after_padding = 0;
  for (int32_t i = 0; i < n; ++i) {
    if (real && real[i] == 0) after_padding = i + 1;
    const int64_t oldest = std::max(window > 0 ? i + 1 - window : 0, after_padding);
    ranges.first_N.data<int32_t>()[i] = static_cast<int32_t>(std::max<int64_t>(start[i], oldest));
    ranges.last_N.data<int32_t>()[i] = i + 1;
  }
  return ranges;
}

}  // namespace tephra
