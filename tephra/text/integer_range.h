// SPDX-License-Identifier: Apache-2.0
// The integers of a range, written in decimal.
#pragma once

#include <optional>

#include "tephra/text/byte_grammar.h"

namespace tephra {

// At least one of the bounds is given, and they leave something.
ByteGrammar::Place integer_range(ByteGrammar& g, std::optional<int64_t> least,
                                 std::optional<int64_t> most, ByteGrammar::Place next);

}  // namespace tephra
