// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/api_request.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tephra/base/text.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/api_fields.h"

namespace tephra {
namespace {

// Said to be understood by others, and without effect on what is answered here.
const std::vector<std::string> kWithoutEffect = {"user",
                                                 "metadata",
                                                 "store",
                                                 "service_tier",
                                                 "safety_identifier",
                                                 "prompt_cache_key",
                                                 "prompt_cache_retention",
                                                 "parallel_tool_calls",
                                                 "verbosity"};

const std::vector<std::string> kCommon = {"model",
                                          "max_tokens",
                                          "max_completion_tokens",
                                          "temperature",
                                          "top_p",
                                          "top_k",
                                          "min_p",
                                          "n",
                                          "stop",
                                          "stream",
                                          "stream_options",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "repetition_penalty",
                                          "logit_bias",
                                          "seed",
                                          "ignore_eos",
                                          "response_format",
                                          "logprobs"};

std::vector<std::string> joined(std::initializer_list<const std::vector<std::string>*> lists) {
  std::vector<std::string> all;
  for (const auto* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

std::vector<std::string> read_stop(const ApiFields& body, const ApiLimits& limits) {
  std::vector<std::string> stops;
  const Json* stop = body.find("stop");
  if (stop == nullptr) return stops;
  if (stop->is_string()) {
    stops.push_back(stop->string());
  } else {
    require_field(stop->is_array(), "stop", "expected a string or a list of strings, got {}",
                  stop->kind());
    for (const Json& each : stop->array()) {
      require_field(each.is_string(), "stop", "expected strings, got {}", each.kind());
      stops.push_back(each.string());
    }
  }
  require_field(static_cast<int64_t>(stops.size()) <= limits.stops, "stop",
                "expected at most {}, got {}", limits.stops, stops.size());
  for (const std::string& each : stops) {
    require_field(!each.empty() && each.size() <= 1024, "stop",
                  "expected strings of 1 to 1024 bytes");
  }
  return stops;
}

std::vector<std::pair<int32_t, double>> read_bias(const ApiFields& body) {
  std::vector<std::pair<int32_t, double>> bias;
  const Json* given = body.find("logit_bias");
  if (given == nullptr) return bias;
  require_field(given->is_object(), "logit_bias", "expected an object of token ids, got {}",
                given->kind());
  for (const auto& [key, value] : given->object()) {
    // Written in one way, so that no token is there twice.
    const bool id =
        !key.empty() && key.size() <= 9 && (key == "0" || key[0] != '0') &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    require_field(id, "logit_bias", "expected token ids as keys, got '{}'", clipped(key, 40));
    require_field(value.is_number() && std::abs(value.number()) <= 100, "logit_bias",
                  "expected a number from -100 to 100 for token {}", key);
    bias.emplace_back(std::stoi(key), value.number());
  }
  return bias;
}

void read_response_format(const ApiFields& body, CommonRequest& r) {
  const Json* given = body.find("response_format");
  if (given == nullptr) return;
  const ApiFields format(*given, "response_format");
  const std::string type = format.string("type");
  if (type == "text") return;
  if (type == "json_object") {
    r.form = OutputForm::json_object;
    return;
  }
  require_field(type == "json_schema", "response_format.type",
                "expected text, json_object or json_schema, got '{}'", clipped(type, 40));
  const ApiFields wrapped = format.object("json_schema");
  const Json* schema = wrapped.find("schema");
  require_field(schema != nullptr && (schema->is_object() || schema->is_bool()),
                "response_format.json_schema.schema", "expected a JSON schema");
  r.form = OutputForm::json_schema;
  r.schema = *schema;
}

void read_sampling(const ApiFields& body, const Sampling& defaults, CommonRequest& r) {
  Sampling& s = r.sampling;
  s.temperature = body.number("temperature", defaults.temperature, 0, 100);
  s.top_p = body.number("top_p", defaults.top_p, 0, 1);
  require_field(s.top_p > 0, "top_p", "expected a share above 0");
  s.min_p = body.number("min_p", defaults.min_p, 0, 1);
  s.top_k = body.integer("top_k", defaults.top_k, -1, 1 << 30);
  s.top_k = std::max<int64_t>(0, s.top_k);  // others write -1 for off
  s.repetition = body.number("repetition_penalty", defaults.repetition, 0.01, 100);
  s.presence = body.number("presence_penalty", 0, -2, 2);
  s.frequency = body.number("frequency_penalty", 0, -2, 2);
  s.bias = read_bias(body);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  r.seeded = body.find("seed") != nullptr;
  s.seed = static_cast<uint64_t>(body.integer("seed", 0, kLeast, kMost));
}

void read_common(const ApiFields& body, const Sampling& defaults, const ApiLimits& limits,
                 CommonRequest& r) {
  r.model = body.string_or("model", "");
  constexpr int64_t kMost = 1 << 30;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (body.find(name) == nullptr) continue;
    const int64_t most = body.integer(name, 0, 0, kMost);
    const int64_t before = r.max_tokens.value_or(most);
    require_field(before == most, name, "says {} where max_tokens says {}; leave one out", most,
                  before);
    r.max_tokens = most;
  }
  read_sampling(body, defaults, r);
  r.n = body.integer("n", 1, 1, limits.choices);
  r.stop = read_stop(body, limits);
  r.stream = body.boolean("stream", false);
  r.ignore_eos = body.boolean("ignore_eos", false);
  if (const Json* options = body.find("stream_options")) {
    require_field(r.stream, "stream_options", "is for requests with stream: true");
    const ApiFields inner(*options, "stream_options");
    inner.allow({"include_usage", "include_obfuscation"});
    r.include_usage = inner.boolean("include_usage", false);
  }
  read_response_format(body, r);
}

using Prompt = std::variant<std::string, std::vector<int32_t>>;

std::vector<int32_t> read_ids(const Json::Array& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool fits = id.is_int() && id.integer() >= 0 && id.integer() <= INT32_MAX;
    require_field(fits, "prompt", "expected token ids, got {}", id.kind());
    ids.push_back(static_cast<int32_t>(id.integer()));
  }
  return ids;
}

// A text, a list of ids, or a list of either.
std::vector<Prompt> read_prompts(const Json* prompt) {
  require_field(prompt != nullptr, "prompt", "expected a string, token ids, or a list of these");
  if (prompt->is_string()) return {prompt->string()};
  require_field(prompt->is_array() && !prompt->array().empty(), "prompt",
                "expected a string, token ids, or a list of these, got {}", prompt->kind());
  const Json::Array& list = prompt->array();
  if (list[0].is_int()) return {read_ids(list)};
  std::vector<Prompt> prompts;
  for (const Json& each : list) {
    require_field(each.is_string() || each.is_array(), "prompt",
                  "expected strings or lists of token ids, got {}", each.kind());
    if (each.is_string()) {
      prompts.emplace_back(each.string());
    } else {
      prompts.emplace_back(read_ids(each.array()));
    }
  }
  return prompts;
}

}  // namespace

CompletionRequest read_completion_request(const Json& json, const Sampling& defaults,
                                          const ApiLimits& limits) {
  const ApiFields body(json, "");
  const std::vector<std::string> own = {"prompt", "echo", "best_of", "suffix"};
  body.allow(joined({&kCommon, &own, &kWithoutEffect}));
  CompletionRequest r;
  read_common(body, defaults, limits, r);
  r.prompts = read_prompts(body.find("prompt"));
  r.echo = body.boolean("echo", false);
  require_field(static_cast<int64_t>(r.prompts.size()) * r.n <= limits.choices, "prompt",
                "{} prompts times n = {} are more than the {} answers of one request",
                r.prompts.size(), r.n, limits.choices);
  require_field(body.integer("best_of", r.n, 1, limits.choices) == r.n, "best_of",
                "only as many as n are made; leave it out");
  require_field(body.find("suffix") == nullptr, "suffix", "this model cannot fill in a middle");
  if (body.find("logprobs") != nullptr) {
    r.top_logprobs = body.integer("logprobs", 0, 0, limits.top_logprobs);
  }
  if (!r.max_tokens) r.max_tokens = 16;  // OpenAI's default
  return r;
}

namespace {

// A content as text: a string, or a list of text parts.
Json read_content(const Json* content, const std::string& where) {
  if (content == nullptr || content->is_null()) return {};
  if (content->is_string()) return *content;
  require_field(content->is_array(), where, "expected a string or a list of parts, got {}",
                content->kind());
  std::string text;
  for (const Json& part : content->array()) {
    const ApiFields fields(part, where);
    const std::string type = fields.string("type");
    require_field(type == "text", where,
                  "expected parts of type text, got '{}'; this model reads text alone",
                  clipped(type, 40));
    text += fields.string("text");
  }
  return text;
}

// Arguments come as JSON in a string; templates want the object.
Json read_tool_calls(const Json& calls, const std::string& where) {
  require_field(calls.is_array(), where, "expected a list, got {}", calls.kind());
  Json read = Json::Array{};
  for (const Json& call : calls.array()) {
    const ApiFields function = ApiFields(call, where).object("function");
    Json arguments = Json::Object{};
    if (const Json* given = function.find("arguments")) {
      arguments = *given;
      if (given->is_string() && !trim(given->string()).empty()) {
        try {
          arguments = Json::parse(given->string(), where + ".arguments");
        } catch (const std::exception& e) {
          throw ApiError(400, e.what(), where);
        }
      } else if (given->is_string()) {
        arguments = Json::Object{};
      }
    }
    Json named =
        Json::Object{{"name", function.string("name")}, {"arguments", std::move(arguments)}};
    Json one = Json::Object{{"type", "function"}, {"function", std::move(named)}};
    if (const Json* id = call.find("id")) one["id"] = *id;
    read.push_back(std::move(one));
  }
  return read;
}

Json read_message(const Json& message, const std::string& where) {
  const ApiFields fields(message, where);
  std::string role = fields.string("role");
  const std::vector<std::string> roles = {"system", "developer", "user", "assistant", "tool"};
  require_field(std::find(roles.begin(), roles.end(), role) != roles.end(), where + ".role",
                "expected system, developer, user, assistant or tool, got '{}'", clipped(role, 40));
  if (role == "developer") role = "system";
  Json read = Json::Object{{"role", role}};
  const Json content = read_content(fields.find("content"), where + ".content");
  const Json* calls = fields.find("tool_calls");
  require_field(!content.is_null() || (role == "assistant" && calls != nullptr), where + ".content",
                "expected a text");
  read["content"] = content.is_null() ? Json("") : content;
  if (calls != nullptr) read["tool_calls"] = read_tool_calls(*calls, where + ".tool_calls");
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    if (fields.find(name) != nullptr) read[name] = fields.string(name);
  }
  return read;
}

Json read_messages(const Json* messages) {
  require_field(messages != nullptr && messages->is_array() && !messages->array().empty(),
                "messages", "expected a list with at least one message");
  Json read = Json::Array{};
  for (size_t i = 0; i < messages->array().size(); ++i) {
    read.push_back(read_message(messages->array()[i], format("messages[{}]", i)));
  }
  return read;
}

constexpr size_t kLongestToolName = 128;

// Calls are written with the name between tags.
bool can_be_called(std::string_view name) {
  return !name.empty() && name.size() <= kLongestToolName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return static_cast<unsigned char>(c) > 0x20 && c != 0x7f && c != '<' && c != '>';
         });
}

// What templates and grammars count on; the rest of a schema is looked at where it is used.
void check_parameters(const ApiFields& parameters, const std::string& where) {
  if (const Json* properties = parameters.find("properties")) {
    require_field(properties->is_object(), where + ".properties", "expected an object, got {}",
                  properties->kind());
    for (const auto& [name, schema] : properties->object()) {
      require_field(schema.is_object() || schema.is_bool(), where + ".properties",
                    "expected a JSON schema for '{}', got {}", clipped(name, 60), schema.kind());
    }
  }
  if (const Json* names = parameters.find("required")) {
    require_field(names->is_array(), where + ".required", "expected a list of names, got {}",
                  names->kind());
    for (const Json& name : names->array()) {
      require_field(name.is_string(), where + ".required", "expected names, got {}", name.kind());
    }
  }
}

void read_tools(const ApiFields& body, ChatRequest& r) {
  require_field(body.find("functions") == nullptr && body.find("function_call") == nullptr,
                "functions", "are gone from the API; use tools and tool_choice");
  if (const Json* tools = body.find("tools")) {
    require_field(tools->is_array(), "tools", "expected a list, got {}", tools->kind());
    for (size_t i = 0; i < tools->array().size(); ++i) {
      const ApiFields tool(tools->array()[i], format("tools[{}]", i));
      require_field(tool.string("type") == "function", format("tools[{}].type", i),
                    "expected function");
      const ApiFields function = tool.object("function");
      require_field(can_be_called(function.string("name")), format("tools[{}].function.name", i),
                    "expected a name of 1 to {} characters, without spaces, < and >, got '{}'",
                    kLongestToolName, clipped(function.string("name"), 60));
      if (function.find("parameters") != nullptr) {
        check_parameters(function.object("parameters"), format("tools[{}].function.parameters", i));
      }
    }
    if (!tools->array().empty()) r.tools = *tools;
  }
  const Json* choice = body.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    const std::string& word = choice->string();
    require_field(word == "none" || word == "auto" || word == "required", "tool_choice",
                  "expected none, auto, required or a named function, got '{}'", clipped(word, 40));
    r.tool_choice = word == "none"   ? ToolChoice::none
                    : word == "auto" ? ToolChoice::automatic
                                     : ToolChoice::required;
  } else {
    r.tool_choice = ToolChoice::named;
    r.tool_name = ApiFields(*choice, "tool_choice").object("function").string("name");
  }
  require_field(!r.tools.is_null() || r.tool_choice == ToolChoice::none ||
                    r.tool_choice == ToolChoice::automatic,
                "tool_choice", "asks for a tool, but no tools are given");
}

void read_thinking(const ApiFields& body, ChatRequest& r) {
  if (const Json* variables = body.find("chat_template_kwargs")) {
    require_field(variables->is_object(), "chat_template_kwargs", "expected an object, got {}",
                  variables->kind());
    r.template_variables = *variables;
    const Json* thinking = variables->find("enable_thinking");
    require_field(thinking == nullptr || thinking->is_bool(), "chat_template_kwargs",
                  "enable_thinking: expected true or false");
    if (thinking != nullptr) r.thinking = thinking->boolean();
  }
  if (body.find("enable_thinking") != nullptr) r.thinking = body.boolean("enable_thinking", true);
  if (body.find("reasoning_effort") != nullptr) {
    // The model thinks or does not; there is nothing between.
    const std::string effort = body.string("reasoning_effort");
    const std::vector<std::string> known = {"none", "minimal", "low", "medium", "high", "xhigh"};
    require_field(std::find(known.begin(), known.end(), effort) != known.end(), "reasoning_effort",
                  "expected none, minimal, low, medium, high or xhigh, got '{}'",
                  clipped(effort, 40));
    if (!r.thinking) r.thinking = effort != "none";
  }
}

}  // namespace

ChatRequest read_chat_request(const Json& json, const Sampling& defaults, const ApiLimits& limits) {
  const ApiFields body(json, "");
  const std::vector<std::string> own = {"messages",
                                        "tools",
                                        "tool_choice",
                                        "functions",
                                        "function_call",
                                        "top_logprobs",
                                        "chat_template_kwargs",
                                        "enable_thinking",
                                        "reasoning_effort",
                                        "modalities",
                                        "continue_final_message",
                                        "retrieve",
                                        "memory",
                                        "rsa"};
  body.allow(joined({&kCommon, &own, &kWithoutEffect}));
  ChatRequest r;
  read_common(body, defaults, limits, r);
  r.messages = read_messages(body.find("messages"));
  read_tools(body, r);
  read_thinking(body, r);
  r.continue_final_message = body.boolean("continue_final_message", false);
  if (const Json* retrieve = body.find("retrieve")) r.retrieve = *retrieve;
  if (const Json* memory = body.find("memory")) r.memory = *memory;
  if (const Json* rsa = body.find("rsa")) r.rsa = *rsa;
  if (const Json* modalities = body.find("modalities")) {
    require_field(modalities->dump() == R"(["text"])", "modalities", "expected [\"text\"]");
  }
  const bool logprobs = body.boolean("logprobs", false);
  const int64_t top = body.integer("top_logprobs", 0, 0, limits.top_logprobs);
  require_field(logprobs || top == 0, "top_logprobs", "is for requests with logprobs: true");
  if (logprobs) r.top_logprobs = top;
  return r;
}

}  // namespace tephra
