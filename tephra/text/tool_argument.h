// SPDX-License-Identifier: Apache-2.0
// How an argument stands in a tool call of ZAYA1, between <parameter=x> and </parameter>: for the
// grammar that holds a model to a call (serve/output_form.h) and for the parser that reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

// The tags that end a part of a call; an argument that holds one as it stands could not be read.
const std::vector<std::string>& call_end_tags();

// A parameter of a tool; `root` is what its references are looked up in.
struct ToolParameter {
  const Json& schema;
  const Json& root;
};

struct ArgumentText {
  std::vector<std::string> choices;  // none: any text
};

// In a call that a grammar holds a model to: the text as it is, for strings without limits and for
// schemas that say nothing. Nothing for the others, which are JSON, strings with their quotes.
std::optional<ArgumentText> argument_text(const ToolParameter& parameter);

// The value of an argument in a call that a grammar held a model to.
Json read_held_argument(const ToolParameter& parameter, std::string_view text);

// The value in a call that the model wrote as it liked: the text where the schema has strings
// alone; JSON of a kind that the schema has; else the text.
Json read_argument(const ToolParameter& parameter, std::string_view text);

// Without a schema: what reads as a JSON value other than a string is that value.
Json read_argument(std::string_view text);

}  // namespace tephra
