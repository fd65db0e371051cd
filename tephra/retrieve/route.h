// SPDX-License-Identifier: Apache-2.0
// Whether a question is about a few places of a corpus or about all of it, from its words alone.
#pragma once

#include <string_view>

namespace tephra {

enum class QueryRoute {
  automatic,
  local,     // "Where is the football?"
  global,    // "Summarise the main themes."
  counting,  // "What are the ten most common words?": a question about counts of words
};

QueryRoute route_of(std::string_view question);
const char* route_name(QueryRoute route);

}  // namespace tephra
