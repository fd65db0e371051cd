// SPDX-License-Identifier: Apache-2.0
// Memory that the pool's threads will read soon. A thread with nothing to do fetches its own share
// of it into its cache, so that memory is not idle while one thread computes something small alone.
// It changes no result, and costs next to nothing where nobody is idle.
#pragma once

#include <cstddef>
#include <span>

namespace tephra {

inline constexpr size_t kMostAhead = 8;

// In the order in which they will be read, at most kMostAhead; what was asked for before is
// forgotten. The bytes are never read through these spans, so they may end at any time.
void read_ahead(std::span<const std::span<const std::byte>> ranges);

}  // namespace tephra
