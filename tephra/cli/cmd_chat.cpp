// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/chat_loop.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::string system;
  std::string load;
  std::optional<double> temperature, top_p, min_p;
  std::optional<int64_t> top_k, seed, max_tokens;
  bool no_think = false, hide_thoughts = false;
  std::string kv_memory = "4GiB";
  int64_t context = 0;
  ModelFlags runs;
};

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder with a tokenizer.json and a chat template")
      .required();
  flags.add("--system TEXT", o.system, "the system message");
  flags.add("--load FILE", o.load, "go on with a conversation that /save wrote");
  flags.add("--temperature", o.temperature,
            "0 takes the likeliest token; this and the next three are what the model's makers "
            "recommend, unless given");
  flags.add("--top-p", o.top_p, "keep the likeliest tokens up to this share of the mass");
  flags.add("--top-k", o.top_k, "keep this many of the likeliest tokens; 0 keeps all");
  flags.add("--min-p", o.min_p, "drop tokens below this share of the likeliest's mass");
  flags.add("--seed", o.seed, "the same seed gives the same answers; every one is drawn anew else")
      .range(0, 9e15);
  flags.add("--max-tokens", o.max_tokens, "of an answer; all the room there is by default")
      .range(1, 1e9);
  flags.add("--no-think", o.no_think, "ask the chat template for answers without reasoning");
  flags.add("--hide-thoughts", o.hide_thoughts, "do not show the reasoning");
  flags.add("--kv-memory SIZE", o.kv_memory, "memory for keys and values, at most");
  flags.add("--context", o.context, "tokens of the conversation, at most; 0: what the model can")
      .range(0, 1e9);
  o.runs.describe(flags);
  flags.example("tephra chat --model ZAYA1-8B");
  flags.example("tephra chat --model DIR --system 'You are brief.' --temperature 0.6 --seed 1");
  flags.example("tephra chat --model DIR --load talk.jsonl");
  flags.example("printf 'Who are you?\\nSince when?\\n' | tephra chat --model DIR > answers.txt");
}

void apply(const Options& o, TalkSettings& s) {
  s.sampling.temperature = o.temperature.value_or(s.sampling.temperature);
  s.sampling.top_p = o.top_p.value_or(s.sampling.top_p);
  s.sampling.top_k = o.top_k.value_or(s.sampling.top_k);
  s.sampling.min_p = o.min_p.value_or(s.sampling.min_p);
  check_sampling(s.sampling);
  s.seed = o.seed;
  s.max_tokens = o.max_tokens;
  if (o.no_think) s.thinking = false;
}

EngineOptions engine_options(const Options& o) {
  const auto bytes = parse_bytes(o.kv_memory);
  require(bytes && *bytes > 0, "--kv-memory: expected a size such as 4GiB, got '{}'", o.kv_memory);
  return {.kv_memory = *bytes, .sequences = 1, .context = o.context};
}

int run(const Options& o) {
  require_folder(o.model, "a model folder");
  require(ChatTemplate::present(o.model),
          "{}: expected a chat template (chat_template.jinja or tokenizer_config.json), there is "
          "none; tephra generate continues plain text",
          o.model);
  const EngineOptions engine = engine_options(o);
  const Device device = parse_device(o.runs.device);
  const auto model = o.runs.load(o.model, device);
  ChatTalk talk(*model, o.model, engine);
  apply(o, talk.settings);
  if (!o.load.empty()) talk.load(o.load);
  if (!o.system.empty()) talk.set_system(o.system);
  ChatInput input;
  ChatScreen screen;
  screen.show_thoughts = !o.hide_thoughts;
  if (input.interactive()) {
    log_info("{}, with room for {} tokens. /help lists the commands; Ctrl-D ends.",
             Path(o.model).filename().string(), human_count(talk.context()));
  }
  return ChatLoop(talk, input, screen).run();
}

}  // namespace

Command chat_command() {
  return command<Options>("chat", "talk to a model in the terminal", describe, run);
}

}  // namespace tephra
