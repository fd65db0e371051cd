// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rotary_table_gpu.h"

#include <bit>
#include <map>
#include <mutex>
#include <tuple>

namespace tephra::gpu {

Tensor kept_rotary_table(Stream& stream, int64_t positions, const RopeForm& form) {
  static std::mutex mutex;
  // Never destroyed: the device may be gone by then.
  static auto* const tables = new std::map<std::tuple<int, int64_t, double>, Tensor>;

  const std::lock_guard lock(mutex);
  Tensor& table = (*tables)[{stream.device().index, form.rotary_dim, form.theta}];
  if (form.rotary_dim == 0 || (table && table.rows() >= positions)) return table;
  const auto rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positions)));
  const int64_t half = form.rotary_dim / 2;
  table = Tensor({rows, form.rotary_dim}, DType::f32, stream.device(), Purpose::workspace);
  for_each(stream, blocks_for(rows, kRotaryRows), half,
           RotaryRows{nullptr, rows, half, form.theta, table.data<float>()});
  return table;
}

}  // namespace tephra::gpu
