// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/normal_words.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/dedup/ascii_blocks.h"
#include "tephra/data/filter/words.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr bool is_ascii_punctuation(int c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

constexpr AsciiClasses make_classes(Normalization normalization) {
  AsciiClasses classes;
  const bool fineweb = normalization == Normalization::fineweb;
  for (int c = 0; c < 128; ++c) {
    const bool space = c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 1;
    if (space || (fineweb && (is_ascii_punctuation(c) || c == 0))) {
      classes.gaps.add(c);
    } else if (fineweb && c >= '0' && c <= '9') {
      classes.numbers.add(c);
    } else if (!is_ascii_punctuation(c) && c != 0) {
      classes.chars.add(c);
    }
  }
  return classes;
}

constexpr AsciiClasses kZyda1 = make_classes(Normalization::zyda1);
constexpr AsciiClasses kFineWeb = make_classes(Normalization::fineweb);

constexpr size_t kSlackBytes = NormalWords::kReadable + 32;
constexpr size_t kChunkBlocks = 64;  // classified at once: what is known of them stays in cache

constexpr uint64_t below(size_t bit) { return bit >= 64 ? ~uint64_t{0} : (uint64_t{1} << bit) - 1; }

}  // namespace

void NormalWords::begin_word() {
  if (!gap_) return;
  gap_ = false;
  text_[size_++] = ' ';
  starts_[count_++] = static_cast<uint32_t>(size_);
}

void NormalWords::put_number() {
  if (digit_) return;  // of the number before
  begin_word();
  text_[size_++] = '0';
  digit_ = true;
}

// Characters of a word one after another, of which the first may begin it. At most as many bytes
// are written as there are readable ones.
void NormalWords::put_run(const char* from, size_t size) {
  char* out = text_.data() + size_;
  const size_t begins = gap_ ? 1 : 0;
  *out = ' ';
  out += begins;
  size_ += begins;
  starts_[count_] = static_cast<uint32_t>(size_);
  count_ += begins;
  std::memcpy(out, from, 16);  // nearly every run
  if (size > 16) [[unlikely]]
    std::memcpy(out, from, size);
  size_ += size;
  gap_ = false;
}

// One block: runs of characters found by their bits. `at` is where it begins in the text.
void NormalWords::put_block(const AsciiMasks& masks, const char* lowered, std::string_view text,
                            size_t at) {
  size_t from = next_ > at ? next_ - at : 0;  // after a character that began before the block
  if (from >= kAsciiBlock) return;
  // Characters from there on; of a number its first digit, unless it goes on from before.
  const auto chars_from_there = [&] {
    const uint64_t digits = masks.numbers & ~below(from);
    const uint64_t going_on = digit_ ? uint64_t{1} << from : 0;
    return (masks.chars & ~below(from)) | (digits & ~(digits << 1) & ~going_on);
  };
  uint64_t chars = chars_from_there(), live = ~below(from);
  while (const uint64_t left = (chars | masks.wide) & live) {
    const auto begin = static_cast<size_t>(std::countr_zero(left));
    gap_ |= (masks.gaps & live & below(begin)) != 0;
    if ((masks.wide >> begin & 1) == 0) {
      const auto size = static_cast<size_t>(std::countr_one(chars >> begin));
      put_run(lowered + begin, size);
      live = ~below(begin + size);
      continue;
    }
    if (begin > from) digit_ = (masks.numbers >> (begin - 1) & 1) != 0;
    const CodePoint c = first_code_point(text.data() + at + begin);
    put_wide(c.value, normalization_);
    from = begin + c.bytes;
    next_ = at + from;
    if (from >= kAsciiBlock) return;
    live = ~below(from);
    chars = chars_from_there();
  }
  gap_ |= (masks.gaps & live) != 0;
  digit_ = (masks.numbers >> 63) != 0;
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
  // a space; runs are written by sixteen bytes.
  if (text_.size() < 2 * text.size() + kSlackBytes) text_.resize(2 * text.size() + kSlackBytes);
  if (starts_.size() < text.size() + 1) starts_.resize(text.size() + 1);
  size_ = count_ = 0;
  gap_ = true;
  digit_ = false;
  next_ = 0;
  normalization_ = normalization;
  const AsciiClasses& classes = normalization == Normalization::zyda1 ? kZyda1 : kFineWeb;
  std::array<AsciiMasks, kChunkBlocks> masks;
  std::array<char, (kChunkBlocks + 1) * kAsciiBlock> lowered;
  const size_t whole = text.size() / kAsciiBlock;
  for (size_t block = 0; block < whole; block += kChunkBlocks) {
    const size_t count = std::min(kChunkBlocks, whole - block), at = block * kAsciiBlock;
    classify_ascii(text.data() + at, count, classes, masks.data(), lowered.data());
    for (size_t i = 0; i < count; ++i) {
      put_block(masks[i], lowered.data() + i * kAsciiBlock, text, at + i * kAsciiBlock);
    }
  }
  // The rest, filled up with what is deleted or a gap.
  std::array<char, kAsciiBlock> last{};
  const std::string_view rest = text.substr(whole * kAsciiBlock);
  std::copy(rest.begin(), rest.end(), last.begin());
  classify_ascii(last.data(), 1, classes, masks.data(), lowered.data());
  put_block(masks[0], lowered.data(), text, whole * kAsciiBlock);
}

}  // namespace tephra
