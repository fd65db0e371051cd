// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/word_lists.h"

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kWordsWithSpaces = 2;  // the first lists, whose entries are padded

std::vector<std::string> read_list(const Path& path) {
  if (!std::filesystem::exists(path)) {
    warn_once(path.string(), "{}: does not exist; its rules can drop nothing", path.string());
    return {};
  }
  const Json json = Json::parse(read_file(path), path.string());
  require_data(json.is_array(), "{}: expected a list of strings, got {}", path.string(),
               json.kind());
  std::vector<std::string> entries;
  for (const Json& entry : json.array()) {
    require_data(entry.is_string(), "{}: expected strings, got {}", path.string(), entry.kind());
    entries.push_back(entry.string());
  }
  return entries;
}

bool is_literal(std::string_view pattern) {
  return pattern.find_first_of("\\.^$*+?{}[]|()") == std::string_view::npos;
}

void append_lower(std::string& out, std::string_view text) {
  for (const char c : text) {
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
}

// Python's $ matches at the end of the text (and before a newline that ends it), ours at lines.
std::string python_pattern(const std::string& entry) {
  std::string pattern;
  for (size_t i = 0; i < entry.size(); ++i) {
    if (entry[i] == '\\' && i + 1 < entry.size()) {
      pattern += entry[i++];
      pattern += entry[i];
    } else if (entry[i] == '$') {
      pattern += "\\Z";
    } else if (entry[i] == '^') {
      pattern += "\\A";
    } else {
      pattern += entry[i];
    }
  }
  return pattern;
}

}  // namespace

WordLists::WordLists(const Path& folder, FilterMode mode) {
  std::vector<Literals::Entry> exact, lowered;
  for (size_t list = 0; !folder.empty() && list < kWordLists.size(); ++list) {
    const Path path = folder / (std::string(kWordLists[list]) + ".json");
    for (const std::string& entry : read_list(path)) {
      if (!is_literal(entry)) {
        patterns_.push_back({Regex(python_pattern(entry), path.string()), list});
      } else if (mode == FilterMode::fixed && list < kWordsWithSpaces) {
        std::string word;
        append_lower(word, trim(entry));
        lowered.push_back({word, list, true});
      } else {
        exact.push_back({entry, list, false});
      }
    }
  }
  exact_ = std::make_unique<Literals>(std::move(exact));
  lowered_ = std::make_unique<Literals>(std::move(lowered));
}

std::array<int64_t, kWordLists.size()> WordLists::count(std::string_view text,
                                                        Scratch& scratch) const {
  std::array<int64_t, kWordLists.size()> counts{};
  exact_->count(text, counts, scratch.ends);
  if (!lowered_->empty()) {
    scratch.lowered.clear();
    append_lower(scratch.lowered, text);
    lowered_->count(scratch.lowered, counts, scratch.ends);
  }
  for (const Pattern& pattern : patterns_) {
    pattern.regex.each_match(text, [&](size_t, size_t) { ++counts[pattern.list]; });
  }
  return counts;
}

}  // namespace tephra
