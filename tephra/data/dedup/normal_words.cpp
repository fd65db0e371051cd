// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/normal_words.h"

#include <array>

#include "tephra/base/error.h"
#include "tephra/data/filter/words.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr char kDelete = 0, kGap = ' ', kNumberChar = 1;

constexpr bool is_ascii_punctuation(int c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

// What an ASCII character becomes.
constexpr std::array<char, 128> make_map(Normalization normalization) {
  std::array<char, 128> map{};
  for (int c = 0; c < 128; ++c) {
    char& to = map[static_cast<size_t>(c)];
    const bool space = c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    if (space) {
      to = kGap;
    } else if (is_ascii_punctuation(c)) {
      to = normalization == Normalization::zyda1 ? kDelete : kGap;
    } else if (normalization == Normalization::fineweb && c >= '0' && c <= '9') {
      to = kNumberChar;
    } else {
      to = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  map[0] = normalization == Normalization::zyda1 ? kDelete : kGap;
  map[1] = kGap;  // would be taken for a number
  return map;
}

constexpr std::array<char, 128> kZyda1 = make_map(Normalization::zyda1);
constexpr std::array<char, 128> kFineWeb = make_map(Normalization::fineweb);

}  // namespace

void NormalWords::begin_word() {
  if (!gap_) return;
  gap_ = false;
  if (size_ > 0) text_[size_++] = ' ';
  starts_.push_back(static_cast<uint32_t>(size_));
}

void NormalWords::put_number() {
  if (digit_) return;  // of the number before
  begin_word();
  text_[size_++] = '0';
  digit_ = true;
}

void NormalWords::put_ascii(std::string_view text, size_t& i, Normalization normalization) {
  const std::array<char, 128>& map = normalization == Normalization::zyda1 ? kZyda1 : kFineWeb;
  char* out = text_.data();
  for (; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) return;
    const char c = map[byte];
    if (c > kNumberChar && c != kGap) [[likely]] {
      if (gap_) begin_word();
      out[size_++] = c;
      digit_ = false;
    } else if (c == kGap) {
      gap_ = true;
      digit_ = false;
    } else if (c == kNumberChar) {
      put_number();
    }
  }
}

void NormalWords::put_wide(uint32_t c, Normalization normalization) {
  const uint8_t bits = wide_char_bits(c);
  if (normalization == Normalization::fineweb && is_combining_mark(c)) return;
  if ((bits & kSpace) ||
      (normalization == Normalization::fineweb && (bits & (kLetter | kNumber | kWord)) == 0)) {
    gap_ = true;
    digit_ = false;
    return;
  }
  if (normalization == Normalization::fineweb && is_decimal_digit(c)) {
    put_number();
    return;
  }
  digit_ = false;
  const bool alone = is_unspaced(c) && (bits & kLetter) != 0;
  if (alone) gap_ = true;
  begin_word();
  std::string bytes;
  append_utf8(bytes, lower_code_point(c));
  for (const char byte : bytes) text_[size_++] = byte;
  if (alone) gap_ = true;
}

void NormalWords::set(std::string_view text, Normalization normalization) {
  if (normalization == Normalization::fineweb) {
    text = normalized(text, NormalForm::nfd, decomposed_);
  } else {
    text = normalized(text, NormalForm::nfc, decomposed_);
  }
  require_data(text.size() < (size_t{1} << 31), "expected a text below 2 GiB, got {} bytes",
               text.size());
  // A character becomes at most itself, its lower-case form (never more than twice its bytes) and
  // a space.
  if (text_.size() < 2 * text.size() + 8) text_.resize(2 * text.size() + 8);
  starts_.clear();
  size_ = 0;
  gap_ = true;
  digit_ = false;
  for (size_t i = 0; i < text.size();) {
    put_ascii(text, i, normalization);
    if (i == text.size()) break;
    const CodePoint c = first_code_point(text.data() + i);
    put_wide(c.value, normalization);
    i += c.bytes;
  }
}

}  // namespace tephra
