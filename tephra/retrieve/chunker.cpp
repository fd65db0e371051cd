// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/chunker.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

using Sink = FunctionRef<void(std::string_view chunk)>;

constexpr std::array<const char*, 5> kKindNames = {"auto", "sentences", "lines", "fixed", "whole"};
constexpr size_t kSampleBytes = 1 << 16;  // of a document, to tell lists from prose
constexpr double kProseShare = 0.2;       // of lines that hold a sentence's end

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_capital(c) || (c >= 'a' && c <= 'z'); }

// The number of a list's item ends no sentence: "2. Take it."
bool is_item_number(std::string_view before_dot) {
  size_t begin = before_dot.size();
  while (begin > 0 && before_dot[begin - 1] >= '0' && before_dot[begin - 1] <= '9') --begin;
  const size_t digits = before_dot.size() - begin;
  while (begin > 0 && (before_dot[begin - 1] == ' ' || before_dot[begin - 1] == '\t')) --begin;
  return digits > 0 && digits < 4 && (begin == 0 || before_dot[begin - 1] == '\n');
}

// "Dr." and the like end no sentence, nor do initials: "J. R. R. Tolkien", "the U.S. Senate".
bool is_abbreviation(std::string_view before_dot) {
  constexpr std::array<std::string_view, 14> kKnown = {
      "Mr", "Mrs", "Ms", "Dr", "St", "Jr", "Sr", "vs", "No", "Vol", "cf", "al", "e.g", "i.e"};
  size_t begin = before_dot.size();
  while (begin > 0 && (is_letter(before_dot[begin - 1]) || before_dot[begin - 1] == '.')) --begin;
  const std::string_view word = before_dot.substr(begin);
  if (word.empty()) return false;
  const bool initial =
      is_capital(word.back()) && (word.size() == 1 || word[word.size() - 2] == '.');
  return initial || std::find(kKnown.begin(), kKnown.end(), word) != kKnown.end();
}

// The marks at `at` with the quotes that close behind them: where they end, and whether a sentence
// does.
struct Marks {
  size_t end = 0;
  bool ends_sentence = false;
};

Marks marks_at(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() &&
         (text[end] == '"' || text[end] == '\'' || text[end] == ')' || text[end] == ']' ||
          text[end] == '.' || text[end] == '!' || text[end] == '?')) {
    ++end;
  }
  if (text.substr(end).starts_with("\xe2\x80\x9d")) end += 3;  // a closing double quotation mark
  if (end < text.size() && !is_blank(text[end])) return {end, false};
  const std::string_view before = text.substr(0, at);
  return {end, text[at] != '.' || !(is_abbreviation(before) || is_item_number(before))};
}

constexpr std::array<bool, 256> kMayEnd = [] {
  std::array<bool, 256> table{};
  for (const char c : {'.', '!', '?', '\n'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

// The next mark or newline from `at` on; the text's size when there is none.
size_t next_end(std::string_view text, size_t at) {
  while (at < text.size() && !kMayEnd[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

// A newline ends a sentence unless the text was wrapped there: the next line goes on in lower case.
bool ends_at_newline(std::string_view text, size_t at) {
  size_t next = at + 1;
  while (next < text.size() && (text[next] == ' ' || text[next] == '\t' || text[next] == '\r')) {
    ++next;
  }
  return next >= text.size() || !(text[next] >= 'a' && text[next] <= 'z');
}

// A heading stays with the sentence below it, which it is about.
bool is_heading(std::string_view line) {
  line = trim(line);
  return line.starts_with('#') && line.find('\n') == std::string_view::npos;
}

void emit(std::string_view piece, Sink sink) {
  piece = trim(piece);
  while (piece.size() > kMaxSentenceBytes) {
    size_t cut = piece.find_last_of(" \t\n", kMaxSentenceBytes);
    if (cut == std::string_view::npos || cut == 0) {  // no space at all: between characters
      cut = kMaxSentenceBytes;
      while (cut > 1 && (static_cast<unsigned char>(piece[cut]) & 0xc0) == 0x80) --cut;
    }
    sink(trim(piece.substr(0, cut)));
    piece = trim(piece.substr(cut));
  }
  if (!piece.empty()) sink(piece);
}

void cut_sentences(std::string_view text, Sink sink) {
  size_t begin = 0;
  for (size_t at = next_end(text, 0); at < text.size(); at = next_end(text, at)) {
    Marks marks{at + 1, false};
    if (text[at] != '\n') {
      marks = marks_at(text, at);
    } else {
      marks.ends_sentence =
          ends_at_newline(text, at) && !is_heading(text.substr(begin, at - begin));
    }
    at = marks.end;
    if (!marks.ends_sentence) continue;
    emit(text.substr(begin, at - begin), sink);
    begin = at;
  }
  emit(text.substr(begin), sink);
}

void cut_lines(std::string_view text, const std::string& where, Sink sink) {
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trim(text.substr(begin, end - begin));
    if (line.size() > kMaxLineBytes) {
      throw Error(
          Fault::data,
          format("{}: line {}: expected at most {}, got {}", where, number,
                 human_bytes(kMaxLineBytes), human_bytes(static_cast<int64_t>(line.size()))),
          "a text without short lines is cut by --chunk sentences or --chunk fixed");
    }
    if (!line.empty()) sink(line);
    begin = end + 1;
  }
}

void cut_fixed(std::string_view text, uint32_t words, Sink sink) {
  WordReader reader(text);
  size_t begin = 0;
  uint32_t count = 0;
  for (Word word; reader.next(word); ++count) {
    if (count == words) {
      sink(trim(text.substr(begin, word.begin - begin)));
      begin = word.begin;
      count = 0;
    }
  }
  if (count > 0) sink(trim(text.substr(begin)));
}

bool looks_like_lines(std::string_view text) {
  const bool whole = text.size() <= kSampleBytes;
  text = text.substr(0, kSampleBytes);
  double lines = 0, prose = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos && !whole) break;  // the sample cut it
    const std::string_view line = trim(text.substr(begin, std::min(end, text.size()) - begin));
    begin = end == std::string_view::npos ? text.size() : end + 1;
    if (line.empty()) continue;
    ++lines;
    for (size_t at = next_end(line, 0); at < line.size(); at = next_end(line, at)) {
      const Marks marks = marks_at(line, at);
      at = marks.end;
      if (!marks.ends_sentence) continue;
      ++prose;
      break;
    }
  }
  return lines > 1 && prose < kProseShare * lines;
}

bool has_giant_line(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMaxLineBytes) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

ChunkKind parse_chunk_kind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  require(found != kKindNames.end(),
          "chunks: expected auto, sentences, lines, fixed or whole, got '{}'", clipped(name, 40));
  return static_cast<ChunkKind>(found - kKindNames.begin());
}

std::string to_text(ChunkKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

void cut_chunks(std::string_view text, const ChunkOptions& options, const std::string& where,
                Sink sink) {
  switch (options.kind) {
    case ChunkKind::automatic:
      return looks_like_lines(text) && !has_giant_line(text) ? cut_lines(text, where, sink)
                                                             : cut_sentences(text, sink);
    case ChunkKind::sentences:
      return cut_sentences(text, sink);
    case ChunkKind::lines:
      return cut_lines(text, where, sink);
    case ChunkKind::fixed:
      return cut_fixed(text, options.words, sink);
    case ChunkKind::whole:
      if (!trim(text).empty()) sink(trim(text));
  }
}

}  // namespace tephra
