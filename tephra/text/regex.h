// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files, by PCRE2 with JIT. Only regex.cpp includes the library.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tephra/base/function_ref.h"

namespace tephra {

class Regex {
 public:
  // `where` names the source in messages. A pattern that does not compile is Fault::data. The
  // dialect is the one of Oniguruma's Ruby syntax as far as tokenizers use it: \s is White_Space, ^
  // and $ match at lines.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Calls `found` with the byte range of each match from left to right. Valid UTF-8 only. A text on
  // which the pattern backtracks beyond all measure is Fault::data.
  void each_match(std::string_view text, FunctionRef<void(size_t begin, size_t end)> found) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string pattern_;
  std::string where_;
};

}  // namespace tephra
