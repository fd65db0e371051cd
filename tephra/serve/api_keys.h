// SPDX-License-Identifier: Apache-2.0
// The keys that a client must show one of: one a line in a file; empty lines and lines that start
// with # do not count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

class ApiKeys {
 public:
  ApiKeys() = default;                    // none: everybody is let in
  static ApiKeys load(const Path& file);  // Fault::data when it holds no key
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool required() const { return !keys_.empty(); }
  // `authorization`: the header's value, "Bearer KEY". Takes as long for a wrong key as for a
  // right one, so that nobody can feel his way.
  bool admits(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace tephra
