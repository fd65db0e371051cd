// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/word_counter.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/text/split_scanner.h"
#include "tephra/text/token_table.h"
#include "tephra/text/training_pattern.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr uint32_t kMark = 0x2581;
constexpr std::string_view kMarkText = "▁";

// What stays together in a word of the SentencePiece-like forms.
enum class Kind { letter, digit, symbol, space, mark };

Kind kind_of(uint32_t c) {
  if (c == kMark) return Kind::mark;
  const uint8_t bits = char_bits(c);
  if ((bits & kNumber) != 0) return Kind::digit;
  if ((bits & kSpace) != 0) return Kind::space;
  return (bits & (kLetter | kUpperish | kLowerish)) != 0 ? Kind::letter : Kind::symbol;
}

std::string with_marks(std::string_view text, bool prefix) {
  std::string marked(prefix && !text.empty() ? kMarkText : "");
  marked.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      marked += kMarkText;
    } else {
      marked += c;
    }
  }
  return marked;
}

// End of the run of one kind from `at`; a digit is a run of its own.
size_t run_end(std::string_view text, size_t at) {
  const CodePoint first = first_code_point(text.data() + at);
  const Kind kind = kind_of(first.value);
  at += first.bytes;
  while (kind != Kind::digit && at < text.size()) {
    const CodePoint c = first_code_point(text.data() + at);
    if (kind_of(c.value) != kind) break;
    at += c.bytes;
  }
  return at;
}

void each_marked_word(std::string_view text, FunctionRef<void(std::string_view)> word) {
  for (size_t at = 0; at < text.size();) {
    size_t end = run_end(text, at);
    const bool marks = text.substr(at).starts_with(kMarkText);
    if (marks && end < text.size()) {
      const Kind next = kind_of(first_code_point(text.data() + end).value);
      if (next != Kind::space && next != Kind::digit) {
        const size_t last = end - kMarkText.size();  // goes with what follows
        if (last > at) word(text.substr(at, last - at));
        at = last;
        end = run_end(text, end);
      }
    }
    word(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

void each_word(std::string_view text, TokenizerForm form,
               FunctionRef<void(std::string_view)> word) {
  if (form != TokenizerForm::byte_level) {
    return each_marked_word(with_marks(text, form == TokenizerForm::llama), word);
  }
  std::string scratch;
  text = normalized(text, NormalForm::nfc, scratch);
  const SplitScanner scanner = find_split_scanner(kTrainingPattern);
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const size_t length = scanner(p, end);
    word({p, length});
    p += length;
  }
}

// Open addressing; the words lie one after the other in one string.
struct WordCounter::Table {
  struct Entry {
    size_t offset = 0;
    uint32_t length = 0;
    uint64_t hash = 0;
    int64_t count = 0;  // 0: empty
  };
  std::string bytes;
  std::vector<Entry> entries = std::vector<Entry>(1024);
  size_t used = 0;

  std::string_view text_of(const Entry& e) const {
    return std::string_view(bytes).substr(e.offset, e.length);
  }

  void add(std::string_view word, int64_t count) {
    if (2 * used >= entries.size()) grow();
    const uint64_t hash = hash_bytes(word);
    size_t slot = hash & (entries.size() - 1);
    for (; entries[slot].count != 0; slot = (slot + 1) & (entries.size() - 1)) {
      if (entries[slot].hash == hash && text_of(entries[slot]) == word) {
        entries[slot].count += count;
        return;
      }
    }
    entries[slot] = {bytes.size(), static_cast<uint32_t>(word.size()), hash, count};
    bytes += word;
    ++used;
  }

  void grow() {
    std::vector<Entry> old(2 * entries.size());
    old.swap(entries);
    for (const Entry& e : old) {
      if (e.count == 0) continue;
      size_t slot = e.hash & (entries.size() - 1);
      while (entries[slot].count != 0) slot = (slot + 1) & (entries.size() - 1);
      entries[slot] = e;
    }
  }

  void add_all(const Table& other) {
    for (const Entry& e : other.entries) {
      if (e.count != 0) add(other.text_of(e), e.count);
    }
  }
};

WordCounter::WordCounter(TokenizerForm form) : form_(form), table_(std::make_unique<Table>()) {}
WordCounter::~WordCounter() = default;

void WordCounter::add(const std::vector<std::string_view>& texts) {
  std::mutex mutex;
  parallel_for(static_cast<int64_t>(texts.size()), 1, [&](int64_t begin, int64_t end) {
    stop_if_interrupted();
    Table own;
    for (int64_t i = begin; i < end; ++i) {
      std::string repaired;
      std::string_view text = texts[static_cast<size_t>(i)];
      if (find_invalid_utf8(text) != text.npos) text = repaired = lossy_utf8(text);
      each_word(text, form_, [&](std::string_view word) { own.add(word, 1); });
    }
    const std::lock_guard lock(mutex);
    table_->add_all(own);  // sums do not depend on the order
  });
}

std::vector<WordCount> WordCounter::take() {
  std::vector<WordCount> words;
  words.reserve(table_->used);
  for (const Table::Entry& e : table_->entries) {
    if (e.count != 0) words.push_back({std::string(table_->text_of(e)), e.count});
  }
  *table_ = Table();
  std::sort(words.begin(), words.end(),
            [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
  return words;
}

}  // namespace tephra
