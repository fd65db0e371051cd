// SPDX-License-Identifier: Apache-2.0
// Environments as a source: training tasks, solved, packed one after another. Never repeats.
#pragma once

#include <memory>
#include <vector>

#include "tephra/data/encoder_pool.h"
#include "tephra/data/environments/aggregation.h"
#include "tephra/data/token_source.h"

namespace tephra {

struct EnvironmentOptions {
  std::vector<std::string> kinds;  // none: all
  int64_t min_level = 1;
  int64_t max_level = 5;
  bool loss_on_prompts = false;  // else only the solutions are learnt
  Split split = Split::train;
  double aggregation = 0;    // share of the tasks that are put with attempts at them
  int64_t candidates = 4;    // attempts of such a task
  int64_t tail_tokens = 64;  // of each attempt: its last ones
};

class EnvironmentSource : public TokenSource {
 public:
  EnvironmentSource(std::string name, const EnvironmentOptions& options,
                    std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed);

  // Whole documents; the last one is cut where the context ends.
  Sample sample(int64_t position, int64_t context) const override;
  void check(int64_t) const override {}
  int64_t samples_per_epoch(int64_t) const override { return 0; }
  std::string identity() const override;

 private:
  struct Document {
    std::vector<int32_t> tokens;
    int64_t prompt = 0;  // tokens of the prompt
  };
  Document document(uint64_t draw, Encoder& encoder) const;

  EnvironmentOptions options_;
  std::vector<const Environment*> kinds_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  uint64_t seed_;
  int32_t end_;
  mutable EncoderPool encoders_;
};

}  // namespace tephra
