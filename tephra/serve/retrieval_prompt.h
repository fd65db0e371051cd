// SPDX-License-Identifier: Apache-2.0
// Puts what was found for the last question of a chat before that question: passages of an index
// (`"retrieve"`), turns of a memory (`"memory"`). It stays within the room that the model has, and
// the answer says what was used.
#pragma once

#include <functional>

#include "tephra/serve/api_request.h"
#include "tephra/serve/retrieval_api.h"

namespace tephra {

// How long a prompt is and may be.
struct PromptRoom {
  std::function<int64_t(const Json& messages)> prompt_tokens;
  std::function<int64_t(std::string_view text)> text_tokens;
  int64_t most = 0;
};

struct SourcedChat {
  Json messages;
  Json report = Json::Object{};  // fields of the answer: "retrieval", "memory"
  // To be called with what was answered, before the answer is said to be whole; unset: no memory.
  std::function<void(const std::string& reply)> remember = {};
};

// The request as it is when it names neither. The question is stored in its memory at once.
SourcedChat with_sources(const ChatRequest& request, Sources& sources, const PromptRoom& room);

}  // namespace tephra
