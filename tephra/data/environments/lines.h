// SPDX-License-Identifier: Apache-2.0
// Reasoning, line by line.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/format.h"

namespace tephra {

class Lines {
 public:
  template <class... Args>
  void add(FormatString<Args...> text, const Args&... args) {
    if (!text_.empty()) text_ += '\n';
    text_ += tephra::format<Args...>(text, args...);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <class T>
std::string joined(const std::vector<T>& values, std::string_view separator = " ") {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += separator;
    text += format("{}", values[i]);
  }
  return text;
}

}  // namespace tephra
