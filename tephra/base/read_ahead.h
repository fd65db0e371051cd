// SPDX-License-Identifier: Apache-2.0
// Memory that the pool's threads will read soon. A thread with nothing to do fetches what is its
// own of it into its cache, so that memory is not idle while one thread computes something small
// alone, nor while the caller of a parallel_for waits for the last worker. It changes no result,
// and costs next to nothing where nobody is idle.
#pragma once

#include <cstddef>
#include <span>

namespace tephra {

inline constexpr size_t kMostAhead = 8;

// In the order in which they will be read, at most kMostAhead of each; what was asked for before is
// forgotten. `own` is what the caller will read alone, `shared` what a parallel_for will, each
// thread its part. The bytes are never read through these spans, so they may end at any time.
void read_ahead(std::span<const std::span<const std::byte>> own,
                std::span<const std::span<const std::byte>> shared);

}  // namespace tephra
