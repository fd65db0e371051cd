// SPDX-License-Identifier: Apache-2.0
// Stages of several passes use by row what the first one learnt, so every later one must meet the
// same lines: a file that was changed, cut or taken away meanwhile ends the run.
#pragma once

#include <span>

#include "tephra/data/corpus/stage.h"

namespace tephra {

class FirstPass {
 public:
  FirstPass(std::span<const CorpusFile> files, const StageRun& run) : files_(files), run_(run) {}

  // Of a piece that a later pass is given. Fault::data when it has rows beyond those of the first.
  void check(const CorpusPiece& piece) const;
  // Of a later pass that is complete. Fault::data when a file had other rows.
  void check(const StageRun& later) const;
  // The same for a pass that counted its documents again: there are as many of as many bytes.
  void check_texts(const StageRun& later) const;

  // What to throw where a line is not the one that the first pass met.
  [[noreturn]] static void changed(const CorpusFile& file, std::string_view how);

 private:
  std::span<const CorpusFile> files_;
  const StageRun& run_;
};

// The last pass of a stage, whose report is written only if it met the documents of the first.
StageRun run_later(std::span<const CorpusFile> files, const StageJob& job, const FirstPass& first);

}  // namespace tephra
