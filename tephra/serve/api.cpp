// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/api.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/infer/known_tokens.h"
#include "tephra/infer/recommended_sampling.h"
#include "tephra/serve/answer_writer.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/api_fields.h"
#include "tephra/serve/rsa_request.h"
#include "tephra/serve/rsa_source.h"
#include "tephra/text/aggregation.h"
#include "tephra/text/chat_session.h"

namespace tephra {
namespace {

constexpr int64_t kAnswerTokens = 1024;  // kept free for an answer beside what was retrieved

HttpResponse json_response(const Json& body, int status = 200) {
  return {.status = status, .body = body.dump() + "\n"};
}

HttpResponse error_response(const ApiError& e) {
  HttpResponse r = json_response(e.json(), e.status());
  if (e.status() == 429 || e.status() == 503) r.headers.emplace_back("Retry-After", "1");
  if (!e.allowed().empty()) r.headers.emplace_back("Allow", e.allowed());
  if (e.status() == 401) r.headers.emplace_back("WWW-Authenticate", "Bearer");
  return r;
}

// They tell reasoning, content and tool calls apart.
const std::vector<std::string> kShownSpecials = {"<think>", "</think>", "<zyphra_tool_call>",
                                                 "</zyphra_tool_call>"};

Json& last_user_message(Json& messages) {
  Json::Array& list = messages.array();
  const auto last = std::find_if(list.rbegin(), list.rend(),
                                 [](const Json& m) { return m.find("role")->string() == "user"; });
  if (last == list.rend()) throw ApiError(400, "rsa needs a message of the user", "messages");
  return *last;
}

uint64_t fresh_seed() {
  static thread_local std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Api::Api(Model& model, Tokenizer tokenizer, ApiOptions options)
    : model_(model),
      options_(std::move(options)),
      tokenizer_(std::move(tokenizer)),
      defaults_{.temperature = 1},
      forms_(tokenizer_, model.tokens()),
      sources_(options_.sources),
      created_(static_cast<int64_t>(std::time(nullptr))),
      engine_(model, options_.engine) {}

Api::Api(Model& model, const Path& folder, ApiOptions options)
    : Api(model, Tokenizer::load(folder), std::move(options)) {
  defaults_ = recommended_sampling(folder);
  warn_of_unknown_tokens(tokenizer_, model, folder);
  if (ChatTemplate::present(folder)) chat_ = ChatTemplate::load(folder);
}

HttpResponse Api::refusal(int status, const std::string& message) {
  return error_response(ApiError(status, message));
}

HttpResponse Api::handle(const HttpRequest& request, const HttpClientConnection& client) {
  HttpResponse response;
  try {
    response = route(request, client);
  } catch (const ApiError& e) {
    response = error_response(e);
  } catch (const Error& e) {
    // What the caller got wrong, found where the work is done: a prompt too long, a template that
    // raises.
    const bool theirs = e.fault() == Fault::usage;
    if (!theirs) log_error("serve: {} {}: {}", request.method, request.path, e.what());
    response = error_response(
        ApiError(theirs ? 400 : 500, theirs ? e.what() : "the server failed; its log says why"));
  }
  const bool known = response.status != 404 && response.status != 405;
  metrics_.count_request(known ? sources_label(request.path) : "other", response.status);
  return response;
}

HttpResponse Api::route(const HttpRequest& request, const HttpClientConnection& client) {
  const std::string& path = request.path;
  if (options_.hosts) options_.hosts->check(request);
  for (const StaticPage& page : options_.pages) {
    if (page.path != path) continue;
    require_method(request, kReadingMethods);
    return {.content_type = page.content_type, .body = page.body, .headers = page.headers};
  }
  if (path == "/health") {
    require_method(request, kReadingMethods);
    return health();
  }

  const std::string* authorization = request.header("authorization");
  if (!options_.keys.admits(authorization == nullptr ? "" : *authorization)) {
    throw ApiError(401, "expected the header 'Authorization: Bearer KEY' with a key of this server",
                   "", "invalid_api_key");
  }
  if (path == "/metrics") {
    require_method(request, kReadingMethods);
    return {.content_type = "text/plain; version=0.0.4", .body = metrics_.text(engine_.stats())};
  }
  if (path == "/v1/models" || path.starts_with("/v1/models/")) {
    require_method(request, kReadingMethods);
    return models(path);
  }
  if (path == "/v1/completions") {
    require_method(request, "POST");
    return complete(request, client);
  }
  if (path == "/v1/chat/completions") {
    require_method(request, "POST");
    return chat(request, client);
  }
  if (auto answered = answer_sources(sources_, request)) return *std::move(answered);
  throw ApiError(404, format("there is nothing at {}; see /v1/models, /v1/completions, "
                             "/v1/chat/completions, /v1/indexes, /v1/memories, /health, /metrics",
                             clipped(path, 100)));
}

HttpResponse Api::health() const {
  const EngineStats s = engine_.stats();
  Json body = Json::Object{{"status", draining_ ? "draining" : "ok"},
                           {"model", options_.model_name},
                           {"running", s.running},
                           {"waiting", s.waiting}};
  return json_response(body, draining_ ? 503 : 200);
}

HttpResponse Api::models(const std::string& path) const {
  Json model = Json::Object{{"id", options_.model_name},
                            {"object", "model"},
                            {"created", created_},
                            {"owned_by", "tephra"},
                            {"context_length", engine_.room_for(0) - 1},
                            {"rsa_tokens", options_.limits.rsa_tokens}};
  if (path == "/v1/models") {
    Json list = Json::Array{};
    list.push_back(std::move(model));
    return json_response(Json::Object{{"object", "list"}, {"data", std::move(list)}});
  }
  const std::string name = path.substr(std::string_view("/v1/models/").size());
  if (name != options_.model_name) {
    throw ApiError(404,
                   format("there is no model '{}'; this server has '{}'", clipped(name, 100),
                          options_.model_name),
                   "model", "model_not_found");
  }
  return json_response(model);
}

void Api::check_common(const CommonRequest& r) const {
  if (draining_) throw ApiError(503, "the server is shutting down");
  if (!r.model.empty() && r.model != options_.model_name) {
    throw ApiError(404,
                   format("there is no model '{}'; this server has '{}'", clipped(r.model, 100),
                          options_.model_name),
                   "model", "model_not_found");
  }
  for (const auto& [id, bias] : r.sampling.bias) {
    require_field(id < model_.tokens().vocab_size, "logit_bias",
                  "token {} is none of the model's {}", id, model_.tokens().vocab_size);
  }
}

std::vector<int32_t> Api::prompt_ids(const std::string& text, AddSpecial special) const {
  std::vector<int32_t> ids = tokenizer_.encode(text, special);
  if (ids.empty() && tokenizer_.bos()) ids.push_back(*tokenizer_.bos());
  return ids;
}

// A template that was loaded fails on what it is given. The log says so, too: it may be the
// template that is wrong.
std::string Api::rendered(const Json& messages, const Json& tools, const ChatOptions& form) const {
  try {
    return chat_->render(messages, tools, form);
  } catch (const Error& e) {
    if (e.fault() != Fault::data) throw;
    log_warning("serve: a chat that its template cannot write: {}", e.what());
    throw Error(Fault::usage, e.what());
  }
}

// The answer keeps what it asks for, or else a fair part of the context.
PromptRoom Api::prompt_room(const ChatRequest& r, const ChatOptions& form,
                            const Json& tools) const {
  const int64_t all = engine_.room_for(0);
  PromptRoom room;
  room.most = all - std::max<int64_t>(1, r.max_tokens.value_or(std::min(kAnswerTokens, all / 4)));
  if (!r.rsa.is_null()) {  // tails and a trace need more of it
    const RsaOptions o = read_rsa(r, options_.limits);
    const int64_t trace = o.trace_tokens > 0 ? o.trace_tokens : std::min(kAnswerTokens, all / 8);
    const int64_t tail = o.tail_tokens > 0 ? o.tail_tokens : trace / 2;
    room.most = all - trace - (o.rounds > 0 ? o.candidates * tail : 0);
  }
  room.text_tokens = [this](std::string_view text) {
    return static_cast<int64_t>(tokenizer_.encode(text).size());
  };
  room.prompt_tokens = [this, form, tools](const Json& messages) {
    const std::string text = rendered(messages, tools, form);
    return static_cast<int64_t>(prompt_ids(text, AddSpecial::none).size());
  };
  return room;
}

void Api::check_queue(int64_t wanted, const char* field) const {
  const int64_t most = options_.engine.sequences + options_.waiting;
  require_field(wanted <= most, field,
                "{} answers at once are more than the {} that this server makes and lets wait",
                wanted, most);
  const EngineStats now = engine_.stats();
  const int64_t free = std::max<int64_t>(0, options_.engine.sequences - now.running);
  if (now.waiting + wanted > options_.waiting + free) {
    throw ApiError(429, "too many requests are waiting; try again soon", "", "rate_limit_exceeded");
  }
}

std::shared_ptr<PieceSource> Api::start_rsa(const ChatRequest& r, const Json& messages,
                                            const ChatOptions& form) {
  RsaOptions options = read_rsa(r, options_.limits);
  if (!r.seeded) options.sampling.seed = fresh_seed();
  options.end_tokens = tokenizer_.eos();
  options.shown_specials = kShownSpecials;
  const auto ids = [this, form](const Json& chat) {
    return prompt_ids(rendered(chat, {}, form), AddSpecial::none);
  };
  RsaProblem problem{
      .prompt = ids(messages), .aggregate = [messages, ids](std::span<const std::string> tails) {
        Json chat = messages;
        Json& question = last_user_message(chat);
        question["content"] = aggregation_text(question.find("content")->string(), tails);
        return ids(chat);
      }};
  options = fit_rsa(options, options_.limits, engine_.room_for(0),
                    prompt_tokens_without_tails(problem, options));
  check_queue(options.traces, "rsa.n");
  const bool thinking = ChatSession::opens_thinking(rendered(messages, {}, form));
  return std::make_shared<RsaSource>(engine_, tokenizer_, metrics_, std::move(problem), options,
                                     thinking, r.stream);
}

std::shared_ptr<AnswerSource> Api::start(const CommonRequest& r, AnswerSpec spec) {
  check_queue(static_cast<int64_t>(spec.prompts.size()) * r.n, r.n > 1 ? "n" : "prompt");
  size_t longest = 0;
  for (const auto& prompt : spec.prompts) longest = std::max(longest, prompt.size());
  const int64_t room = engine_.room_for(static_cast<int64_t>(longest));
  if (room < 1 || (r.max_tokens && *r.max_tokens > room)) {
    throw ApiError(400,
                   format("the prompt has {} tokens{}; this server has room for {} in all", longest,
                          r.max_tokens ? format(" and {} new ones are asked for", *r.max_tokens)
                                       : std::string(),
                          room + static_cast<int64_t>(longest) - 1),
                   r.max_tokens ? "max_tokens" : "messages", "context_length_exceeded");
  }
  spec.n = r.n;
  spec.max_new_tokens = r.max_tokens.value_or(room);
  spec.sampling = r.sampling;
  if (!r.seeded) spec.sampling.seed = fresh_seed();
  spec.stop = r.stop;
  spec.ignore_eos = r.ignore_eos;
  spec.top_logprobs = r.top_logprobs;
  return std::make_shared<AnswerSource>(engine_, tokenizer_, metrics_, std::move(spec));
}

HttpResponse Api::complete(const HttpRequest& http, const HttpClientConnection& client) {
  const Json body = parse_json_body(http);
  CompletionRequest r = read_completion_request(body, defaults_, options_.limits);
  check_common(r);
  // Who asks for a prompt's likelihood and one token more counts on it: lm-evaluation-harness cuts
  // it off. So the token that ends the text is told as any other; there is nothing to go on with.
  if (r.echo && r.top_logprobs >= 0 && r.max_tokens == 1) r.ignore_eos = true;
  AnswerSpec spec;
  spec.make_filter = forms_.filter_for(r, /*thinking=*/false);
  std::vector<std::string> echoes;
  for (const auto& prompt : r.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      spec.prompts.push_back(prompt_ids(*text, AddSpecial::before));
      echoes.push_back(*text);
    } else {
      spec.prompts.push_back(std::get<std::vector<int32_t>>(prompt));
      echoes.push_back(tokenizer_.decode(spec.prompts.back(), {.keep_special = false}));
    }
  }
  spec.prompt_logprobs = r.echo && r.top_logprobs >= 0;
  CompletionWriter::Echo echo;
  if (r.echo) echo = {echoes, spec.prompts};
  auto source = start(r, std::move(spec));
  auto writer = std::make_unique<CompletionWriter>(r, options_.model_name, tokenizer_,
                                                   std::move(echo), source->answers());
  return answer(std::move(source), std::move(writer), r, client, options_.request_seconds);
}

HttpResponse Api::chat(const HttpRequest& http, const HttpClientConnection& client) {
  const Json body = parse_json_body(http);
  const ChatRequest r = read_chat_request(body, defaults_, options_.limits);
  check_common(r);
  if (!chat_) {
    throw ApiError(400, "this model has no chat template; use /v1/completions", "messages");
  }
  ChatOptions chat_options;
  chat_options.enable_thinking = r.thinking;
  chat_options.variables = r.template_variables;
  chat_options.continue_final_message = r.continue_final_message;
  chat_options.add_generation_prompt = !r.continue_final_message;
  const Json tools = r.tool_choice == ToolChoice::none ? Json() : r.tools;
  if (!r.rsa.is_null()) (void)read_rsa(r, options_.limits);  // before a memory stores anything
  SourcedChat sourced = with_sources(r, sources_, prompt_room(r, chat_options, tools));
  const std::string prompt = rendered(sourced.messages, tools, chat_options);

  AnswerSpec spec;
  spec.prompts.push_back(prompt_ids(prompt, AddSpecial::none));
  spec.make_filter = forms_.filter_for(r, ChatSession::opens_thinking(prompt));
  spec.shown_specials = kShownSpecials;
  std::shared_ptr<PieceSource> source;
  if (r.rsa.is_null()) {
    source = start(r, std::move(spec));
  } else {
    source = start_rsa(r, sourced.messages, chat_options);
  }
  const ChatParserOptions parsing{
      .starts_thinking = ChatSession::opens_thinking(prompt), .tools = tools, .held = must_call(r)};
  auto writer = std::make_unique<ChatWriter>(r, options_.model_name, tokenizer_, parsing,
                                             static_cast<size_t>(r.n));
  writer->attach(std::move(sourced.report));
  writer->on_finish(std::move(sourced.remember));
  return answer(std::move(source), std::move(writer), r, client, options_.request_seconds);
}

}  // namespace tephra
