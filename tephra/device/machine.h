// SPDX-License-Identifier: Apache-2.0
// What the operating system says about this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tephra {

struct Cache {
  int level;
  std::string type;  // Data, Instruction, Unified
  int64_t bytes;     // of one instance
  int instances;     // among the cores this process may use
};

struct Machine {
  std::string cpu;
  std::vector<std::string> instruction_sets;  // the ones that matter to us, as Linux names them
  int cores = 0;                              // that this process may use
  int cores_online = 0;
  int physical_cores = 0;  // among the usable ones: threads of one core share its units
  std::vector<Cache> caches;
  int64_t memory_bytes = 0;
  int64_t memory_available_bytes = 0;     // also by the control group
  int64_t memory_limit_bytes = 0;         // of the control group; 0 when there is none
  std::vector<std::string> accelerators;  // device files of GPUs, whether we can use them or not
};

Machine this_machine();

// What the control groups of this process let it have: the least of its own and those above it,
// version 1 or 2. Nothing when there is no limit.
struct GroupMemory {
  int64_t limit = 0;
  int64_t left = 0;  // until it is reached, where files that the system can drop count as free
};
std::optional<GroupMemory> group_memory(const std::filesystem::path& root = "/");

// Processes that ran or waited for a core, on average over the last minute; 0 when not known.
double load_average();

// Name and version of the libraries that the kernels stand on.
std::vector<std::pair<std::string, std::string>> device_libraries();

// Kernels take no wider vectors than AVX2 has, from now on, or all of them again: for measuring
// what machines without AVX-512 get. Not while kernels run.
void use_avx2_at_most(bool on = true);

}  // namespace tephra
