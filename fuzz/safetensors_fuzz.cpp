// SPDX-License-Identifier: Apache-2.0
// A file of any bytes as safetensors: every tensor that it offers can be read to its last byte.
#include "fuzz/fuzz.h"
#include "tephra/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_reads_or_refuses([&] {
    const SafetensorsFile tensors = SafetensorsFile::open(file.path());
    for (const TensorEntry& entry : tensors.entries()) {
      const Tensor t = tensors.tensor(entry.name);
      const auto* bytes = static_cast<const volatile uint8_t*>(t.raw());
      uint8_t sum = 0;
      for (int64_t i = 0; i < entry.end - entry.begin; ++i)
        sum = static_cast<uint8_t>(sum + bytes[i]);
    }
  });
  return 0;
}
