// SPDX-License-Identifier: Apache-2.0
// Template text to tree. A Failure's text begins with its line: "line 3: ...".
#pragma once

#include <string_view>

#include "tephra/text/jinja_ast.h"

namespace tephra::jinja {

Block parse_template(std::string_view source);

}  // namespace tephra::jinja
