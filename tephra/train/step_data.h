// SPDX-License-Identifier: Apache-2.0
// The data of a run as the config describes it: the micro-batches of a step as a pure function of
// the step and of the samples that a rollback left out. A thread makes the next steps' meanwhile.
#pragma once

#include <memory>
#include <vector>

#include "tephra/data/chat_renderer.h"
#include "tephra/data/loader.h"
#include "tephra/data/prefetch.h"
#include "tephra/text/tokenizer.h"
#include "tephra/train/micro_batch.h"
#include "tephra/train/phases.h"

namespace tephra {

// What makes tokens of text.
struct TextParts {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatRenderer> renderer;  // null: no chat template
  int64_t vocab_size = 0;                        // of the model; ids from there on are refused
};

class StepData {
 public:
  // Opens every source.
  StepData(const RunConfig& config, const Phases& phases, TextParts text);

  // One micro-batch for every `step.micro_tokens`, samples in order.
  std::vector<MicroBatch> batch(int64_t step);
  // Held-out samples of a phase's mixture; empty when none of its sources has any.
  std::vector<MicroBatch> validation(int64_t phase, int64_t samples) const;

  // Samples of the stream that are left out from now on.
  void set_skipped(std::vector<SkippedSamples> skipped);
  // The samples of steps [first, last], which is what a rollback leaves out.
  SkippedSamples samples_of(int64_t first, int64_t last) const;

  // What is read; a resumed run must find the same.
  std::vector<std::string> identities() const { return loader_->identities(); }
  // How long batch() had to wait so far.
  double waited_seconds() const;

 private:
  using Sources = std::vector<std::shared_ptr<const TokenSource>>;

  void start(std::vector<SkippedSamples> skipped);
  std::vector<MicroBatch> cut(const Loader& loader, int64_t step, int64_t micro_samples) const;

  int64_t micro_tokens_;
  std::vector<DataPhase> phases_;    // of training: more than the config's where batches grow
  std::vector<DataPhase> held_out_;  // one for each phase of the config
  Sources sources_, held_out_sources_;
  std::shared_ptr<const Loader> loader_;
  std::unique_ptr<Prefetch<std::vector<MicroBatch>>> prefetch_;
  double waited_before_ = 0;
};

}  // namespace tephra
