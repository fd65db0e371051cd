// SPDX-License-Identifier: Apache-2.0
// Categories and normal forms by utf8proc. Text that already is in the form is not copied: only the
// stretches around characters that could change go through the library.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/text/display_width.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

bool is_wide_space(uint32_t c) {
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }
bool compatible(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }

bool is_hangul_syllable(uint32_t c) { return c >= 0xac00 && c <= 0xd7a3; }
bool is_hangul_vowel_or_tail(uint32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11a8 && c <= 0x11c2);
}

constexpr uint16_t kNoIndex = UINT16_MAX;
constexpr uint32_t kAfterLastDecomposition = 0x30000;  // U+2FA1D is the last
constexpr uint16_t kSecondOfPair = 0x8000;  // how utf8proc marks what composes with its left

int options_of(NormalForm form) {
  int options = UTF8PROC_STABLE | (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (compatible(form)) options |= UTF8PROC_COMPAT;
  return options;
}

void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options_of(form)));
  if (bytes < 0) throw Error(Fault::device, "out of memory while normalising text");
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(bytes));
}

bool has_canonical_decomposition(const utf8proc_property_t& p) {
  return p.decomp_seqindex != kNoIndex && p.decomp_type == 0;
}

// Of the characters with a canonical decomposition: singletons and those that are excluded from
// composition. Made once, in some milliseconds, when such a character first comes.
bool changes_in_nfc(uint32_t c) {
  static const std::vector<uint32_t> kChanging = [] {
    std::vector<uint32_t> list;
    for (uint32_t each = 0x80; each < kAfterLastDecomposition; ++each) {
      if (!has_canonical_decomposition(
              *utf8proc_get_property(static_cast<utf8proc_int32_t>(each)))) {
        continue;
      }
      std::string composed;
      append_normalized(composed, to_utf8(each), NormalForm::nfc);
      if (composed != to_utf8(each)) list.push_back(each);
    }
    return list;
  }();
  return std::binary_search(kChanging.begin(), kChanging.end(), c);
}

// Whether this character could change, or change with its left neighbour. One that could not is a
// safe place to begin and to end a stretch.
bool unsettled(uint32_t c, NormalForm form) {
  const utf8proc_property_t& p = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (p.combining_class != 0) return true;
  if (composes(form)) {
    if (is_hangul_vowel_or_tail(c)) return true;
    if (p.comb_index != kNoIndex && p.comb_index >= kSecondOfPair) return true;
  } else if (is_hangul_syllable(c)) {
    return true;
  }
  if (p.decomp_seqindex == kNoIndex) return false;
  if (p.decomp_type != 0) return compatible(form);  // <compat>, <font>, ...
  // A canonical decomposition; most are composed again.
  return !composes(form) || compatible(form) || changes_in_nfc(c);
}

// The first byte at or after `at` that is not ASCII, eight at a time.
size_t ascii_end(std::string_view text, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  for (uint64_t word = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// The next unsettled character at or after `at`; `settled` becomes the start of the last settled
// one before it (or stays).
size_t next_unsettled(std::string_view text, size_t at, NormalForm form, size_t& settled) {
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      const size_t end = ascii_end(text, at);
      settled = end - 1;
      at = end;
      continue;
    }
    const CodePoint c = first_code_point(text.data() + at);
    if (unsettled(c.value, form)) return at;
    settled = at;
    at += c.bytes;
  }
  return text.size();
}

size_t next_settled(std::string_view text, size_t at, NormalForm form) {
  while (at < text.size()) {
    const CodePoint c = first_code_point(text.data() + at);
    if (!unsettled(c.value, form)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

int display_width(uint32_t c) {
  if (c < 0x20 || c == 0x7f) return 0;
  return utf8proc_charwidth(static_cast<utf8proc_int32_t>(c));
}

uint32_t lower_code_point(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

uint8_t wide_char_bits(uint32_t c) {
  if (is_wide_space(c)) return kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetter | kUpperish | kWord;
    case UTF8PROC_CATEGORY_LL:
      return kLetter | kLowerish | kWord;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kUpperish | kLowerish | kWord;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kUpperish | kLowerish | kWord;
    case UTF8PROC_CATEGORY_ND:
      return kNumber | kWord;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
      return kWord;
    default:
      return 0;
  }
}

bool is_decimal_digit(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

bool is_combining_mark(uint32_t c) {
  return c >= 0x300 && utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_MN;
}

std::string_view normalized(std::string_view text, NormalForm form, std::string& scratch) {
  size_t copied = 0;  // text before this is in scratch, once anything is
  bool changed = false;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    const size_t bad = next_unsettled(text, at, form, begin);
    if (bad == text.size()) break;
    at = next_settled(text, bad, form);
    if (!changed) scratch.clear();
    changed = true;
    scratch += text.substr(copied, begin - copied);
    append_normalized(scratch, text.substr(begin, at - begin), form);
    copied = at;
  }
  if (!changed) return text;
  scratch += text.substr(copied);
  return scratch;
}

}  // namespace tephra
