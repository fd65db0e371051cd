// SPDX-License-Identifier: Apache-2.0
// A token shard that grows file by file, from where an earlier run was stopped.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tephra/data/record_encoder.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/text_records.h"
#include "tephra/data/tokenize.h"
#include "tephra/io/token_shard.h"

namespace tephra {

class ShardMaker {
 public:
  ShardMaker(std::span<const Path> files, const Tokenizer& tokenizer, const Path& prefix,
             const TokenizeOptions& options);

  bool is_at(size_t file) const { return at_.file == file && at_.records == 0; }
  const TokenizeReport& report() const { return at_.report; }

  // Makes the tokens of all files before that one.
  void go_to(size_t end);
  // Takes those of the files up to `end` from the shard that holds them.
  void join(const Path& part, const ShardProgress& made, size_t end);
  void write_journal();
  TokenizeReport commit();

 private:
  void take(const std::vector<TextRecord>& records, const std::vector<EncodedRecord>& results);
  void take_trouble(const TextRecord& record, const EncodedRecord& result);
  void count_left_out(const LeftOut& counts);

  std::span<const Path> files_;
  const TokenizeOptions& options_;
  RecordEncoder encoder_;
  ShardRecord record_;
  ShardProgress at_;
  std::unique_ptr<TokenShardWriter> writer_;
  int64_t journaled_ = 0;  // bytes of text
};

}  // namespace tephra
