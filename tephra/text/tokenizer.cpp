// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/tokenizer.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "tephra/base/parallel.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

const AddedToken* find_added(const std::vector<AddedToken>& added, int64_t id) {
  const auto at = std::lower_bound(added.begin(), added.end(), id,
                                   [](const AddedToken& t, int64_t key) { return t.id < key; });
  return at != added.end() && at->id == id ? &*at : nullptr;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, AddSpecial special) const {
  std::vector<int32_t> ids;
  Encoder(*this).encode(text, ids, special);
  return ids;
}

bool Tokenizer::has(int64_t id) const {
  return model_.tokens().has(id) || find_added(added_, id) != nullptr;
}

std::string Tokenizer::token(int32_t id) const {
  if (const AddedToken* added = find_added(added_, id)) return added->content;
  return model_.tokens().has(id) ? std::string(model_.tokens()[id]) : std::string();
}

std::string Tokenizer::bytes(int32_t id) const {
  if (const AddedToken* added = find_added(added_, id)) return added->content;
  return has(id) ? decoder_.bytes(token(id)) : std::string();
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  for (const AddedToken& added : added_) {
    if (added.content == token) return added.id;
  }
  const int32_t id = model_.tokens().find(token);
  return id == TokenTable::kNone ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* added = find_added(added_, id);
  return added != nullptr && added->special;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    if (!has(id) || (!options.keep_special && is_special(id))) continue;
    tokens.push_back(token(id));
  }
  return decoder_(std::move(tokens));
}

void Encoder::encode(std::string_view text, std::vector<int32_t>& ids, AddSpecial special) {
  const PostProcessor& post = tokenizer_.post_;
  if (special != AddSpecial::none) ids.insert(ids.end(), post.before.begin(), post.before.end());
  std::string repaired;
  if (find_invalid_utf8(text) != text.npos) {
    repaired = lossy_utf8(text);
    text = repaired;
  }
  bool first = true;
  tokenizer_.raw_added_.split(
      text,
      [&](std::string_view plain) {
        encode_raw(plain, first, ids);
        first = false;
      },
      [&](int32_t id) {
        ids.push_back(id);
        first = false;
      });
  if (special == AddSpecial::all) ids.insert(ids.end(), post.after.begin(), post.after.end());
}

void Encoder::encode_raw(std::string_view text, bool first, std::vector<int32_t>& ids) {
  text = tokenizer_.normalizer_(text, normalizer_);
  if (tokenizer_.normalized_added_.empty()) return encode_normalized(text, first, ids);
  tokenizer_.normalized_added_.split(
      text,
      [&](std::string_view plain) {
        encode_normalized(plain, first, ids);
        first = false;
      },
      [&](int32_t id) {
        ids.push_back(id);
        first = false;
      });
}

void Encoder::encode_normalized(std::string_view text, bool first, std::vector<int32_t>& ids) {
  tokenizer_.pre_.split(
      text, first, [&](std::string_view piece) { tokenizer_.model_.encode(piece, bpe_, ids); });
}

std::vector<std::vector<int32_t>> encode_batch(const Tokenizer& tokenizer,
                                               std::span<const std::string_view> texts,
                                               AddSpecial special) {
  constexpr int64_t kGrain = 32;
  std::vector<std::vector<int32_t>> result(texts.size());
  std::mutex mutex;
  std::vector<std::unique_ptr<Encoder>> idle;  // their caches are worth keeping
  parallel_for(static_cast<int64_t>(texts.size()), kGrain, [&](int64_t begin, int64_t end) {
    std::unique_ptr<Encoder> encoder;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        encoder = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!encoder) encoder = std::make_unique<Encoder>(tokenizer);
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      encoder->encode(texts[at], result[at], special);
    }
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(encoder));
  });
  return result;
}

// Decoders look at neighbours (a prefix space, rows of bytes), so the new text is the difference
// between decoding with and without the held ids, both after the ones told last. A U+FFFD at the
// end may be half a character. Where a row of bytes that was told as text turns out to be broken,
// decoding no longer begins with that text; then the held ids are decoded alone.
std::string StreamDecoder::add(int32_t id) {
  ids_.push_back(id);
  const std::span<const int32_t> all(ids_);
  const std::string before = tokenizer_.decode(all.first(told_), options_);
  const std::string now = tokenizer_.decode(all, options_);
  if (now.size() <= before.size() || now.ends_with("\xef\xbf\xbd")) return {};
  std::string text = now.starts_with(before) ? now.substr(before.size())
                                             : tokenizer_.decode(all.subspan(told_), options_);
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(told_));
  told_ = ids_.size();
  return text;
}

std::string StreamDecoder::finish() {
  const std::span<const int32_t> all(ids_);
  const std::string before = tokenizer_.decode(all.first(told_), options_);
  const std::string now = tokenizer_.decode(all, options_);
  std::string text = now.starts_with(before) ? now.substr(before.size())
                                             : tokenizer_.decode(all.subspan(told_), options_);
  ids_.clear();
  told_ = 0;
  return text;
}

}  // namespace tephra
