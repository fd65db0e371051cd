// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/route.h"

#include <algorithm>
#include <array>
#include <string>

#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr std::array<std::string_view, 10> kCounting = {
    " most common ",     " most frequent ", " most often ",
    " most frequently ", " how often ",     " how many times ",
    " least common ",    " word count ",    " frequently occurring ",
    " least frequent "};
constexpr std::array<std::string_view, 24> kGlobal = {
    " summarize ",   " summarise ",  " summary ",       " summarizing ",
    " summarising ", " overview ",   " outline ",       " main idea ",
    " main ideas ",  " main theme ", " main themes ",   " main points ",
    " main topics ", " key points ", " key ideas ",     " key takeaways ",
    " gist ",        " tl dr ",      " tldr ",          " overall ",
    " all about ",   " in general ", " in a nutshell ", " what are these documents about "};

bool holds_any(std::string_view text, const auto& cues) {
  return std::any_of(cues.begin(), cues.end(), [&](std::string_view cue) {
    return text.find(cue) != std::string_view::npos;
  });
}

}  // namespace

QueryRoute route_of(std::string_view question) {
  std::string words = " ";
  WordReader reader(question);
  for (Word word; reader.next(word);) words.append(word.text) += ' ';
  if (holds_any(words, kCounting)) return QueryRoute::counting;
  const bool about = words.starts_with(" what is this ") && words.ends_with(" about ");
  return about || holds_any(words, kGlobal) ? QueryRoute::global : QueryRoute::local;
}

const char* route_name(QueryRoute route) {
  constexpr std::array<const char*, 4> kNames = {"auto", "local", "global", "counting"};
  return kNames[static_cast<size_t>(route)];
}

}  // namespace tephra
