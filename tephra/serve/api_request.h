// SPDX-License-Identifier: Apache-2.0
// Requests of the OpenAI-compatible API, read strictly: an unknown field, a wrong type or a value
// out of range is an ApiError that names the field.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/infer/sampler.h"

namespace tephra {

enum class OutputForm { text, json_object, json_schema };

struct ApiLimits {
  int64_t choices = 128;  // of one request: prompts times n
  int64_t top_logprobs = 20;
  int64_t stops = 16;
  int64_t rsa_tokens = int64_t{1} << 20;  // of all traces of a request; 0: no RSA
  int64_t rsa_rounds = 32;
};

// What both kinds of completion have.
struct CommonRequest {
  std::string model;  // empty: not said
  std::optional<int64_t> max_tokens;
  Sampling sampling;
  bool seeded = false;  // sampling.seed was given
  int64_t n = 1;
  std::vector<std::string> stop;
  bool stream = false, include_usage = false;
  bool ignore_eos = false;
  int64_t top_logprobs = -1;  // -1: none
  OutputForm form = OutputForm::text;
  Json schema;
};

struct CompletionRequest : CommonRequest {
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  bool echo = false;
};

enum class ToolChoice { none, automatic, required, named };

struct ChatRequest : CommonRequest {
  Json messages;  // as a chat template wants them: contents are texts, arguments are objects
  Json tools;     // null: none
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name;  // when named
  std::optional<bool> thinking;
  Json template_variables = Json::Object{};
  bool continue_final_message = false;
  Json retrieve, memory;  // as sent (retrieval_prompt.h reads them); null: none
  Json rsa;               // likewise (rsa_request.h)
};

// `defaults`: what the model's own generation_config.json says.
CompletionRequest read_completion_request(const Json& body, const Sampling& defaults,
                                          const ApiLimits& limits = {});
ChatRequest read_chat_request(const Json& body, const Sampling& defaults,
                              const ApiLimits& limits = {});

}  // namespace tephra
