// SPDX-License-Identifier: Apache-2.0
// Any bytes as an index file: it is refused, or a question is answered from it. Hashes are not
// checked, since a fuzzer would not get past them.
#include <cstring>
#include <memory>
#include <new>

#include "fuzz/fuzz.h"
#include "tephra/retrieve/index_file.h"
#include "tephra/retrieve/retrieve.h"

namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> aligned_copy(const uint8_t* data, size_t size) {
  auto* memory = static_cast<std::byte*>(::operator new(size + 1, kAlignment));
  if (size > 0) std::memcpy(memory, data, size);
  return {memory, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const auto bytes = aligned_copy(data, size);
  fuzz::expect_reads_or_refuses([&] {
    const Index index = read_index(bytes, {bytes.get(), size}, "fuzz", false);
    for (const char* question : {"alpha beta", "summarise it", "most common words"}) {
      (void)context_text(index, retrieve(index, question, {.context_chunks = 1}));
    }
  });
  return 0;
}
