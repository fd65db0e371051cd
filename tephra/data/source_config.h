// SPDX-License-Identifier: Apache-2.0
// Sources as a config file describes them: [[data.sources]].
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/config.h"
#include "tephra/data/chat_renderer.h"
#include "tephra/data/token_source.h"
#include "tephra/io/token_shard.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct SourceConfig {
  std::string name;
  std::string kind = "shards";
  std::vector<std::string> paths, validation_paths;
  std::vector<std::string> environments;
  int64_t min_level = 1;
  int64_t max_level = 5;
  bool loss_on_prompts = false;
  double aggregation = 0;
  int64_t aggregation_candidates = 4, aggregation_tail = 64;

  void fields(ConfigFields& f);
};

// What sources are opened with.
struct SourceSetting {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: there is none; shards do not need it
  int64_t vocab_size = 0;                      // of the model
  uint64_t seed = 0;
  std::shared_ptr<const ChatRenderer> renderer;  // null: there is none; conversations need it
};

// The same sources with data that no training reads: held-out tasks, and the files of
// validation_paths. A source that has none is left out.
std::vector<std::shared_ptr<const TokenSource>> open_held_out(std::span<const SourceConfig> configs,
                                                              const SourceSetting& setting);

std::vector<std::shared_ptr<const TokenSource>> open_sources(std::span<const SourceConfig> configs,
                                                             const SourceSetting& setting);

// The shards that a path means: a prefix, one of its files, or a folder with *.idx, by name.
std::vector<std::shared_ptr<const TokenShard>> open_shards(std::span<const std::string> paths);

}  // namespace tephra
