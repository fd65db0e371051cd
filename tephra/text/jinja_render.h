// SPDX-License-Identifier: Apache-2.0
// Runs a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tephra/text/jinja_ast.h"
#include "tephra/text/jinja_runtime.h"

namespace tephra::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

struct Output {
  std::string text;
  // Bytes [first, last) that {% generation %} blocks wrote straight into the text.
  std::vector<std::pair<size_t, size_t>> generation;
};

struct RunOptions {
  Limits limits;
  Clock clock;
};

// A Failure's text begins with its line: "line 3: ...".
Output run_template(const Block& body, Variables variables, const RunOptions& options);

}  // namespace tephra::jinja
