// SPDX-License-Identifier: Apache-2.0
// The line filter of C4 (Raffel et al., 2020): lines that are no sentences go, and pages that look
// like code or filler.
#include <array>

#include "tephra/base/text.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/words.h"

namespace tephra {
namespace {

constexpr int64_t kMaxWordChars = 1000;
constexpr int64_t kMinWords = 3;
constexpr std::array<std::string_view, 6> kPolicies = {"terms of use",   "privacy policy",
                                                       "cookie policy",  "uses cookies",
                                                       "use of cookies", "use cookies"};
constexpr std::array<std::string_view, 5> kEnds = {".", "?", "!", "\"", "'"};
constexpr std::array<std::string_view, 6> kMoreEnds = {"。", "？", "！", "”", "’", "»"};

bool ends_a_sentence(std::string_view line, FilterMode mode) {
  if (line.ends_with("...")) return false;
  for (const std::string_view end : kEnds) {
    if (line.ends_with(end)) return true;
  }
  if (mode == FilterMode::compat) return false;
  for (const std::string_view end : kMoreEnds) {
    if (line.ends_with(end)) return true;
  }
  return false;
}

// [12], [], [edit] and [citation needed] go.
void strip_citations(std::string_view line, std::string& out) {
  out.clear();
  for (size_t i = 0; i < line.size();) {
    if (line[i] == '[') {
      size_t close = i + 1;
      while (close < line.size() && line[close] >= '0' && line[close] <= '9') ++close;
      if (close < line.size() && line[close] == ']') {
        i = close + 1;
        continue;
      }
      bool found = false;
      for (const std::string_view mark : {"[edit]", "[citation needed]"}) {
        if (!line.substr(i).starts_with(mark)) continue;
        i += mark.size();
        found = true;
        break;
      }
      if (found) continue;
    }
    out += line[i++];
  }
}

// Sentences end with a full stop, a question or exclamation mark, followed by space, a quote or
// the end.
int64_t count_sentences(std::string_view line) {
  int64_t count = 0;
  bool open = false;  // something stands after the last end
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool wide = line.substr(i).starts_with("。") || line.substr(i).starts_with("？") ||
                      line.substr(i).starts_with("！");
    const bool mark = c == '.' || c == '?' || c == '!';
    const char next = i + 1 < line.size() ? line[i + 1] : ' ';
    const bool ends = next == ' ' || next == '\t' || next == '"' || next == '\'' || next == ')';
    if (wide || (mark && ends)) {
      count += open;
      open = false;
    } else if (c != ' ' && c != '"' && c != '\'' && c != ')') {
      open = true;
    }
  }
  return count + open;
}

class C4Worker : public FilterWorker {
 public:
  explicit C4Worker(FilterMode mode) : mode_(mode) {}

  std::string_view measure(std::string_view text, std::span<double> values) override {
    int64_t kept = 0, braces = 0, lorem = 0, sentences = 0;
    split_lines(text, lines_);
    out_.clear();
    for (const std::string_view raw : lines_) {
      strip_citations(trim(raw), line_);
      lower_.clear();
      for (const char c : line_) {
        lower_ += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
      braces += line_.find('{') != std::string::npos;
      lorem += lower_.find("lorem ipsum") != std::string::npos;
      if (!keeps(line_)) continue;
      if (kept++ > 0) out_ += '\n';
      out_ += line_;
      sentences += count_sentences(line_);
    }
    values[0] = static_cast<double>(count_code_points(out_));
    values[1] = static_cast<double>(static_cast<int64_t>(lines_.size()) - kept);
    values[2] = static_cast<double>(braces);
    values[3] = static_cast<double>(lorem);
    values[4] = static_cast<double>(sentences);
    return out_;
  }

 private:
  bool keeps(std::string_view line) const {
    int64_t words = 0, chars = 0;
    for (const char c : line) {
      const bool space = c == ' ' || c == '\t';
      if (space) {
        chars = 0;
      } else {
        words += chars == 0;
        chars += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
        if (chars > kMaxWordChars) return false;
      }
    }
    if (words < kMinWords && !(mode_ == FilterMode::fixed && has_unspaced(line))) return false;
    if (!ends_a_sentence(line, mode_)) return false;
    if (lower_.find("javascript") != std::string::npos) return false;
    for (const std::string_view policy : kPolicies) {
      if (lower_.find(policy) != std::string::npos) return false;
    }
    return true;
  }

  // Chinese has no spaces by which to count words.
  static bool has_unspaced(std::string_view line) {
    std::vector<TextWord> words;
    if (count_code_points(line) == static_cast<int64_t>(line.size())) return false;
    split_words(line, words);
    return static_cast<int64_t>(words.size()) >= kMinWords;
  }

  FilterMode mode_;
  std::vector<std::string_view> lines_;
  std::string line_, lower_, out_;
};

}  // namespace

FilterPreset c4_filter(FilterMode mode) {
  using enum FilterRule::Side;
  return {
      .name = "c4",
      .values = {"length", "dropped_lines", "braces", "lorem_ipsum", "sentences"},
      .rules = {{"braces", "braces", above, 0},
                {"lorem_ipsum", "lorem_ipsum", above, 0},
                {"sentences", "sentences", below, 5}},
      .make_worker = [mode] { return std::make_unique<C4Worker>(mode); },
  };
}

}  // namespace tephra
