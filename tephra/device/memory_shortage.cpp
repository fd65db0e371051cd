// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/memory_shortage.h"

#include "tephra/base/format.h"

namespace tephra {
namespace {

std::string gib(int64_t bytes) { return format("{:.2f}", static_cast<double>(bytes) / (1 << 30)); }

}  // namespace

std::string MemoryShortage::text() const {
  std::string out =
      format("out of memory on {}: {} GiB for {} do not fit; of {} GiB, {} are free", device,
             gib(bytes), purpose, gib(memory.total_bytes), gib(memory.free_bytes));
  for (int i = 0; i < kNumPurposes; ++i) {
    if (in_use[static_cast<size_t>(i)].bytes == 0) continue;
    out +=
        format(", {} for {}", gib(in_use[static_cast<size_t>(i)].bytes), static_cast<Purpose>(i));
  }
  // Our bytes are those of all GPUs: with several, there may be nothing left to tell.
  const int64_t others = memory.total_bytes - memory.free_bytes - in_use[kNumPurposes].bytes;
  if (others > 0) out += format(", {} in use by others and the driver", gib(others));
  return out;
}

std::string MemoryShortage::hint() const {
  switch (purpose) {
    case Purpose::weights:
    case Purpose::gradients:
    case Purpose::optimizer:
      return "use a smaller model, a narrower dtype, or a GPU with more free memory";
    case Purpose::cache:
      return "use fewer or shorter sequences at once, or a GPU with more free memory";
    case Purpose::activations:
    case Purpose::workspace:
      break;
  }
  return "use a smaller micro-batch or context, recompute more, or a narrower dtype";
}

}  // namespace tephra
