// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pair of token shard files: four bytes of length, the .idx, the rest is the .bin.
#include <unistd.h>

#include <cstring>
#include <vector>

#include "fuzz/fuzz.h"
#include "tephra/base/format.h"
#include "tephra/io/token_shard.h"

namespace {

void read_all(const tephra::Path& prefix) {
  const auto shard = tephra::TokenShard::open(prefix);
  std::vector<int32_t> tokens(static_cast<size_t>(shard->tokens()));
  for (int64_t d = 0; d <= shard->documents(); ++d) (void)shard->document_begin(d);
  if (!tokens.empty()) (void)shard->document_of(shard->tokens() - 1);
  shard->read(0, tokens, 1 << 20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  if (size < 4) return 0;
  uint32_t length = 0;
  std::memcpy(&length, data, 4);
  const std::string_view rest = fuzz::text_of(data + 4, size - 4);
  const size_t index = std::min<size_t>(length, rest.size());
  const fuzz::MemoryFile idx(rest.substr(0, index)), bin(rest.substr(index));

  // Shards are opened by a common prefix.
  const Path prefix = std::filesystem::temp_directory_path() / format("fuzz-shard-{}", getpid());
  const Path idx_name = prefix.string() + ".idx", bin_name = prefix.string() + ".bin";
  std::filesystem::remove(idx_name);
  std::filesystem::remove(bin_name);
  std::filesystem::create_symlink(idx.path(), idx_name);
  std::filesystem::create_symlink(bin.path(), bin_name);
  fuzz::expect_reads_or_refuses([&] { read_all(prefix); });
  return 0;
}
