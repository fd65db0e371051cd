// SPDX-License-Identifier: Apache-2.0
// For the specs of the ops along the token axis: packings worth testing, and the plain way to read
// a segment.
#pragma once

#include <string>
#include <vector>

#include "tephra/core/segments.h"

namespace tephra {

struct Packing {
  std::string name;
  std::vector<int64_t> lengths;
};

// Every kind of batch these ops meet.
inline std::vector<Packing> packings() {
  return {{"one document", {13}},
          {"documents shorter than the taps", {1, 2, 1, 3, 1}},
          {"empty segments between others", {0, 9, 0, 0, 4, 0}},
          {"a long and some short documents", {150, 1, 5, 40}},
          {"a batch of single decode steps", std::vector<int64_t>(7, 1)},
          {"no tokens", {0, 0}}};
}

inline int64_t total(const Packing& packing) {
  int64_t tokens = 0;
  for (int64_t length : packing.lengths) tokens += length;
  return tokens;
}

// Element c of the row at `position` of a segment: a token, or a row of the state [count, P, C]
// just before it; zero where there is none.
inline double element(const Segments& segments, const Tensor& rows, const Tensor& state,
                      int64_t segment, int64_t position, int64_t c) {
  const int32_t* bounds = segments.bounds.data<int32_t>();
  if (position >= 0) return rows.at((bounds[segment] + position) * rows.cols() + c);
  const int64_t kept = state ? state.dim(1) : 0;
  if (kept + position < 0) return 0;
  return state.at((segment * kept + kept + position) * rows.cols() + c);
}

inline int64_t length_of(const Segments& segments, int64_t segment) {
  const int32_t* bounds = segments.bounds.data<int32_t>();
  return bounds[segment + 1] - bounds[segment];
}

}  // namespace tephra
