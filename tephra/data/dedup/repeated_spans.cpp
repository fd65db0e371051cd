// SPDX-License-Identifier: Apache-2.0
// The only file that includes libdivsufsort.
#include "tephra/data/dedup/repeated_spans.h"

#include <divsufsort.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr int64_t kSuffixGrain = int64_t{1} << 18;

// Suffixes that begin with the same window stand together in the array. A group belongs to the
// piece of the array in which it begins.
class SuffixGroups {
 public:
  SuffixGroups(std::string_view padded, std::span<const int32_t> suffixes, size_t least)
      : text_(padded), suffixes_(suffixes), least_(least) {}

  // Calls `use` with each group of several suffixes whose window lies within a document.
  template <class Use>
  void each(size_t begin, size_t end, const Use& use) const {
    while (begin < end && begin > 0 && same(begin - 1, begin)) ++begin;
    while (begin < end) {
      size_t last = begin + 1;
      while (last < suffixes_.size() && same(last - 1, last)) ++last;
      if (last - begin > 1 && within_document(begin)) {
        use(suffixes_.subspan(begin, last - begin));
      }
      begin = last;
    }
  }

 private:
  const char* window(size_t i) const { return text_.data() + suffixes_[i]; }
  bool same(size_t i, size_t j) const { return std::memcmp(window(i), window(j), least_) == 0; }
  bool within_document(size_t i) const {
    return std::memchr(window(i), static_cast<unsigned char>(kDocumentEnd), least_) == nullptr;
  }

  std::string_view text_;
  std::span<const int32_t> suffixes_;
  size_t least_;
};

bool continues_character(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

// Whether the character at a boundary is one of a word, in scripts that write words apart: ASCII
// letters and digits, and two-byte characters (Latin, Greek, Cyrillic, Hebrew, Arabic).
bool is_of_word(std::string_view text, size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= 0xc3 && c <= 0xdf);
}

size_t character_before(std::string_view text, size_t at) {
  --at;
  while (at > 0 && continues_character(text, at)) --at;
  return at;
}

bool cuts_word(std::string_view text, size_t at) {
  return at > 0 && at < text.size() && is_of_word(text, at) &&
         is_of_word(text, character_before(text, at));
}

// Ends of a range move inwards to the end of the word that they would cut, unless it is far.
void keep_words(std::string_view text, ByteRange& range) {
  constexpr size_t kFar = 64;
  size_t begin = range.begin, end = range.end;
  while (cuts_word(text, begin) && begin < range.end && begin - range.begin < kFar) {
    ++begin;
    while (continues_character(text, begin)) ++begin;
  }
  while (cuts_word(text, end) && end > range.begin && range.end - end < kFar) {
    end = character_before(text, end);
  }
  if (!cuts_word(text, begin)) range.begin = std::min(begin, range.end);
  if (!cuts_word(text, end)) range.end = std::max(end, range.begin);
  // A space that would leave two words in one stays.
  const bool joins = range.begin > 0 && range.begin < range.end && range.end < text.size() &&
                     is_of_word(text, range.end) &&
                     is_of_word(text, character_before(text, range.begin));
  const auto is_blank = [&](size_t at) { return text[at] == ' ' || text[at] == '\n'; };
  if (joins && is_blank(range.begin)) {
    ++range.begin;
  } else if (joins && is_blank(range.end - 1)) {
    --range.end;
  }
}

}  // namespace

void WindowMarks::mark(size_t at) {
  std::atomic_ref(words_[at / 64]).fetch_or(uint64_t{1} << (at % 64), std::memory_order_relaxed);
}

size_t WindowMarks::next(size_t from, size_t to) const {
  while (from < to) {
    const uint64_t rest = words_[from / 64] >> (from % 64);
    if (rest != 0) return std::min(to, from + static_cast<size_t>(std::countr_zero(rest)));
    from = (from / 64 + 1) * 64;
  }
  return to;
}

void mark_repeats(std::string& text, TextChunk first, TextChunk second, const RepeatRule& rule,
                  WindowMarks& marks) {
  const size_t size = first.bytes + second.bytes;
  TEPHRA_ASSERT(text.size() == size && size <= INT32_MAX, "the text is that of its chunks");
  if (size == 0) return;  // which the sorting would refuse
  std::vector<int32_t> suffixes(size);
  const int failed = divsufsort(reinterpret_cast<const uint8_t*>(text.data()), suffixes.data(),
                                static_cast<int32_t>(size));
  if (failed != 0) throw Error(Fault::device, "out of memory while sorting suffixes");
  text.append(rule.least, kDocumentEnd);  // windows at the end can be compared like others
  const auto place = [&](int32_t at) {
    const auto in_text = static_cast<size_t>(at);
    return in_text < first.bytes ? first.begin + in_text : second.begin + in_text - first.bytes;
  };
  const SuffixGroups groups(text, suffixes, rule.least);
  parallel_for(static_cast<int64_t>(size), kSuffixGrain, [&](int64_t begin, int64_t end) {
    groups.each(static_cast<size_t>(begin), static_cast<size_t>(end),
                [&](std::span<const int32_t> group) {
                  // Places grow with the positions in the text.
                  const auto [low, high] = std::minmax_element(group.begin(), group.end());
                  const size_t earliest = place(*low);
                  if (place(*high) - earliest < rule.least) return;
                  for (const int32_t at : group) {
                    const size_t here = place(at);
                    if (!rule.keep_one || here - earliest >= rule.least) marks.mark(here);
                  }
                });
  });
}

std::vector<ByteRange> marked_ranges(const WindowMarks& marks, size_t begin, std::string_view text,
                                     size_t least) {
  std::vector<ByteRange> ranges;
  const size_t end = begin + text.size();
  for (size_t at = marks.next(begin, end); at < end; at = marks.next(at + 1, end)) {
    const size_t from = at - begin, to = std::min(from + least, text.size());
    if (!ranges.empty() && from <= ranges.back().end) {
      ranges.back().end = to;
    } else {
      ranges.push_back({from, to});
    }
  }
  for (ByteRange& range : ranges) {
    while (range.begin < range.end && continues_character(text, range.begin)) ++range.begin;
    while (range.begin < range.end && continues_character(text, range.end)) --range.end;
    keep_words(text, range);
  }
  std::erase_if(ranges, [](const ByteRange& range) { return range.begin == range.end; });
  return ranges;
}

}  // namespace tephra
