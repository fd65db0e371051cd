// SPDX-License-Identifier: Apache-2.0
// tephra data run: a pipeline of stages from a TOML file.
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/pipeline/pipeline.h"

namespace tephra {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  bool overwrite = false;
  bool reference = false;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("CONFIG", o.config, "a TOML file; docs/data-config.md lists its keys").required();
  flags.add("--set KEY=VALUE", o.overrides, "another value of a key; may be repeated");
  flags.add("--overwrite", o.overwrite, "make stages anew whose settings changed");
  flags.add("--config-reference", o.reference, "only print every key of the file, as Markdown")
      .alone();
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra data run configs/data/example.toml");
  flags.example("tephra data run --config-reference");
  flags.example(
      "tephra data run pipeline.toml --set out=other --set stages.0.mode=compat --overwrite");
}

int64_t count(const Json& counts, const char* name) {
  const Json* value = counts.find(name);
  return value != nullptr && value->is_int() ? value->integer() : 0;
}

Tally tally_of(const Json& counts) {
  Tally tally;
  for (const auto& [name, value] : counts.object()) {
    if (value.is_int()) tally.count(name, value.integer());
  }
  return tally;
}

int run(const Options& o) {
  if (o.reference) {
    std::fputs(pipeline_reference().c_str(), stdout);
    return 0;
  }
  PipelineConfig config;
  ConfigFile::read(o.config, o.overrides).load(config);
  const PipelineResult result = run_pipeline(config, o.overwrite);
  if (!result.first) return 0;
  if (o.json) {
    Json json, stages = Json::Object{};
    for (const auto& [name, counts] : result.stages) stages.object().emplace_back(name, counts);
    json["stages"] = std::move(stages);
    if (config.tokens) {
      json["documents"] = result.tokens.documents;
      json["tokens"] = result.tokens.tokens;
      json["shard"] = result.tokens.to_json();
    }
    print_json(json);
    return 0;
  }
  for (const auto& [name, counts] : result.stages) {
    const Tally tally = tally_of(counts);
    tell_bad(tally, name + ": ");
    tell_left_out(tally, name + ": ");
    print("{}: {} of {} documents kept", name, human_count(count(counts, "kept")),
          human_count(count(counts, "documents")));
  }
  if (config.tokens) {
    tell_bad(result.tokens.troubles, "tokens: ");
    tell_left_out(result.tokens.troubles, "tokens: ");
    print("tokens: {} of {} documents", human_count(result.tokens.tokens),
          human_count(result.tokens.documents));
  }
  return 0;
}

}  // namespace

Command data_run_command() {
  return command<Options>("data run", "a pipeline of stages from a TOML file", describe, run);
}

}  // namespace tephra
