// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/sample_text.h"

#include <array>
#include <string_view>
#include <vector>

namespace tephra {
namespace {

constexpr std::string_view kFrequent[] = {
    "the",  "of",   "and",  "to",   "a",     "in",    "that",  "is",    "was",  "it",    "for",
    "on",   "with", "as",   "he",   "be",    "at",    "by",    "I",     "this", "not",   "are",
    "but",  "from", "or",   "had",  "have",  "an",    "they",  "which", "one",  "you",   "were",
    "her",  "all",  "his",  "she",  "would", "there", "their", "we",    "him",  "been",  "has",
    "when", "who",  "will", "more", "no",    "if",    "out",   "so",    "what", "about", "up"};
constexpr std::string_view kOnsets[] = {"b",  "c",  "d",  "f",  "g",  "h",  "l",  "m",  "n",  "p",
                                        "r",  "s",  "t",  "v",  "w",  "st", "tr", "pr", "ch", "sh",
                                        "th", "br", "cl", "gr", "pl", "sp", "fl", ""};
constexpr std::string_view kVowels[] = {"a", "e", "i", "o", "u", "ea", "ou", "ai", "ee", "io"};
constexpr std::string_view kCodas[] = {"",   "n",  "r",  "s",  "t",  "l",  "d",  "m",
                                       "ck", "nd", "st", "ng", "nt", "th", "ss", "p"};
constexpr std::string_view kEndings[] = {"", "", "", "s", "ed", "ing", "ly", "er", "tion", "ment"};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z >> 33) % n;
  }
  template <size_t n>
  std::string_view pick(const std::string_view (&list)[n]) {
    return list[below(n)];
  }

 private:
  uint64_t state_;
};

std::vector<std::string> make_lexicon(Random& random) {
  constexpr size_t kWords = 30000;
  std::vector<std::string> words(std::begin(kFrequent), std::end(kFrequent));
  while (words.size() < kWords) {
    std::string word;
    for (auto syllables = 1 + random.below(3); syllables > 0; --syllables) {
      word += random.pick(kOnsets);
      word += random.pick(kVowels);
      word += random.pick(kCodas);
    }
    word += random.pick(kEndings);
    words.push_back(word);
  }
  return words;
}

// Halving the range a random number of times gives each rank a frequency near 1 / rank.
const std::string& pick_word(const std::vector<std::string>& words, Random& random) {
  uint64_t range = words.size();
  for (auto halvings = random.below(15); halvings > 0; --halvings) range = range / 2 + 1;
  return words[random.below(range)];
}

void append_sentence(std::string& text, const std::vector<std::string>& words, Random& random) {
  const size_t start = text.size();
  for (auto left = 4 + random.below(22); left > 0; --left) {
    if (random.below(60) == 0) {
      text += std::to_string(random.below(3000));
    } else {
      text += pick_word(words, random);
      if (random.below(80) == 0) text += "'s";
    }
    if (left > 1) text += random.below(12) == 0 ? ", " : " ";
  }
  if (text[start] >= 'a' && text[start] <= 'z') text[start] = static_cast<char>(text[start] - 32);
  text += random.below(12) == 0 ? "?" : ".";
}

}  // namespace

std::string sample_text(size_t bytes, uint64_t seed) {
  Random random(seed);
  const std::vector<std::string> words = make_lexicon(random);
  std::string text;
  text.reserve(bytes + 400);
  while (text.size() < bytes) {
    append_sentence(text, words, random);
    text += random.below(6) == 0 ? "\n\n" : " ";
  }
  text.resize(bytes);  // ASCII: any place is between characters
  return text;
}

}  // namespace tephra
