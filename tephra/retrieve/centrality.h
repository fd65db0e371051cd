// SPDX-License-Identifier: Apache-2.0
// How central each chunk is to the whole corpus: PageRank over plain similarities, for questions
// about all of it.
#pragma once

#include <vector>

#include "tephra/retrieve/index.h"

namespace tephra {

// [C], sums to 1. The graph is never built: with unit rows X the similarities are W = X X' - 1, so
// an iteration is two passes over the pairs.
std::vector<float> centrality(const Index& index);

}  // namespace tephra
