// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/checkpoint_options.h"

#include "tephra/base/text.h"

namespace tephra {

void WriteFlags::describe(Flags& flags, const std::string& dtype_help) {
  flags.add("--dtype", dtype, dtype_help).choices({"f32", "bf16"});
  flags.add("--max-shard-size", max_shard_size, "largest file, as 5GB or 200MiB");
  flags.add("--force", force, "write into a folder that is not empty");
}

WriteOptions WriteFlags::options() const {
  const std::optional<int64_t> bytes = parse_bytes(max_shard_size);
  require(bytes && *bytes > 0, "--max-shard-size: expected a size such as 5GB or 200MiB, got '{}'",
          max_shard_size);
  WriteOptions options;
  if (dtype) options.dtype = parse_dtype(*dtype);
  options.max_shard_bytes = *bytes;
  options.force = force;
  return options;
}

}  // namespace tephra
