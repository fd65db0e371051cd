// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/checkpoint_options.h"

#include "tephra/base/text.h"

namespace tephra {

void WriteFlags::describe(Flags& flags, const std::string& dtype_help) {
  flags.add("--dtype", dtype, dtype_help).choices({"f32", "bf16"});
  flags.add("--max-shard-size", max_shard_size, "largest file, as 5GB or 200MiB");
  flags.add("--force", force, "write into a folder that is not empty");
}

void WriteFlags::describe_bits(Flags& flags, const std::string& help) {
  flags.add("--bits", bits, help).range(0, 8);
  flags
      .add("--head-bits", head_bits,
           "of the embedding and the output projection: 8 or 4; 0: as --bits")
      .range(0, 8);
}

namespace {

PackedFormat format_of(int64_t bits, const char* flag) {
  require(bits == 8 || bits == 4, "{}: expected 8 or 4, got {}", flag, bits);
  return bits == 8 ? PackedFormat::q8 : PackedFormat::q4;
}

}  // namespace

WriteOptions WriteFlags::options() const {
  const std::optional<int64_t> bytes = parse_bytes(max_shard_size);
  require(bytes && *bytes > 0, "--max-shard-size: expected a size such as 5GB or 200MiB, got '{}'",
          max_shard_size);
  WriteOptions options;
  if (dtype) options.dtype = parse_dtype(*dtype);
  options.max_shard_bytes = *bytes;
  options.force = force;
  require(bits > 0 || head_bits == 0, "--head-bits needs --bits");
  if (bits > 0) {
    const PackedFormat body = format_of(bits, "--bits");
    options.quantise = {body, head_bits > 0 ? format_of(head_bits, "--head-bits") : body};
  }
  return options;
}

}  // namespace tephra
