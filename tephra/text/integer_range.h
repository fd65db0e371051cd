// SPDX-License-Identifier: Apache-2.0
// The integers of a range, written in decimal.
#pragma once

#include <cstdint>

#include "tephra/text/byte_grammar.h"

namespace tephra {

// The bounds leave something, and the opposite of each is an int64_t, too.
ByteGrammar::Place integer_range(ByteGrammar& g, int64_t least, int64_t most,
                                 ByteGrammar::Place next);

}  // namespace tephra
