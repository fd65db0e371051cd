// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/added_tokens.h"

#include <algorithm>
#include <tuple>

#include "tephra/base/error.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

// Start of the last character before `at`.
size_t char_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

uint8_t bits_at(std::string_view text, size_t at) {
  return char_bits(first_code_point(text.data() + at).value);
}

bool touches_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && (bits_at(text, char_before(text, begin)) & kWord) != 0) ||
         (end < text.size() && (bits_at(text, end) & kWord) != 0);
}

size_t strip_left(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const size_t before = char_before(text, begin);
    if (before < limit || (bits_at(text, before) & kSpace) == 0) break;
    begin = before;
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size() && (bits_at(text, end) & kSpace) != 0) {
    end += first_code_point(text.data() + end).bytes;
  }
  return end;
}

}  // namespace

AddedToken parse_added_token(const Fields& f) {
  AddedToken token;
  const int64_t id = f.integer("id");
  require_data(id >= 0 && id <= INT32_MAX, "{}: id: expected 0 to {}, got {}", f.where(), INT32_MAX,
               id);
  token.id = static_cast<int32_t>(id);
  token.content = f.string("content");
  require_data(!token.content.empty(), "{}: content: expected text, got nothing", f.where());
  token.special = f.boolean_or("special", false);
  token.single_word = f.boolean_or("single_word", false);
  token.lstrip = f.boolean_or("lstrip", false);
  token.rstrip = f.boolean_or("rstrip", false);
  token.normalized = f.boolean_or("normalized", !token.special);
  return token;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), first_bytes_(256) {
  // Of tokens that read alike, also when only their normal forms do, the special one is found, then
  // the one with the lower id.
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return std::tuple(std::string_view(a.content), !a.special, a.id) <
           std::tuple(std::string_view(b.content), !b.special, b.id);
  });
  const auto alike = [](const AddedToken& a, const AddedToken& b) {
    return a.content == b.content;
  };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), alike), tokens_.end());
  for (const AddedToken& token : tokens_) {
    first_bytes_[static_cast<unsigned char>(token.content[0])] = true;
  }
  if (std::count(first_bytes_.begin(), first_bytes_.end(), true) == 1) {
    only_first_byte_ = static_cast<unsigned char>(tokens_[0].content[0]);
  }
}

size_t AddedTokenFinder::next_candidate(std::string_view text, size_t at) const {
  if (only_first_byte_ >= 0)
    return std::min(text.size(), text.find(static_cast<char>(only_first_byte_), at));
  while (at < text.size() && !first_bytes_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

// Narrows the sorted range by one byte after the other; the last token that is used up wins.
const AddedToken* AddedTokenFinder::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t depth = 0; depth < text.size() && low != high; ++depth) {
    const auto byte = static_cast<unsigned char>(text[depth]);
    const auto byte_of = [depth](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    low = std::lower_bound(low, high, byte,
                           [&](const AddedToken& t, unsigned char b) { return byte_of(t) < b; });
    high = std::upper_bound(low, high, byte,
                            [&](unsigned char b, const AddedToken& t) { return b < byte_of(t); });
    if (low != high && low->content.size() == depth + 1) longest = &*low++;
  }
  return longest;
}

void AddedTokenFinder::split(std::string_view text, FunctionRef<void(std::string_view)> on_text,
                             FunctionRef<void(int32_t)> on_token) const {
  size_t covered = 0;
  for (size_t at = 0; !tokens_.empty() && (at = next_candidate(text, at)) < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word && touches_word(text, begin, end)) continue;
    if (token->lstrip) begin = strip_left(text, begin, covered);
    if (token->rstrip) end = strip_right(text, end);
    if (covered < begin) on_text(text.substr(covered, begin - covered));
    on_token(token->id);
    covered = std::max(covered, end);
  }
  if (covered < text.size()) on_text(text.substr(covered));
}

}  // namespace tephra
