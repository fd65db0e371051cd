// SPDX-License-Identifier: Apache-2.0
// Packing whole examples into contexts by best fit, longest first: nothing is cut, and little room
// is left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tephra {

// Indices of the examples of each context, in the order they were put there. Lengths are at most
// `context`. Equal lengths keep their order, of equally full contexts the first one is taken.
std::vector<std::vector<int64_t>> pack_best_fit(std::span<const int64_t> lengths, int64_t context);

}  // namespace tephra
