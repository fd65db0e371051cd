// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of backtracking within one match
constexpr size_t kJitStackBytes = size_t{1} << 20;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};

// PCRE2's \s also holds U+180E, which lost the property in Unicode 6.3.
constexpr std::string_view kWhiteSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

std::string translated(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (in_class && pattern.substr(i, 2) == "[:") {  // [:alpha:]: its ']' does not end the class
      const size_t end = std::min(pattern.find(":]", i + 2), pattern.size() - 2) + 2;
      out += pattern.substr(i, end - i);
      i = end - 1;
      continue;
    }
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char next = pattern[++i];
    if (next == 's') {
      out += in_class ? std::string(kWhiteSpace) : format("[{}]", kWhiteSpace);
    } else if (next == 'S' && !in_class) {
      out += format("[^{}]", kWhiteSpace);
    } else {
      out += c;
      out += next;
    }
  }
  return out;
}

std::string message_of_code(int code) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(code, buffer, sizeof buffer);
  return length < 0 ? format("PCRE2 error {}", code) : reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code;
  bool jit = false;
};

Regex::Regex(std::string_view pattern, const std::string& where)
    : compiled_(std::make_unique<Compiled>()), pattern_(pattern), where_(where) {
  const std::string text = translated(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  require_data(compiled_->code != nullptr, "{}: expected a regular expression, got '{}': {}", where,
               clipped(pattern, 120), message_of_code(error));
  compiled_->jit = pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::each_match(std::string_view text,
                       FunctionRef<void(size_t begin, size_t end)> found) const {
  const pcre2_code* code = compiled_->code.get();
  const std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> match(
      pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  const std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack(
      compiled_->jit ? pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr) : nullptr);
  if (!match || !context) throw Error(Fault::device, "out of memory while matching a pattern");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());

  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
  uint32_t options = PCRE2_NO_UTF_CHECK;
  for (size_t at = 0; at <= text.size();) {
    const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                   options, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      throw Error(Fault::data,
                  format("{}: the pattern '{}' cannot be matched at byte {} of the text: {}",
                         where_, clipped(pattern_, 120), at, message_of_code(result)),
                  "the pattern backtracks too much on this text; write it without nested repeats");
    }
    require_data(range[0] <= range[1] && range[0] >= at,
                 "{}: the pattern '{}' matches backwards (\\K); that is not supported", where_,
                 clipped(pattern_, 120));
    found(range[0], range[1]);
    at = range[1];
    if (range[0] != range[1]) continue;
    if (at == text.size()) return;  // after an empty match the search goes on one character later
    at += first_code_point(text.data() + at).bytes;
  }
}

}  // namespace tephra
