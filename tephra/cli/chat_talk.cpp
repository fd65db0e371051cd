// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/chat_talk.h"

#include <algorithm>
#include <random>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/infer/known_tokens.h"
#include "tephra/infer/recommended_sampling.h"
#include "tephra/serve/answer_source.h"
#include "tephra/text/chat_session.h"

namespace tephra {
namespace {

uint64_t drawn_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

Json message_of(const char* role, const std::string& content) {
  return Json::Object{{"role", role}, {"content", content}};
}

std::string role_of(const Json& message) { return message.find("role")->string(); }

Json read_saved_message(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  const std::string role = fields.string("role");
  require_data(role == "system" || role == "user" || role == "assistant",
               "{}: role: expected system, user or assistant, got '{}'", where, clipped(role, 40));
  Json message = message_of(role.c_str(), fields.string("content"));
  const std::string reasoning = fields.string_or("reasoning", "");
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  return message;
}

}  // namespace

ChatTalk::ChatTalk(Model& model, const Path& folder, const EngineOptions& options)
    : tokenizer_(Tokenizer::load(folder)),
      form_(ChatTemplate::load(folder)),
      engine_(model, options) {
  warn_of_unknown_tokens(tokenizer_, model, folder);
  settings.sampling = recommended_sampling(folder);
}

Json ChatTalk::whole_conversation() const {
  Json all = Json::Array{};
  if (!system_.empty()) all.push_back(message_of("system", system_));
  for (const Json& message : messages_.array()) all.push_back(message);
  return all;
}

TalkAnswer ChatTalk::say(const std::string& text, const std::function<void(const ChatDelta&)>& tell,
                         const std::function<bool()>& stop) {
  messages_.push_back(message_of("user", text));
  try {
    TalkAnswer a = answer(tell, stop);
    Json message = message_of("assistant", a.reply.content);
    if (!a.reply.reasoning.empty()) message["reasoning_content"] = a.reply.reasoning;
    messages_.push_back(std::move(message));
    return a;
  } catch (...) {
    messages_.array().pop_back();
    throw;
  }
}

TalkAnswer ChatTalk::answer(const std::function<void(const ChatDelta&)>& tell,
                            const std::function<bool()>& stop) {
  ChatOptions options;
  options.enable_thinking = settings.thinking;
  const std::string prompt = form_.render(whole_conversation(), {}, options);
  AnswerSpec spec;
  spec.prompts.push_back(tokenizer_.encode(prompt, AddSpecial::none));
  spec.sampling = settings.sampling;
  spec.sampling.seed = settings.seed ? static_cast<uint64_t>(*settings.seed) : drawn_seed();
  spec.shown_specials = {"<think>", "</think>", "<zyphra_tool_call>", "</zyphra_tool_call>"};
  const auto length = static_cast<int64_t>(spec.prompts[0].size());
  const int64_t room = engine_.room_for(length);
  if (room < 1) {
    throw Error(Fault::usage,
                format("the conversation has {} tokens; there is room for {}", length, context()),
                "/reset begins a new one; a larger --kv-memory or --context may help");
  }
  spec.max_new_tokens = std::min(room, settings.max_tokens.value_or(room));

  const double begin = steady_seconds();
  AnswerSource source(engine_, tokenizer_, metrics_, std::move(spec));
  ChatParser parser({.starts_thinking = ChatSession::opens_thinking(prompt), .tools = {}});
  TalkAnswer a;
  const auto add = [&](const ChatDelta& delta) {
    a.reply.reasoning += delta.reasoning;
    a.reply.content += delta.content;
    tell(delta);
  };
  while (!source.finished()) {
    if (stop()) {
      a.whole = false;
      break;  // the source cancels what is left
    }
    const std::optional<AnswerPiece> piece = source.next(0.05);
    if (!piece) continue;
    add(parser.add(piece->text));
    if (!piece->end) continue;
    if (has_error(piece->end->reason)) throw Error(Fault::device, piece->end->error);
    a.usage = piece->end->usage;
    a.cut = piece->end->reason == EndReason::length;
  }
  add(parser.finish());
  a.seconds = steady_seconds() - begin;
  return a;
}

std::optional<std::string> ChatTalk::take_back() {
  Json::Array& all = messages_.array();
  while (!all.empty() && role_of(all.back()) != "user") all.pop_back();
  if (all.empty()) return std::nullopt;
  std::string text = all.back().find("content")->string();
  all.pop_back();
  return text;
}

void ChatTalk::save(const Path& file) const {
  const Json all = whole_conversation();
  Json messages = Json::Array{};
  for (const Json& each : all.array()) {
    Json message = message_of(role_of(each).c_str(), each.find("content")->string());
    if (const Json* thoughts = each.find("reasoning_content")) message["reasoning"] = *thoughts;
    messages.push_back(std::move(message));
  }
  write_file(file, Json(Json::Object{{"messages", std::move(messages)}}).dump() + "\n");
}

void ChatTalk::load(const Path& file) {
  const std::string text = read_file(file);
  const std::vector<std::string_view> lines = split(trim(text), '\n');
  if (lines.size() > 1) {
    log_warning("{}: it holds {} conversations; the first is taken", file.string(), lines.size());
  }
  const Json json = Json::parse(lines[0], file.string());
  std::string system;
  Json messages = Json::Array{};
  for (const Json& each : Fields(json, file.string()).array("messages")) {
    Json message = read_saved_message(each, file.string());
    if (role_of(message) == "system") {
      require_data(messages.array().empty() && system.empty(),
                   "{}: expected one system message at most, and that first", file.string());
      system = message.find("content")->string();
    } else {
      messages.push_back(std::move(message));
    }
  }
  system_ = std::move(system);
  messages_ = std::move(messages);
}

}  // namespace tephra
