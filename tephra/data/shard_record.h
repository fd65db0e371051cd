// SPDX-License-Identifier: Apache-2.0
// What a token shard was made of, beside it: PREFIX.made.json of one that is done, PREFIX.journal
// of one that is being made.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tephra/base/json.h"
#include "tephra/data/tokenize.h"
#include "tephra/io/token_shard.h"

namespace tephra {

// A state of the work to which the shard can be cut back.
struct ShardProgress {
  size_t file = 0;      // index of the one that is read
  int64_t records = 0;  // of it that are done
  TokenizeReport report;
  uint64_t hash = 0;  // of what is written

  TokenShardState shard() const { return {report.documents, report.tokens, hash}; }
};

// A shard to go on with, from there.
struct BegunShard {
  ShardProgress at;
  std::unique_ptr<TokenShardWriter> writer;
};

// What a record or a journal tells.
struct ShardTold {
  std::string settings, inputs;
  ShardProgress progress;
};

class ShardRecord {
 public:
  ShardRecord(std::span<const Path> files, const Path& prefix, const TokenizeOptions& options);

  // Of a shard that is done, has its size, and was made of the same files in the same way.
  std::optional<ShardProgress> done(int64_t vocab_size) const;
  void finish() const;      // takes away what a kill at the very end left
  void begin_anew() const;  // forgets a run that was stopped, whosever it was
  // Fault::usage when another shard, or a run of another command that was stopped, has that name.
  void check_replaceable() const;
  // Of processes that make a shard together only: the plan of another command is Fault::usage.
  void check_parts() const;
  // The first file of which a run that was stopped has done nothing.
  size_t next_file() const;
  // check_replaceable before the files are known.
  static void check_settings(const Path& prefix, const TokenizeOptions& options);

  // How far a run with these files and options came that was stopped, if its bytes are there as
  // they were; else a new one.
  BegunShard begin(int64_t vocab_size) const;
  void write_progress(const ShardProgress& progress) const;  // of what the writer has flushed
  void commit(TokenShardWriter& writer, ShardProgress progress) const;

  Json made_of() const;  // the files and settings

 private:
  bool is_ours(const ShardTold& told) const;
  Json told(const ShardProgress& progress) const;

  Path prefix_;
  std::string settings_, inputs_;
};

}  // namespace tephra
