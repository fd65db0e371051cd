// SPDX-License-Identifier: Apache-2.0
// Options of the commands that write a model folder.
#pragma once

#include "tephra/cli/command.h"
#include "tephra/models/checkpoint.h"

namespace tephra {

struct WriteFlags {
  std::optional<std::string> dtype;
  std::string max_shard_size = "5GB";
  bool force = false;
  int64_t bits = 0;  // 0: not quantised
  int64_t head_bits = 0;

  // --bits and --head-bits, for the commands that can quantise.
  void describe_bits(Flags& flags, const std::string& help);
  void describe(Flags& flags, const std::string& dtype_help);
  WriteOptions options() const;
};

}  // namespace tephra
