// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/text_step.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

void unsupported_step(const Fields& step, std::string_view kind) {
  throw Error(Fault::data, format("{}: the {} '{}' is not supported", step.where(), kind,
                                  clipped(step.string("type"), 40)));
}

TextPattern::TextPattern(const Fields& step) {
  const Fields pattern = step.object("pattern");
  const bool regex = pattern.has("Regex");
  require_data(regex || pattern.has("String"), "{}: pattern: expected String or Regex, got neither",
               step.where());
  text_ = pattern.string(regex ? "Regex" : "String");
  if (regex) regex_.emplace(text_, step.where());
}

void TextPattern::each_match(std::string_view text,
                             FunctionRef<void(size_t begin, size_t end)> found) const {
  if (regex_) {
    regex_->each_match(text, found);
  } else if (!text_.empty()) {
    for (size_t at = 0; (at = text.find(text_, at)) != text.npos; at += text_.size()) {
      found(at, at + text_.size());
    }
  }
}

void require_short(std::string_view made, size_t limit) {
  require_data(made.size() <= limit,
               "tokenizer.json: its Replace steps make more than {} bytes of a text", limit);
}

void replace_matches(std::string_view text, const TextPattern& pattern, std::string_view content,
                     std::string& out, size_t limit) {
  out.clear();
  size_t copied = 0;
  pattern.each_match(text, [&](size_t begin, size_t end) {
    out += text.substr(copied, begin - copied);
    out += content;
    require_short(out, limit);
    copied = end;
  });
  out += text.substr(copied);
}

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0; (at = text.find(from)) != text.npos; text.remove_prefix(at + from.size())) {
    out += text.substr(0, at);
    out += to;
  }
  out += text;
  return out;
}

std::vector<Fields> sequence_of(const Fields& step, std::string_view key) {
  std::vector<Fields> steps;
  size_t i = 0;
  for (const Json& item : step.array(key)) {
    steps.emplace_back(item, format("{}.{}[{}]", step.where(), key, i++));
  }
  return steps;
}

}  // namespace tephra
