// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

enum class ByteKind : uint8_t { separator, ascii, wide };  // of a word: ascii and most wide ones

constexpr std::array<ByteKind, 256> kKinds = [] {
  std::array<ByteKind, 256> table{};
  for (size_t c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    table[c] = c >= 0x80                          ? ByteKind::wide
               : letter || (c >= '0' && c <= '9') ? ByteKind::ascii
                                                  : ByteKind::separator;
  }
  return table;
}();

ByteKind kind_at(std::string_view text, size_t at) {
  return kKinds[static_cast<unsigned char>(text[at])];
}

uint64_t load_block(const char* from, size_t bytes) {
  uint64_t block = 0;
  std::memcpy(&block, from, bytes);
  return block;
}

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian blocks");

// Chinese and Japanese are written without spaces.
bool stands_alone(uint32_t c) {
  return (c >= 0x2e80 && c <= 0x9fff) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0x20000 && c <= 0x3ffff);
}

constexpr uint64_t kHashMultiplier = 0x9e3779b97f4a7c15;

uint64_t mixed(uint64_t hash, uint64_t block) {
  hash = (hash ^ block) * kHashMultiplier;
  return hash ^ hash >> 29;
}

constexpr std::string_view kStopWords =
    "a about above after again against all also although am among an and any are aren as at be "
    "because been before being below between both but by can cannot could couldn d did didn do "
    "does "
    "doesn doing don down during each either else etc ever every few for from further had hadn has "
    "hasn have haven having he her here hers herself him himself his how however i if in into is "
    "isn "
    "it its itself just let ll m may me might mine more most much must my myself neither no nor "
    "not "
    "now of off on once one only onto or other others our ours ourselves out over own per rather "
    "re "
    "s same shall she should shouldn since so some such t than that the their theirs them "
    "themselves "
    "then there therefore these they this those through thus to too under until up upon us ve very "
    "via was wasn we were weren what when where whether which while who whom whose why will with "
    "within without won would wouldn yet you your yours yourself yourselves";

// Open addressing over the few hundred hashes; empty places are 0, which is no word's hash here.
class StopWords {
 public:
  StopWords() {
    WordReader reader(kStopWords);
    for (Word word; reader.next(word);) {
      size_t at = word.hash % table_.size();
      while (table_[at] != 0) at = (at + 1) % table_.size();
      table_[at] = word.hash;
    }
  }
  bool has(uint64_t hash) const {
    size_t at = hash % table_.size();
    while (table_[at] != 0 && table_[at] != hash) at = (at + 1) % table_.size();
    return table_[at] == hash;
  }

 private:
  std::array<uint64_t, 1024> table_{};
};

}  // namespace

uint64_t word_hash(std::string_view lower) {
  uint64_t hash = lower.size();
  for (; lower.size() > 8; lower.remove_prefix(8)) hash = mixed(hash, load_block(lower.data(), 8));
  return mixed(mixed(hash, load_block(lower.data(), lower.size())), 0);
}

bool WordReader::is_word_at(size_t at) const {
  const ByteKind kind = kind_at(text_, at);
  if (kind != ByteKind::wide) return kind == ByteKind::ascii;
  return (char_bits(first_code_point(text_.data() + at).value) & (kWord | kNumber)) != 0;
}

bool WordReader::next(Word& word) {
  while (at_ < text_.size() && !is_word_at(at_)) {
    at_ += kind_at(text_, at_) == ByteKind::wide ? first_code_point(text_.data() + at_).bytes : 1;
  }
  if (at_ >= text_.size()) return false;

  word.begin = at_;
  word.capital = text_[at_] >= 'A' && text_[at_] <= 'Z';
  while (at_ < text_.size() && kind_at(text_, at_) == ByteKind::ascii) ++at_;
  word.hash = lower_ascii(word.begin, at_);
  size_t size = at_ - word.begin;
  if (at_ < text_.size() && kind_at(text_, at_) == ByteKind::wide) {
    lower_.resize(size);
    take_wide(word);
    size = lower_.size();
    word.hash = word_hash(lower_);
  }
  word.end = at_;
  word.text = std::string_view(lower_).substr(0, size);
  return true;
}

// Copies these letters and digits to lower_, which may be longer, in lower case, and hashes them as
// word_hash does: eight at a time, since one bit makes all of them lower and leaves digits as they
// are.
uint64_t WordReader::lower_ascii(size_t begin, size_t end) {
  constexpr uint64_t kLowerBits = 0x2020202020202020;
  const size_t size = end - begin;
  if (lower_.size() < size + 8) lower_.resize(size + 8);
  uint64_t hash = size;
  for (size_t at = 0; at < size; at += 8) {
    const size_t bytes = std::min<size_t>(8, size - at);
    const char* from = text_.data() + begin + at;
    uint64_t block = begin + at + 8 <= text_.size() ? load_block(from, 8) : load_block(from, bytes);
    block |= kLowerBits;
    if (bytes < 8) block &= (uint64_t{1} << 8 * bytes) - 1;
    std::memcpy(lower_.data() + at, &block, 8);
    hash = mixed(hash, block);
  }
  return mixed(hash, 0);
}

void WordReader::take_wide(Word& word) {
  while (at_ < text_.size() && is_word_at(at_)) {
    const CodePoint c = first_code_point(text_.data() + at_);
    const bool alone = stands_alone(c.value);
    if (alone && at_ > word.begin) return;
    const uint32_t lower = lower_code_point(c.value);
    if (at_ == word.begin) word.capital = lower != c.value;
    append_utf8(lower_, lower);
    at_ += c.bytes;
    if (alone) return;
  }
}

// Endings of -ss, -us and -is are no plurals: "class", "virus", "basis".
uint64_t stem_hash(const Word& word) {
  const std::string_view text = word.text;
  if (text.size() <= 3 || text.back() != 's') return word.hash;
  const char before = text[text.size() - 2];
  if (before == 's' || before == 'u' || before == 'i') return word.hash;
  if (text.size() <= 4 || !text.ends_with("ies")) return word_hash(text.substr(0, text.size() - 1));
  return word_hash(std::string(text.substr(0, text.size() - 3)) + 'y');
}

bool is_stop_word(uint64_t hash) {
  static const StopWords words;
  return words.has(hash);
}

}  // namespace tephra
