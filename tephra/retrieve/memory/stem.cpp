// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/stem.h"

#include <algorithm>

namespace tephra {
namespace {

bool is_vowel(char c) { return std::string_view("aeiouy").find(c) != std::string_view::npos; }

bool has_vowel(std::string_view word) { return std::any_of(word.begin(), word.end(), is_vowel); }

bool drop(std::string& word, std::string_view ending, size_t keep) {
  if (word.size() < ending.size() + keep || !word.ends_with(ending)) return false;
  if (!has_vowel(std::string_view(word).substr(0, word.size() - ending.size()))) return false;
  word.resize(word.size() - ending.size());
  return true;
}

}  // namespace

std::string stem(std::string_view lower) {
  std::string word(lower);
  const bool plain =
      std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (word.size() < 4 || !plain) return word;
  if (word.ends_with("ies") && word.size() > 4) {
    word.resize(word.size() - 2);
  } else if (word.ends_with("s") && !word.ends_with("ss") && !word.ends_with("us") &&
             !word.ends_with("is")) {
    word.pop_back();
  }
  if (!drop(word, "ing", 3)) drop(word, "ed", 3);
  drop(word, "ly", 4);
  if (word.size() > 3 && word.back() == 'e') word.pop_back();
  if (word.size() > 3 && word.back() == 'y') word.back() = 'i';
  if (word.size() > 3 && word.back() == word[word.size() - 2] && !is_vowel(word.back())) {
    word.pop_back();
  }
  return word;
}

}  // namespace tephra
