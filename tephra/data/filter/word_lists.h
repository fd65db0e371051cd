// SPDX-License-Identifier: Apache-2.0
// The word lists of Zyda-1, which are not ours to ship: read from a folder of JSON files.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/filter/literals.h"
#include "tephra/data/filter/preset.h"
#include "tephra/text/regex.h"

namespace tephra {

inline constexpr std::array<const char*, 4> kWordLists = {"profanity", "sexual", "zh_pornsignals",
                                                          "cursed_substrings"};

class WordLists {
 public:
  // FOLDER/NAME.json is a list of strings each; one that is not there is empty, with a warning.
  // Entries are regular expressions. fixed: of profanity and sexual, words of any case with
  // boundaries around them instead of spaces.
  WordLists(const Path& folder, FilterMode mode);

  struct Scratch {
    std::vector<size_t> ends;
    std::string lowered;
  };
  std::array<int64_t, kWordLists.size()> count(std::string_view text, Scratch& scratch) const;

 private:
  struct Pattern {
    Regex regex;
    size_t list;
  };

  std::unique_ptr<Literals> exact_;    // of the text as it is
  std::unique_ptr<Literals> lowered_;  // of its lower-case form
  std::vector<Pattern> patterns_;
};

}  // namespace tephra
