// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/schema_words.h"

#include <algorithm>
#include <array>

#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr std::array<std::string_view, 13> kAnnotations = {
    "title", "description", "default",    "examples", "$schema",   "$id",    "$comment",
    "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "x-order"};

std::string unescaped(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool escaped = part[i] == '~' && i + 1 < part.size();
    name += escaped ? (part[++i] == '0' ? '~' : '/') : part[i];
  }
  return name;
}

const Json* entry(const Json& list, const std::string& name) {
  if (name.empty() || name.size() > 5 || name.find_first_not_of("0123456789") != name.npos) {
    return nullptr;
  }
  const auto index = static_cast<size_t>(std::stoi(name));
  return index < list.array().size() ? &list.array()[index] : nullptr;
}

}  // namespace

bool is_annotation(std::string_view word) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), word) != kAnnotations.end();
}

const Json* referred(const Json& root, std::string_view pointer) {
  if (pointer == "#") return &root;
  if (!pointer.starts_with("#/")) return nullptr;
  const Json* here = &root;
  for (const std::string_view part : split(pointer.substr(2), '/')) {
    const std::string name = unescaped(part);
    if (here->is_object()) {
      here = here->find(name);
    } else {
      here = here->is_array() ? entry(*here, name) : nullptr;
    }
    if (here == nullptr) return nullptr;
  }
  return here;
}

}  // namespace tephra
