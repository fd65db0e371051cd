// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/source_config.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/data/conversation_source.h"
#include "tephra/data/environment_source.h"
#include "tephra/data/shard_source.h"

namespace tephra {

void SourceConfig::fields(ConfigFields& f) {
  f.read("name", name, "what mixtures call it", {.required = true});
  f.read("kind", kind, "where its tokens come from",
         {.choices = {"shards", "environments", "conversations"}});
  f.read("paths", paths,
         "of shards: prefixes, or folders with .idx files; of conversations: .jsonl files");
  f.read("validation_paths", validation_paths, "the same, for validation only");
  f.check(kind == "environments" || !paths.empty(), "paths", "a source of " + kind + " needs one");
  f.check(kind != "environments" || paths.empty(), "paths", "environments read no files");
  f.read("environments", environments, "of environments: which kinds; none means all");
  f.check(kind == "environments" || environments.empty(), "environments",
          "is for sources of environments");
  f.read("min_level", min_level, "of environments: the easiest tasks", {.min = 1});
  f.read("max_level", max_level, "of environments: the hardest tasks", {.min = 1});
  f.check(min_level <= max_level, "max_level", "is below min_level");
  f.read("loss_on_prompts", loss_on_prompts,
         "of environments: learn the prompts, too, not only the solutions");
  f.read("aggregation", aggregation,
         "of environments: share of the tasks that are put with attempts at them, some wrong, as "
         "Markovian RSA asks (docs/rsa.md)",
         {.min = 0, .max = 1});
  f.check(kind == "environments" || aggregation == 0, "aggregation",
          "is for sources of environments");
  f.read("aggregation_candidates", aggregation_candidates, "attempts in such a task",
         {.min = 1, .max = 64});
  f.read("aggregation_tail", aggregation_tail, "tokens of each attempt, its last ones", {.min = 1});
}

std::vector<std::shared_ptr<const TokenShard>> open_shards(std::span<const std::string> paths) {
  std::vector<std::shared_ptr<const TokenShard>> shards;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      shards.push_back(TokenShard::open(path));
      continue;
    }
    std::vector<Path> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().extension() == ".idx") found.push_back(entry.path());
    }
    require(!found.empty(), "{}: has no token shards (*.idx)", path);
    std::sort(found.begin(), found.end());
    for (const Path& idx : found) shards.push_back(TokenShard::open(idx));
  }
  return shards;
}

namespace {

std::shared_ptr<const TokenSource> open_conversations(const SourceConfig& config,
                                                      const SourceSetting& setting) {
  if (setting.renderer == nullptr) {
    throw Error(
        Fault::usage,
        format("source '{}': conversations need a chat template, and the tokenizer has none",
               config.name),
        "set data.chat_template to a .jinja file, or to \"chatml\"");
  }
  std::vector<Conversation> conversations;
  for (const std::string& path : config.paths) {
    for (Conversation& c : read_conversations(path)) conversations.push_back(std::move(c));
  }
  return std::make_shared<ConversationSource>(config.name, std::move(conversations),
                                              setting.renderer, setting.tokenizer, setting.seed);
}

std::shared_ptr<const TokenSource> open_source(const SourceConfig& config,
                                               const SourceSetting& setting, Split split) {
  if (config.kind == "shards") {
    return std::make_shared<ShardSource>(config.name, open_shards(config.paths), setting.vocab_size,
                                         setting.seed);
  }
  require(setting.tokenizer != nullptr, "source '{}': {} need a tokenizer", config.name,
          config.kind);
  require(setting.tokenizer->vocab_size() <= setting.vocab_size,
          "source '{}': the tokenizer has {} ids, the model {}", config.name,
          setting.tokenizer->vocab_size(), setting.vocab_size);
  if (config.kind == "conversations") return open_conversations(config, setting);
  const EnvironmentOptions options{.kinds = config.environments,
                                   .min_level = config.min_level,
                                   .max_level = config.max_level,
                                   .loss_on_prompts = config.loss_on_prompts,
                                   .split = split,
                                   .aggregation = config.aggregation,
                                   .candidates = config.aggregation_candidates,
                                   .tail_tokens = config.aggregation_tail};
  return std::make_shared<EnvironmentSource>(config.name, options, setting.tokenizer, setting.seed);
}

}  // namespace

std::vector<std::shared_ptr<const TokenSource>> open_sources(std::span<const SourceConfig> configs,
                                                             const SourceSetting& setting) {
  std::vector<std::shared_ptr<const TokenSource>> sources;
  for (const SourceConfig& config : configs) {
    const bool known = std::any_of(sources.begin(), sources.end(),
                                   [&](const auto& s) { return s->name() == config.name; });
    require(!known, "two data sources have the name '{}'", config.name);
    sources.push_back(open_source(config, setting, Split::train));
  }
  return sources;
}

std::vector<std::shared_ptr<const TokenSource>> open_held_out(std::span<const SourceConfig> configs,
                                                              const SourceSetting& setting) {
  std::vector<std::shared_ptr<const TokenSource>> sources;
  for (SourceConfig config : configs) {
    config.paths = config.validation_paths;
    if (config.kind != "environments" && config.paths.empty()) continue;
    sources.push_back(open_source(config, setting, Split::held_out));
  }
  return sources;
}

}  // namespace tephra
