// SPDX-License-Identifier: Apache-2.0
// What a question asks, taken apart without a language model: when, about what, said by whom, and
// whether it leans on what was said before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/retrieve/memory/time_phrase.h"

namespace tephra {

struct MemoryQuestion {
  std::vector<TimePhrase> times;
  std::vector<std::string> words;  // of its subject, as written, in lower case
  std::vector<std::string> terms;  // their stems, each once
  std::string speaker;             // the one it asks about: "what did Ann say"
  bool by_speaker = false;         // asks for what the speaker said
  bool certain = false;            // that it has a subject, not only words around a time
  bool refers_back = false;        // "then", "that conversation"
};

// `speakers`: names that are people, not subjects. `asker`: who "I" is; empty when not known.
MemoryQuestion read_memory_question(std::string_view text, const std::vector<std::string>& speakers,
                                    const std::string& asker);

// Whether a text speaks of a conversation: "we talked", "our chat", "what was said".
bool speaks_of_talk(std::string_view text);

// The stems of all words that carry meaning: for a text that is a search already.
std::vector<std::string> search_terms(std::string_view text);

}  // namespace tephra
