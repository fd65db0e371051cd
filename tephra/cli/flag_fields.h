// SPDX-License-Identifier: Apache-2.0
// Settings that a struct describes for config files, as flags of a command: the key `least_chars`
// becomes --least-chars, with the same meaning, default and limits.
#pragma once

#include <string>
#include <string_view>

#include "tephra/base/config.h"
#include "tephra/cli/command.h"

namespace tephra {

class FlagFields {
 public:
  explicit FlagFields(Flags& flags) : flags_(flags) {}

  template <class T>
  void read(std::string_view key, T& value, std::string_view doc, const ConfigLimits& limits = {}) {
    limit(flags_.add(name_of(key, limits), value, doc_of(value, doc)), limits);
  }

 private:
  static std::string name_of(std::string_view key, const ConfigLimits& limits);
  static void limit(Flag flag, const ConfigLimits& limits);
  template <class T>
  static std::string doc_of(const T&, std::string_view doc) {
    return std::string(doc);
  }
  static std::string doc_of(const std::vector<std::string>&, std::string_view doc) {
    return std::string(doc) + "; may be repeated";
  }

  Flags& flags_;
};

}  // namespace tephra
