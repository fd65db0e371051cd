// SPDX-License-Identifier: Apache-2.0
// What can be asked of a JSON schema without a grammar of it.
#pragma once

#include <string_view>

#include "tephra/base/json.h"

namespace tephra {

// Whether the word says nothing about values: "title", "description", "$defs" and such.
bool is_annotation(std::string_view word);

// The place in `root` that a $ref such as "#/$defs/name" means; null when there is none.
const Json* referred(const Json& root, std::string_view pointer);

}  // namespace tephra
