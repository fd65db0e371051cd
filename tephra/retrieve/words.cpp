// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/words.h"

#include <array>
#include <cstring>

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr unsigned char kWide = 0xff;  // of kLower: the character is beyond ASCII

// What an ASCII letter or digit is in lower case; 0 for what separates words.
constexpr std::array<unsigned char, 256> kLower = [] {
  std::array<unsigned char, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')) table[byte] = byte;
    if (c >= 'A' && c <= 'Z') table[byte] = static_cast<unsigned char>(c - 'A' + 'a');
    if (c >= 0x80) table[byte] = kWide;
  }
  return table;
}();

unsigned char lower_at(std::string_view text, size_t at) {
  return kLower[static_cast<unsigned char>(text[at])];
}

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
  while (lower.size() > 8) {
    uint64_t block = 0;
    std::memcpy(&block, lower.data(), 8);
    hash = mixed(hash, block);
    lower.remove_prefix(8);
  }
  uint64_t block = 0;
  std::memcpy(&block, lower.data(), lower.size());
  return mixed(mixed(hash, block), 0);
}

bool WordReader::is_word_at(size_t at) const {
  const unsigned char lower = lower_at(text_, at);
  if (lower != kWide) return lower != 0;
  return (char_bits(first_code_point(text_.data() + at).value) & (kWord | kNumber)) != 0;
}

bool WordReader::next(Word& word) {
  while (at_ < text_.size() && !is_word_at(at_)) {
    at_ += lower_at(text_, at_) == kWide ? first_code_point(text_.data() + at_).bytes : 1;
  }
  if (at_ >= text_.size()) return false;

  word.begin = at_;
  word.capital = text_[at_] >= 'A' && text_[at_] <= 'Z';
  lower_.clear();
  while (at_ < text_.size()) {
    const unsigned char lower = lower_at(text_, at_);
    if (lower == 0) break;
    if (lower == kWide) {
      take_wide(word);
      break;
    }
    lower_ += static_cast<char>(lower);
    ++at_;
  }
  word.end = at_;
  word.text = lower_;
  word.hash = word_hash(lower_);
  return true;
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
