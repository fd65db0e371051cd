// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/weight_memory.h"

#include <unordered_set>

#include "tephra/base/large_pages.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"

namespace tephra {
namespace {

// A cache line: kernels read whole ones.
int64_t line_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

int64_t free_memory() { return this_machine().memory_available_bytes; }

}  // namespace

std::optional<WeightPlace> parse_weight_place(std::string_view text) {
  if (text == "auto") return WeightPlace::automatic;
  if (text == "mapped") return WeightPlace::mapped;
  if (text == "memory") return WeightPlace::memory;
  return {};
}

bool belongs_in_memory(WeightPlace place, int64_t bytes) {
  if (place != WeightPlace::automatic) return place == WeightPlace::memory;
  return has_large_pages() && bytes <= free_memory() / 2;
}

Tensors read_into_memory(const TensorFolder& folder, const std::vector<std::string>& names) {
  int64_t bytes = 0;
  for (const std::string& name : names) {
    bytes += line_up(folder.entry(name).end - folder.entry(name).begin);
  }
  const auto memory = Storage::allocate(kCpu, bytes, Purpose::weights);
  Progress progress("reading weights into memory", bytes, "B");
  Tensors tensors;
  int64_t at = 0;
  for (const std::string& name : names) {
    stop_if_interrupted();
    const TensorEntry& entry = folder.entry(name);
    tensors.emplace_back(memory, at, entry.shape, entry.dtype);
    const int64_t size = tensors.back().bytes();
    folder.read(name, {static_cast<std::byte*>(memory->data()) + at, static_cast<size_t>(size)});
    at += line_up(size);
    progress.add(line_up(size));
  }
  return tensors;
}

void copy_small_pages(const TensorFolder& folder, const std::vector<std::string>& names,
                      int64_t other) {
  if (names.empty() || !has_large_pages() || large_pages_come() == false) return;
  const std::unordered_set<std::string> tensors(names.begin(), names.end());
  std::vector<std::vector<int64_t>> blocks;
  int64_t bytes = 0;
  for (const SafetensorsFile& file : folder.files()) {
    blocks.push_back(file.small_blocks(tensors));
    bytes += std::ssize(blocks.back()) * kLargePage;
  }
  if (bytes == 0 || bytes > (free_memory() - other) / 2) return;
  Progress progress("copying weights into large pages", bytes, "B");
  for (size_t i = 0; i < blocks.size(); ++i) {
    // Without it all works as well, only slower: whoever has no more memory goes on.
    if (!folder.files()[i].copy_blocks(blocks[i], [&](int64_t n) { progress.add(n); })) return;
  }
}

}  // namespace tephra
