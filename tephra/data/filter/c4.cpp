// SPDX-License-Identifier: Apache-2.0
// The line filter of C4 (Raffel et al., 2020): lines that are no sentences go, and pages that look
// like code or filler.
#include <algorithm>
#include <array>

#include "tephra/base/text.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/words.h"

namespace tephra {
namespace {

constexpr int64_t kMaxWordChars = 1000;
constexpr int64_t kMinWords = 3;

// What a line must not say, in lower case, each by a letter of it that is rare.
struct Phrase {
  std::string_view before;
  char letter;
  std::string_view after;
  bool lorem = false;  // drops the page, the others the line
};
constexpr std::array<Phrase, 8> kPhrases = {{{"ter", 'm', "s of use"},
                                             {"pri", 'v', "acy policy"},
                                             {"coo", 'k', "ie policy"},
                                             {"uses coo", 'k', "ies"},
                                             {"use of coo", 'k', "ies"},
                                             {"use coo", 'k', "ies"},
                                             {"", 'j', "avascript"},
                                             {"lore", 'm', " ipsum", true}}};
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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_lower(std::string_view text, std::string_view want) {
  if (text.size() < want.size()) return false;
  for (size_t i = 0; i < want.size(); ++i) {
    if (lower(text[i]) != want[i]) return false;
  }
  return true;
}

struct Said {
  bool lorem = false, phrase = false;
};

Said phrases_of(std::string_view line) {
  constexpr auto kLetters = [] {
    std::array<bool, 256> letters{};
    for (const Phrase& phrase : kPhrases) {
      const auto small = static_cast<unsigned char>(phrase.letter);
      letters[small] = true;
      letters[static_cast<unsigned char>(small - 'a' + 'A')] = true;
    }
    return letters;
  }();
  Said said;
  for (size_t i = 0; i < line.size(); ++i) {
    if (!kLetters[static_cast<unsigned char>(line[i])]) continue;
    for (const Phrase& phrase : kPhrases) {
      if (lower(line[i]) != phrase.letter || i < phrase.before.size()) continue;
      if (!same_lower(line.substr(i + 1), phrase.after)) continue;
      if (!same_lower(line.substr(i - phrase.before.size()), phrase.before)) continue;
      (phrase.lorem ? said.lorem : said.phrase) = true;
    }
  }
  return said;
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

bool wide_end(std::string_view text, size_t i) {
  if (text[i] != '\xe3' && text[i] != '\xef') return false;
  const std::string_view rest = text.substr(i);
  return rest.starts_with("。") || rest.starts_with("？") || rest.starts_with("！");
}

// Sentences end with a full stop, a question or exclamation mark, followed by space, a quote or
// the end.
int64_t count_sentences(std::string_view line) {
  constexpr std::string_view kClosing = " \"')";
  constexpr auto kMarks = [] {
    std::array<bool, 256> marks{};
    for (const unsigned char c : {'.', '?', '!', '\xe3', '\xef'}) marks[c] = true;
    return marks;
  }();
  int64_t count = 0;
  size_t begin = 0;  // after the last end
  // Whether something stands after the last end: nearly always the first character there.
  const auto open = [&](size_t end) {
    return line.substr(begin, end - begin).find_first_not_of(kClosing) != std::string_view::npos;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    if (!kMarks[static_cast<unsigned char>(line[i])]) continue;
    const bool wide = wide_end(line, i);
    const bool mark = line[i] == '.' || line[i] == '?' || line[i] == '!';
    const char next = i + 1 < line.size() ? line[i + 1] : ' ';
    const bool ends = next == ' ' || next == '\t' || next == '"' || next == '\'' || next == ')';
    if (!wide && !(mark && ends)) continue;
    count += open(i);
    begin = i + (wide ? 3 : 1);
  }
  return count + open(line.size());
}

class C4Worker : public FilterWorker {
 public:
  explicit C4Worker(FilterMode mode) : mode_(mode) {}

  std::string_view measure(TextParts& parts, std::span<double> values) override {
    int64_t kept = 0, braces = 0, lorem = 0, sentences = 0;
    const std::vector<std::string_view>& lines = parts.lines();
    out_.clear();
    for (const std::string_view raw : lines) {
      std::string_view line = trim(raw);
      if (line.find('[') != std::string_view::npos) {
        strip_citations(line, line_);
        line = line_;
      }
      const Said said = phrases_of(line);
      braces += line.find('{') != std::string_view::npos;
      lorem += said.lorem;
      if (said.phrase || !keeps(line)) continue;
      if (kept++ > 0) out_ += '\n';
      out_ += line;
      sentences += count_sentences(line);
    }
    values[0] = static_cast<double>(count_code_points(out_));
    values[1] = static_cast<double>(static_cast<int64_t>(lines.size()) - kept);
    values[2] = static_cast<double>(braces);
    values[3] = static_cast<double>(lorem);
    values[4] = static_cast<double>(sentences);
    return out_;
  }

 private:
  bool keeps(std::string_view line) const {
    int64_t words = 0, chars = 0, longest = 0;
    for (const char c : line) {  // without branches: where words end cannot be foretold
      const int64_t inside = c == ' ' || c == '\t' ? 0 : 1;
      words += inside & (chars == 0 ? 1 : 0);
      chars = (chars + ((static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0)) & -inside;
      longest = std::max(longest, chars);
    }
    if (longest > kMaxWordChars) return false;
    if (words < kMinWords && !(mode_ == FilterMode::fixed && has_unspaced(line))) return false;
    return ends_a_sentence(line, mode_);
  }

  // Chinese has no spaces by which to count words.
  static bool has_unspaced(std::string_view line) {
    std::vector<TextWord> words;
    if (count_code_points(line) == static_cast<int64_t>(line.size())) return false;
    split_words(line, words);
    return static_cast<int64_t>(words.size()) >= kMinWords;
  }

  FilterMode mode_;
  std::string line_, out_;
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
