// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <limits>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/cli/command.h"
#include "tephra/infer/generate.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::vector<int64_t> prompt_ids;
  int64_t max_new_tokens = 32;
  Sampling sampling;
  int64_t seed = 0;
  bool ignore_eos = false;
  std::string dtype = "f32";
  std::string device = "cpu";
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--model", o.model, "model folder: config.json and model*.safetensors").required();
  flags.add("--prompt-ids", o.prompt_ids, "token ids of the prompt, e.g. 2,9259,236888").required();
  flags.add("--max-new-tokens", o.max_new_tokens, "stop after this many").range(0, 1e9);
  flags.add("--temperature", o.sampling.temperature, "0 takes the likeliest token");
  flags.add("--top-k", o.sampling.top_k, "keep this many of the likeliest tokens; 0 keeps all");
  flags.add("--top-p", o.sampling.top_p, "keep the likeliest tokens up to this share of the mass");
  flags.add("--min-p", o.sampling.min_p, "drop tokens below this share of the likeliest's mass");
  flags.add("--seed", o.seed, "the same seed gives the same tokens").range(0, 9e18);
  flags.add("--ignore-eos", o.ignore_eos, "go on past the end-of-text token");
  flags.add("--dtype", o.dtype, "arithmetic").choices({"f32", "bf16"});
  flags.add("--device", o.device, "cpu");
  flags.add("--json", o.json, "one JSON document instead of a stream of ids");
  flags.example("tephra generate --model build/quickstart/model --prompt-ids 2,17,42");
  flags.example(
      "tephra generate --model DIR --prompt-ids 2,17 --temperature 0.6 --top-p 0.95 --seed 7");
}

std::vector<int32_t> checked_ids(const std::vector<int64_t>& ids, int64_t vocab_size) {
  std::vector<int32_t> checked;
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0 && ids[i] < vocab_size,
            "--prompt-ids: token {} is {}; the model's vocabulary has ids 0 to {}", i, ids[i],
            vocab_size - 1);
    checked.push_back(static_cast<int32_t>(ids[i]));
  }
  return checked;
}

const char* finish_reason(const Generation& g) {
  if (g.stopped_at_eos) return "eos";
  return interrupted() ? "interrupted" : "length";
}

void print_json(const Options& o, const Generation& g) {
  Json out;
  Json prompt = Json::Array{}, tokens = Json::Array{};
  for (const int64_t id : o.prompt_ids) prompt.push_back(id);
  for (const int32_t id : g.tokens) tokens.push_back(int64_t{id});
  out["prompt_ids"] = prompt;
  out["tokens"] = tokens;
  out["finish_reason"] = finish_reason(g);
  out["prefill_seconds"] = g.prefill_seconds;
  out["decode_seconds"] = g.decode_seconds;
  std::printf("%s\n", out.dump(2).c_str());
}

int run(const Options& o) {
  GenerateOptions options;
  options.max_new_tokens = o.max_new_tokens;
  options.sampling = o.sampling;
  options.sampling.seed = static_cast<uint64_t>(o.seed);
  options.stop_at_eos = !o.ignore_eos;
  check_sampling(options.sampling);
  const Sampling& s = o.sampling;
  if (s.temperature == 0 && (s.top_k > 0 || s.top_p < 1 || s.min_p > 0)) {
    log_warning("--top-k, --top-p and --min-p change nothing at --temperature 0");
  }

  const auto model =
      load_model(o.model, {.dtype = *parse_dtype(o.dtype), .device = parse_device(o.device)});
  const std::vector<int32_t> prompt = checked_ids(o.prompt_ids, model->tokens().vocab_size);

  install_signal_handlers();
  bool first = true;
  options.on_token = [&](int32_t id) {
    if (!o.json) {
      std::printf(first ? "%d" : ",%d", id);
      std::fflush(stdout);
      first = false;
    }
    return !interrupted();
  };
  const Generation g = generate(*model, prompt, options);
  if (o.json) {
    print_json(o, g);
  } else {
    std::printf("\n");
    std::fflush(stdout);  // before the log speaks
  }
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
