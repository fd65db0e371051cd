// SPDX-License-Identifier: Apache-2.0
// tephra checkpoint random: a model that has learned nothing, for tests, benchmarks and beginnings.
#include "tephra/base/log.h"
#include "tephra/cli/checkpoint_options.h"

namespace tephra {
namespace {

struct Options {
  std::string config;
  std::string out;
  int64_t seed = 0;
  std::string init = "standard";
  WriteFlags write;
};

void describe(Flags& flags, Options& o) {
  std::string presets;
  for (const std::string& name : preset_names()) presets += (presets.empty() ? "" : ", ") + name;
  flags.add("--config", o.config, "a config.json, or one of: " + presets).required();
  flags.add("--out DIR", o.out, "folder to write").required();
  flags.add("--seed", o.seed, "another seed, another model").range(0, 0x1p62);
  flags
      .add(
          "--init", o.init,
          "standard: as training starts; golden-like: every bias, scale and routing choice matters")
      .choices({"standard", "golden-like"});
  o.write.describe(flags, "of every tensor; default: the config's, else bf16");
  o.write.describe_bits(flags, "quantise what `checkpoint quantize` would: 8 or 4; 0: nothing");
  flags.example("tephra checkpoint random --config tiny --out /tmp/tiny");
  flags.example("tephra checkpoint random --config zaya1-8b --bits 4 --out /tmp/zaya1-8b-4bit");
  flags.example(
      "tephra checkpoint random --config configs/tiny-zaya1.json --out /tmp/tiny --seed 1");
}

int run(const Options& o) {
  const WriteOptions options = o.write.options();
  const bool is_file = std::filesystem::is_regular_file(o.config);
  if (!is_file && o.config.find_first_of("./") != std::string::npos) {
    throw Error(Fault::usage, format("--config {}: no such file", o.config));
  }
  const Json config =
      is_file ? Json::parse(read_file(o.config), o.config) : preset_config(o.config);
  const RandomInit init = o.init == "standard" ? RandomInit::standard : RandomInit::lively;
  write_random_checkpoint(config, o.config, o.out, static_cast<uint64_t>(o.seed), init, options);
  log_info("{}: written", o.out);
  return 0;
}

}  // namespace

Command checkpoint_random_command() {
  return command<Options>("checkpoint random", "write a model with random weights", describe, run);
}

}  // namespace tephra
