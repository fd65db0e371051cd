// SPDX-License-Identifier: Apache-2.0
// Cosines and sines of rotary positions on the CPU, computed once per process and shared by all
// layers and calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tephra/device/memory.h"

namespace tephra::cpu {

// Acc is float or double. In float the frequencies and the angles are rounded to float, as the
// published float32 implementations do; in double nothing is.
template <class Acc>
class RotaryTable {
 public:
  // A table for these frequencies that covers positions [0, positions) up to a bound; beyond it
  // rows are computed when they are asked for.
  static std::shared_ptr<const RotaryTable> covering(int64_t positions, int64_t rotary_dim,
                                                     double theta);

  // rotary_dim / 2 cosines, then as many sines. `scratch` has room for rotary_dim.
  const Acc* row(int64_t position, Acc* scratch) const;

 private:
  RotaryTable(int64_t positions, int64_t rotary_dim, double theta);
  void compute(int64_t position, Acc* out) const;

  int64_t positions_;
  std::vector<Acc> frequencies_;
  std::shared_ptr<Storage> rows_;
};

extern template class RotaryTable<float>;
extern template class RotaryTable<double>;

}  // namespace tephra::cpu
