// SPDX-License-Identifier: Apache-2.0
// Times for ranks that are threads of a test.
#pragma once

#include "tephra/data/corpus/ranks.h"

namespace tephra {

inline constexpr RankTimes kQuickRanks{.beat = std::chrono::milliseconds(100),
                                       .look = std::chrono::milliseconds(1),
                                       .say = std::chrono::milliseconds(20000),
                                       .gone = std::chrono::milliseconds(20000),
                                       .missing = std::chrono::milliseconds(20000)};

}  // namespace tephra
