// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/aggregation.h"

#include <algorithm>

#include "tephra/base/format.h"
#include "tephra/base/text.h"

namespace tephra {

std::string aggregation_text(std::string_view problem, std::span<const std::string> tails) {
  std::string text(problem);
  text += format("\nEnds of {} attempts at this, of which some may be wrong or cut off:\n",
                 tails.size());
  for (size_t i = 0; i < tails.size(); ++i) {
    text += format("[{}]\n{}\n", i + 1, trim(tails[i]));
  }
  return text + "Weigh them and write one correct solution.";
}

namespace {

std::string text_of_last(const Tokenizer& tokenizer, std::span<const int32_t> ids, int64_t tokens) {
  const size_t kept = std::min(ids.size(), static_cast<size_t>(std::max<int64_t>(0, tokens)));
  const bool cut = kept < ids.size();
  std::string text = tokenizer.decode(ids.last(kept), {.keep_special = false});
  // A cut within a character leaves bytes that mean nothing by themselves.
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  while (cut && text.starts_with(kReplacement)) text.erase(0, kReplacement.size());
  return text;
}

}  // namespace

std::string tail_text(const Tokenizer& tokenizer, std::span<const int32_t> ids, int64_t tokens) {
  std::string text = text_of_last(tokenizer, ids, tokens);
  // A byte that is no character has become a mark of three, so the text may have more tokens than
  // it came from.
  for (int64_t kept = tokens; kept > 0; --kept) {
    const std::vector<int32_t> again = tokenizer.encode(text);
    if (static_cast<int64_t>(again.size()) <= tokens) break;
    text = text_of_last(tokenizer, again, kept);
  }
  return text;
}

std::string tail_text(const Tokenizer& tokenizer, std::string_view text, int64_t tokens) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  return tail_text(tokenizer, ids, tokens);
}

}  // namespace tephra
