// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <limits>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/terminal.h"
#include "tephra/cli/chat_screen.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/sampling_flags.h"
#include "tephra/infer/generate.h"
#include "tephra/text/chat_session.h"
#include "tephra/text/text_stream.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> prompt;
  std::vector<int64_t> prompt_ids;
  std::vector<std::string> stop;
  bool special = false;
  bool chat = false, no_think = false;
  std::optional<std::string> system;
  int64_t max_new_tokens = 32;
  Sampling sampling;
  int64_t seed = 0;
  bool ignore_eos = false;
  ModelFlags runs{.weights = "mapped"};
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder: config.json and model*.safetensors").required();
  flags.add(
      "--prompt TEXT", o.prompt,
      "the text to continue; the model folder needs a tokenizer.json. What the tokenizer puts "
      "before a text (bos) is added, what it puts after (eos) is not");
  flags.add("--prompt-ids", o.prompt_ids,
            "token ids of the prompt instead, e.g. 2,9259,236888; the answer is ids, too");
  flags.add("--stop STR", o.stop,
            "end before this text, wherever tokens are cut; it is not printed. May be repeated");
  flags.add("--chat", o.chat,
            "the prompt is a user's message: put it through the model's chat template, and tell "
            "reasoning, content and tool calls of the answer apart");
  flags.add("--system TEXT", o.system, "the system message of the chat").of("--chat");
  flags.add("--no-think", o.no_think, "ask the chat template for an answer without reasoning")
      .of("--chat");
  flags.add("--special", o.special, "print special tokens, too");
  flags.add("--max-new-tokens", o.max_new_tokens, "stop after this many").range(0, 1e9);
  describe_sampling(flags, o.sampling);
  flags.add("--seed", o.seed, "the same seed gives the same tokens").range(0, 9e18);
  flags.add("--ignore-eos", o.ignore_eos, "go on past the end-of-text token");
  o.runs.describe(flags);
  flags.add("--json", o.json, "one JSON document instead of a stream");
  flags.example("tephra generate --model DIR --prompt 'Once upon a time' --stop 'The end'");
  flags.example("tephra generate --model DIR --chat --system 'Be brief.' --prompt 'Who are you?'");
  flags.example("tephra generate --model build/quickstart/model --prompt-ids 2,17,42");
  flags.example(
      "tephra generate --model DIR --prompt-ids 2,17 --temperature 0.6 --top-p 0.95 --seed 7");
}

void check_options(const Options& o) {
  require(o.prompt.has_value() != !o.prompt_ids.empty(),
          "expected --prompt TEXT or --prompt-ids, got {}", o.prompt ? "both" : "neither");
  require(!o.chat || o.prompt, "--chat needs --prompt TEXT, the user's message");
  check_sampling_flags(o.sampling);
}

// Only text needs a tokenizer: ids in, ids out works without.
std::optional<Tokenizer> load_tokenizer(const Options& o) {
  if (!o.prompt && o.stop.empty()) return std::nullopt;
  const Path file = Path(o.model) / "tokenizer.json";
  if (std::filesystem::is_directory(o.model) && !std::filesystem::exists(file)) {
    throw Error(Fault::usage,
                format("{}: {} needs a tokenizer.json in the model folder, there is none", o.model,
                       o.prompt ? "--prompt" : "--stop"),
                "give token ids with --prompt-ids, or copy the tokenizer.json of the model there");
  }
  return Tokenizer::load(o.model);
}

// The text the model continues: the prompt, or what the chat template makes of it.
std::string prompt_text(const Options& o) {
  if (!o.chat) return o.prompt.value_or("");
  ChatSession session(ChatTemplate::load(o.model));
  if (o.system) session.add("system", *o.system);
  session.add("user", *o.prompt);
  ChatOptions options;
  if (o.no_think) options.enable_thinking = false;
  return session.prompt(options);
}

std::vector<int32_t> prompt_tokens(const Options& o, const std::string& text,
                                   const std::optional<Tokenizer>& tokenizer, int64_t vocab_size) {
  std::vector<int64_t> ids = o.prompt_ids;
  if (o.prompt) {
    // A template writes its own special tokens.
    const AddSpecial special = o.chat ? AddSpecial::none : AddSpecial::before;
    for (const int32_t id : tokenizer->encode(text, special)) ids.push_back(id);
    require(!ids.empty(), "--prompt: expected text, got nothing to begin with");
  }
  std::vector<int32_t> checked;
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0 && ids[i] < vocab_size,
            "{}: token {} is {}; the model's vocabulary has ids 0 to {}{}",
            o.prompt ? "--prompt" : "--prompt-ids", i, ids[i], vocab_size - 1,
            o.prompt ? "; is this its tokenizer.json?" : "");
    checked.push_back(static_cast<int32_t>(ids[i]));
  }
  return checked;
}

// What has been generated, shown as it comes: text when the prompt was text, else ids.
class Output {
 public:
  Output(const Options& o, const std::string& prompt, const std::optional<Tokenizer>& tokenizer)
      : show_text_(!o.json && o.prompt), show_ids_(!o.json && !o.prompt), special_(o.special) {
    const bool keep_special = o.special || o.chat;
    if (tokenizer) stream_.emplace(*tokenizer, o.stop, DecodeOptions{.keep_special = keep_special});
    if (!o.chat) return;
    tokenizer_ = &*tokenizer;
    parser_.emplace(ChatParserOptions{.starts_thinking = ChatSession::opens_thinking(prompt)});
  }

  void add(int32_t id) {
    if (show_ids_) show((first_ ? "" : ",") + std::to_string(id));
    first_ = false;
    if (stream_ && !is_hidden(id)) add_text(stream_->add(id));
  }
  void finish() {
    if (stream_) add_text(stream_->finish());
    if (parser_) tell(parser_->finish());
    if (show_text_ || show_ids_) show("\n");  // before the log speaks
  }

  std::optional<std::string> stopped_by() const {
    return stream_ ? stream_->stopped_by() : std::nullopt;
  }
  const std::string& text() const { return text_; }
  const std::optional<ChatReply>& reply() const { return reply_; }

 private:
  // Of the special tokens a chat shows those alone that part its answer.
  bool is_hidden(int32_t id) const {
    if (tokenizer_ == nullptr || special_ || !tokenizer_->is_special(id)) return false;
    const std::string token = tokenizer_->token(id);
    return token != "<think>" && token != "</think>" && token != "<zyphra_tool_call>" &&
           token != "</zyphra_tool_call>";
  }

  void tell(const ChatDelta& delta) {
    if (!reply_) reply_.emplace();
    reply_->reasoning += delta.reasoning;
    reply_->content += delta.content;
    reply_->tool_calls.insert(reply_->tool_calls.end(), delta.tool_calls.begin(),
                              delta.tool_calls.end());
  }

  void add_text(const std::string& text) {
    text_ += text;
    if (parser_) tell(parser_->add(text));
    // A model's control characters could command the terminal.
    if (show_text_) show(stdout_is_terminal() ? harmless(text) : text);
  }
  static void show(const std::string& text) {
    if (text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  bool show_text_, show_ids_, special_;
  bool first_ = true;
  const Tokenizer* tokenizer_ = nullptr;  // of a chat
  std::optional<ChatParser> parser_;
  std::optional<ChatReply> reply_;
  std::optional<TextStream> stream_;
  std::string text_;
};

const char* finish_reason(const Generation& g, const Output& output) {
  if (g.stopped_at_eos) return "eos";
  if (output.stopped_by()) return "stop";
  return interrupted() ? "interrupted" : "length";
}

void print_reply(Json& out, const ChatReply& reply) {
  Json calls = Json::Array{};
  for (const ToolCall& call : reply.tool_calls) {
    calls.push_back(Json::Object{{"name", call.name}, {"arguments", call.arguments}});
  }
  out["reasoning"] = reply.reasoning;
  out["content"] = reply.content;
  out["tool_calls"] = std::move(calls);
}

void print_json(const Options& o, const std::vector<int32_t>& prompt, const Generation& g,
                const Output& output) {
  Json out;
  Json prompt_ids = Json::Array{}, tokens = Json::Array{};
  for (const int32_t id : prompt) prompt_ids.push_back(int64_t{id});
  for (const int32_t id : g.tokens) tokens.push_back(int64_t{id});
  out["prompt_ids"] = prompt_ids;
  out["tokens"] = tokens;
  if (o.prompt) out["text"] = output.text();
  if (output.reply()) print_reply(out, *output.reply());
  out["finish_reason"] = finish_reason(g, output);
  if (const auto stop = output.stopped_by()) out["stop"] = *stop;
  out["prefill_seconds"] = g.prefill_seconds;
  out["decode_seconds"] = g.decode_seconds;
  std::printf("%s\n", out.dump(2).c_str());
}

int run(const Options& o) {
  check_options(o);
  const std::optional<Tokenizer> tokenizer = load_tokenizer(o);
  const std::string text = prompt_text(o);
  Output output(o, text, tokenizer);
  const Device device = parse_device(o.runs.device);
  constexpr int64_t kManyTokens = 256;  // from 128 on a copy has been worth its time (0121)
  const auto model = o.runs.load(o.model, device, o.max_new_tokens >= kManyTokens);
  const std::vector<int32_t> prompt = prompt_tokens(o, text, tokenizer, model->tokens().vocab_size);

  GenerateOptions options;
  options.max_new_tokens = o.max_new_tokens;
  options.sampling = o.sampling;
  options.sampling.seed = static_cast<uint64_t>(o.seed);
  options.stop_at_eos = !o.ignore_eos;
  options.on_token = [&](int32_t id) {
    output.add(id);
    return !interrupted() && !output.stopped_by();
  };
  const Generation g = generate(*model, prompt, options);
  output.finish();
  if (o.json) print_json(o, prompt, g, output);
  const double steps = static_cast<double>(g.tokens.size()) - 1;
  if (steps > 0 && g.decode_seconds > 0) {
    log_info("{} prompt tokens in {:.3f} s, then {:.1f} tokens/s", prompt.size(), g.prefill_seconds,
             steps / g.decode_seconds);
  }
  if (interrupted()) throw Error(Fault::interrupted, "interrupted");
  return 0;
}

}  // namespace

Command generate_command() {
  return command<Options>("generate", "continue a prompt, token by token", describe, run);
}

}  // namespace tephra
