// SPDX-License-Identifier: Apache-2.0
// Regular expressions as JSON Schema's "pattern" has them (ECMA-262), as a grammar of what stands
// between the quotes of a JSON string. Understood: literals, ".", classes, \d \w \s and their
// opposites, groups, alternatives, * + ? {m,n}, and ^ and $ at the ends. What cannot be written so
// (look-around, back references, \b) is Fault::usage.
#pragma once

#include <string>
#include <string_view>

#include "tephra/text/byte_grammar.h"

namespace tephra {

struct PatternText {
  ByteGrammar::Rule any;     // characters, any number of them, where the pattern is not anchored
  bool escape_less = false;  // < is an escape, too
};
ByteGrammar::Place pattern_grammar(ByteGrammar& g, std::string_view pattern,
                                   const std::string& where, const PatternText& text,
                                   ByteGrammar::Place next);

// The pattern of a "format"; empty when it is not known.
std::string_view pattern_of_format(std::string_view format);

}  // namespace tephra
