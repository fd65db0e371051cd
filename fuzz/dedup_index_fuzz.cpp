// SPDX-License-Identifier: Apache-2.0
// Any bytes as the manifest of a dedup index: read or refused, and what is read is written the
// same.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/data/dedup/index_manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_reads_or_refuses([&] {
    const IndexManifest manifest = IndexManifest::read(file.path());
    const std::string text = manifest.to_json().dump();
    const fuzz::MemoryFile again(text);
    if (IndexManifest::read(again.path()).to_json().dump() != text) std::abort();
  });
  return 0;
}
