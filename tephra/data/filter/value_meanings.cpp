// SPDX-License-Identifier: Apache-2.0
// What the values of filters are, in words.
#include <map>

#include "tephra/base/format.h"
#include "tephra/data/filter/preset.h"

namespace tephra {
namespace {

const std::map<std::string_view, std::string_view>& meanings() {
  static const std::map<std::string_view, std::string_view> kMeanings = {
      {"length", "characters of the text that is left"},
      {"words", "words"},
      {"mean_word_length", "characters a word"},
      {"fraction_non_alphanumeric", "share of characters that are no letter, digit, _ or space"},
      {"fraction_numerical", "share of characters that are digits"},
      {"same_character_runs", "runs of seven or more of one word character"},
      {"xml", "times \"xml\" stands in it"},
      {"xml_version", "times \"<?xml version=\" stands in it"},
      {"lorem_ipsum", "times \"lorem ipsum\" stands in it"},
      {"https", "\"https://\""},
      {"less_than", "\"<\""},
      {"quote_colon", "quotation marks with a colon after them"},
      {"www", "\"www.\""},
      {"profanity", "words of the list profanity"},
      {"sexual", "words of the list sexual"},
      {"zh_pornsignals", "words of the list zh_pornsignals"},
      {"cursed_substrings", "entries of the list cursed_substrings"},
      {"hashes_per_word", "# for each word or symbol"},
      {"ellipses_per_word", "ellipses for each word or symbol"},
      {"alphabetic_words", "share of words with a letter"},
      {"stop_words", "of the, be, to, of, and, that, have, with: how many stand in it"},
      {"bullet_lines", "share of lines that begin with - or a bullet"},
      {"ellipsis_lines", "share of lines that end with an ellipsis"},
      {"duplicate_paragraphs", "share of paragraphs that stood before"},
      {"duplicate_paragraph_chars", "share of characters in paragraphs that stood before"},
      {"duplicate_lines", "share of lines that stood before"},
      {"duplicate_line_chars", "share of characters in lines that stood before"},
      {"braces", "lines with a {"},
      {"sentences", "sentences in the lines that are left"},
      {"punctuated_lines", "share of lines that end with punctuation"},
      {"short_lines", "share of lines of at most 30 characters"},
      {"newlines_per_word", "ends of lines for each word or symbol"},
  };
  return kMeanings;
}

}  // namespace

std::string value_meaning(std::string_view value) {
  const auto found = meanings().find(value);
  if (found != meanings().end()) return std::string(found->second);
  constexpr std::string_view kTop = "top_", kDuplicate = "duplicate_";
  if (value.starts_with(kTop)) {
    return format("share of characters in the most frequent {} words in a row",
                  value.substr(kTop.size(), 1));
  }
  if (value.starts_with(kDuplicate) && value.ends_with("grams")) {
    const std::string_view rest = value.substr(kDuplicate.size());
    return format("share of characters in {} words in a row that stood before",
                  rest.substr(0, rest.find('g')));
  }
  return {};
}

}  // namespace tephra
