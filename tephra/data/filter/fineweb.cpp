// SPDX-License-Identifier: Apache-2.0
// The filters that FineWeb added (Penedo et al., 2024).
#include <array>

#include "tephra/base/text.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/repetition.h"
#include "tephra/data/filter/words.h"

namespace tephra {
namespace {

constexpr int64_t kShortLine = 30;
constexpr std::array<std::string_view, 9> kWideEnds = {"…", "。", "？", "！", "”",
                                                       "’", "»",  "؟",  "।"};

bool ends_with_punctuation(std::string_view line) {
  if (line.empty()) return false;
  const char last = line.back();
  if (static_cast<unsigned char>(last) < 0x80) {
    return std::string_view(".?!\"'").find(last) != std::string_view::npos;
  }
  for (const std::string_view end : kWideEnds) {
    if (line.ends_with(end)) return true;
  }
  return false;
}

class FineWebWorker : public FilterWorker {
 public:
  explicit FineWebWorker(FilterMode mode) : mode_(mode) {}

  std::string_view measure(TextParts& parts, std::span<double> values) override {
    const auto newlines = static_cast<int64_t>(parts.lines().size()) - 1;
    lines_.clear();
    int64_t punctuated = 0, short_lines = 0;
    for (const std::string_view line : parts.lines()) {
      if (trim(line).empty()) continue;
      lines_.push_back(line);
      // A carriage return or space at the end hides the punctuation from the original.
      punctuated += ends_with_punctuation(mode_ == FilterMode::compat ? line : trim(line));
      short_lines += count_code_points(line) <= kShortLine;
    }
    const int64_t length = parts.chars();
    const auto lines = static_cast<double>(std::max<size_t>(1, lines_.size()));
    values[0] = static_cast<double>(length);
    values[1] = static_cast<double>(punctuated) / lines;
    values[2] = static_cast<double>(short_lines) / lines;
    values[3] = static_cast<double>(repetition_.pieces(lines_).repeated_chars) /
                static_cast<double>(std::max<int64_t>(1, length - newlines));
    values[4] = static_cast<double>(newlines) /
                static_cast<double>(std::max<size_t>(1, parts.words().size()));
    return parts.text();
  }

 private:
  FilterMode mode_;
  std::vector<std::string_view> lines_;
  Repetition repetition_;
};

}  // namespace

FilterPreset fineweb_filter(FilterMode mode) {
  using enum FilterRule::Side;
  return {
      .name = "fineweb",
      .values = {"length", "punctuated_lines", "short_lines", "duplicate_line_chars",
                 "newlines_per_word"},
      .rules = {{"punctuated_lines", "punctuated_lines", below, 0.12},
                {"short_lines", "short_lines", above, 0.67},
                {"duplicate_line_chars", "duplicate_line_chars", above, 0.01},
                {"newlines_per_word", "newlines_per_word", above, 0.3}},
      .make_worker = [mode] { return std::make_unique<FineWebWorker>(mode); },
  };
}

}  // namespace tephra
