// SPDX-License-Identifier: Apache-2.0
// The quality and repetition filters of Gopher (Rae et al., 2021), in the form FineWeb used them.
#include <algorithm>
#include <array>

#include "tephra/base/text.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/repetition.h"
#include "tephra/data/filter/words.h"

namespace tephra {
namespace {

constexpr std::array<std::string_view, 8> kStopWords = {"the", "be",   "to",   "of",
                                                        "and", "that", "have", "with"};

// A word of at most four bytes as one number.
constexpr uint32_t packed(std::string_view word, bool lower) {
  uint32_t number = 0;
  for (const char c : word) {
    const bool capital = lower && c >= 'A' && c <= 'Z';
    number = number << 8 | static_cast<unsigned char>(capital ? c - 'A' + 'a' : c);
  }
  return number;
}

constexpr auto kPackedStopWords = [] {
  std::array<uint32_t, kStopWords.size()> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = packed(kStopWords[i], false);
  return numbers;
}();

// Paragraphs are cut at two or more newlines.
void split_paragraphs(std::string_view text, std::vector<std::string_view>& pieces) {
  pieces.clear();
  text = trim(text);
  for (size_t at = 0; at < text.size();) {
    const size_t cut = std::min(text.find("\n\n", at), text.size());
    pieces.push_back(text.substr(at, cut - at));
    at = std::min(text.find_first_not_of('\n', cut), text.size());
  }
}

class GopherWorker : public FilterWorker {
 public:
  explicit GopherWorker(FilterMode mode) : mode_(mode) {}

  std::string_view measure(TextParts& parts, std::span<double> values) override {
    at_ = 0;
    put(values, static_cast<double>(parts.chars()));
    measure_words(parts.words(), values);
    measure_lines(parts.lines(), values);
    measure_repetition(parts, values);
    return parts.text();
  }

 private:
  void put(std::span<double> values, double value) { values[at_++] = value; }

  static double ratio(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  }

  void measure_words(std::span<const TextWord> words, std::span<double> values) {
    int64_t real = 0, chars = 0, hashes = 0, ellipses = 0, alphabetic = 0;
    uint32_t stop_words = 0;
    for (const TextWord& word : words) {
      if (word.symbol) {
        hashes += word.text[0] == '#';
        ellipses += word.text.size() >= 3 && (word.text[0] == '.' || word.text == "…");
        continue;
      }
      ++real;
      chars += word.chars;
      alphabetic += word.alphabetic;
      stop_words |= stop_word_bit(word.text);
    }
    const auto all = static_cast<int64_t>(words.size());
    put(values, static_cast<double>(real));
    put(values, ratio(chars, real));
    put(values, ratio(hashes, all));
    put(values, ratio(ellipses, all));
    put(values, ratio(alphabetic, mode_ == FilterMode::compat ? all : real));
    put(values, std::popcount(stop_words));
  }

  uint32_t stop_word_bit(std::string_view word) const {
    if (word.size() < 2 || word.size() > 4) return 0;
    const uint32_t number = packed(word, mode_ == FilterMode::fixed);
    for (size_t i = 0; i < kPackedStopWords.size(); ++i) {
      if (number == kPackedStopWords[i]) return 1u << i;
    }
    return 0;
  }

  void measure_lines(std::span<const std::string_view> lines, std::span<double> values) {
    int64_t bullets = 0, ellipses = 0;
    lines_.clear();
    for (const std::string_view line : lines) {
      if (!line.empty()) lines_.push_back(line);
      const std::string_view bare = trim(line);
      bullets += bare.starts_with("-") || bare.starts_with("•");
      ellipses += bare.ends_with("...") || bare.ends_with("…");
    }
    const auto all = static_cast<int64_t>(lines.size());
    put(values, ratio(bullets, all));
    put(values, ratio(ellipses, all));
  }

  void measure_repetition(TextParts& parts, std::span<double> values) {
    const int64_t length = parts.chars();
    split_paragraphs(parts.text(), pieces_);
    const Repeated paragraphs = repetition_.pieces(pieces_);
    put(values, paragraphs.fraction());
    put(values, ratio(paragraphs.repeated_chars, length));
    const Repeated lines = repetition_.pieces(lines_);
    put(values, lines.fraction());
    put(values, ratio(lines.repeated_chars, length));
    repetition_.set_words(parts.words());
    for (size_t n = 2; n <= 4; ++n) put(values, ratio(repetition_.top_ngram_chars(n), length));
    for (size_t n = 5; n <= 10; ++n) {
      put(values, ratio(repetition_.duplicate_ngram_chars(n), length));
    }
  }

  FilterMode mode_;
  size_t at_ = 0;
  std::vector<std::string_view> lines_, pieces_;  // lines that are not empty
  Repetition repetition_;
};

}  // namespace

FilterPreset gopher_filter(FilterMode mode) {
  using enum FilterRule::Side;
  FilterPreset preset{
      .name = "gopher",
      .values = {"length", "words", "mean_word_length", "hashes_per_word", "ellipses_per_word",
                 "alphabetic_words", "stop_words", "bullet_lines", "ellipsis_lines",
                 "duplicate_paragraphs", "duplicate_paragraph_chars", "duplicate_lines",
                 "duplicate_line_chars"},
      .rules = {{"words_min", "words", below, 50},
                {"words_max", "words", above, 100000},
                {"mean_word_length_min", "mean_word_length", below, 3},
                {"mean_word_length_max", "mean_word_length", above, 10},
                {"hashes_per_word", "hashes_per_word", above, 0.1},
                {"ellipses_per_word", "ellipses_per_word", above, 0.1},
                {"alphabetic_words", "alphabetic_words", below, 0.8},
                {"stop_words", "stop_words", below, 2},
                {"bullet_lines", "bullet_lines", above, 0.9},
                {"ellipsis_lines", "ellipsis_lines", above, 0.3},
                {"duplicate_paragraphs", "duplicate_paragraphs", above, 0.3},
                {"duplicate_paragraph_chars", "duplicate_paragraph_chars", above, 0.2},
                {"duplicate_lines", "duplicate_lines", above, 0.3},
                {"duplicate_line_chars", "duplicate_line_chars", above, 0.2}},
      .make_worker = [mode] { return std::make_unique<GopherWorker>(mode); },
  };
  constexpr std::array<double, 3> kTop = {0.20, 0.18, 0.16};
  constexpr std::array<double, 6> kDuplicate = {0.15, 0.14, 0.13, 0.12, 0.11, 0.10};
  const auto add = [&](const std::string& name, double limit) {
    preset.values.push_back(name);
    preset.rules.push_back({name, name, above, limit});
  };
  for (size_t i = 0; i < kTop.size(); ++i) add("top_" + std::to_string(i + 2) + "gram", kTop[i]);
  for (size_t i = 0; i < kDuplicate.size(); ++i) {
    add("duplicate_" + std::to_string(i + 5) + "grams", kDuplicate[i]);
  }
  return preset;
}

}  // namespace tephra
