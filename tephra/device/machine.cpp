// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/machine.h"

#include <dnnl.h>
#include <hwy/highway.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tephra/base/format.h"

namespace tephra {

void use_avx2_at_most([[maybe_unused]] bool on) {
#if defined(__x86_64__)
  hwy::DisableTargets(on ? HWY_AVX2 - 1 : 0);  // better ones have lower bits
#endif
}

namespace {

namespace fs = std::filesystem;

constexpr int64_t kKiB = 1024;

// The first line; empty when there is no such file.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value of "key   : value" in a /proc file.
std::string proc_value(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const std::string rest = line.substr(key.size(), colon - key.size());
    if (rest.find_first_not_of(" \t") != std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "1024K", "32768 kB", "max": 0 when it is no number.
int64_t bytes_of(const std::string& text) {
  int64_t number = 0;
  std::string unit;
  std::istringstream(text) >> number >> unit;
  if (unit.empty()) return number;
  if (unit[0] == 'K' || unit[0] == 'k') return number * kKiB;
  return unit[0] == 'M' ? number * kKiB * kKiB : number;
}

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  }
  return cores;
}

// Where the system does not say, every one counts.
int physical_cores(const std::vector<int>& cores) {
  std::set<std::string> distinct;
  for (const int core : cores) {
    const fs::path topology = format("/sys/devices/system/cpu/cpu{}/topology", core);
    const std::string siblings = first_line(topology / "thread_siblings_list");
    distinct.insert(siblings.empty() ? format("{}", core) : siblings);
  }
  return static_cast<int>(distinct.size());
}

std::vector<std::string> instruction_sets() {
  const std::string flags = proc_value("/proc/cpuinfo", "flags");
  std::istringstream stream(flags);
  std::set<std::string> have;
  for (std::string flag; stream >> flag;) have.insert(flag);
  std::vector<std::string> known;
  for (const char* name : {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx_vnni",
                           "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"}) {
    if (have.contains(name)) known.emplace_back(name);
  }
  return known;
}

std::vector<Cache> caches(const std::vector<int>& cores) {
  // An instance is known by its level, type and the cores that share it.
  std::map<std::pair<int, std::string>, std::map<std::string, int64_t>> found;
  for (const int core : cores) {
    const fs::path folder = format("/sys/devices/system/cpu/cpu{}/cache", core);
    for (int i = 0; fs::exists(folder / format("index{}", i)); ++i) {
      const fs::path index = folder / format("index{}", i);
      const int level = static_cast<int>(bytes_of(first_line(index / "level")));
      found[{level, first_line(index / "type")}][first_line(index / "shared_cpu_list")] =
          bytes_of(first_line(index / "size"));
    }
  }
  std::vector<Cache> list;
  for (const auto& [kind, instances] : found) {
    list.push_back(
        {kind.first, kind.second, instances.begin()->second, static_cast<int>(instances.size())});
  }
  return list;
}

// nvidia0, nvidia1, ...; kfd is AMD's compute interface.
std::vector<std::string> accelerators() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    const bool nvidia =
        name.starts_with("nvidia") && name.size() > 6 &&
        std::all_of(name.begin() + 6, name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (nvidia || name == "kfd") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The number behind "key " in a control group's file; 0 when there is none.
int64_t group_value(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + " ")) return bytes_of(line.substr(key.size() + 1));
  }
  return 0;
}

// One version's names.
struct GroupFiles {
  fs::path base;
  const char *limit, *use;
  std::array<const char*, 2> files;  // which the system can drop
};

// The limit of a group, and what version 2 slows a process down at.
std::optional<int64_t> limit_of(const fs::path& group, const GroupFiles& names) {
  constexpr int64_t kNoLimit = int64_t{1} << 62;  // version 1 has a number for it
  int64_t least = kNoLimit;
  for (const char* name : {names.limit, "memory.high"}) {
    const int64_t limit = bytes_of(first_line(group / name));  // "max" is 0
    if (limit > 0) least = std::min(least, limit);
  }
  if (least == kNoLimit) return {};
  return least;
}

std::optional<GroupMemory> memory_of(const fs::path& group, const GroupFiles& names) {
  const std::optional<int64_t> limit = limit_of(group, names);
  if (!limit) return {};
  int64_t use = bytes_of(first_line(group / names.use));
  for (const char* files : names.files) use -= group_value(group / "memory.stat", files);
  return GroupMemory{*limit, std::clamp<int64_t>(*limit - use, 0, *limit)};
}

// Of this group and all above it.
void keep_least(fs::path path, const GroupFiles& names, std::optional<GroupMemory>& least) {
  for (;; path = path.parent_path()) {
    if (const auto memory = memory_of(names.base / path, names)) {
      if (!least) least = memory;
      least->limit = std::min(least->limit, memory->limit);
      least->left = std::min(least->left, memory->left);
    }
    if (path.empty()) return;
  }
}

}  // namespace

std::optional<GroupMemory> group_memory(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  const GroupFiles first{mount / "memory",
                         "memory.limit_in_bytes",
                         "memory.usage_in_bytes",
                         {"total_inactive_file", "total_active_file"}};
  const GroupFiles second{mount, "memory.max", "memory.current", {"inactive_file", "active_file"}};
  std::optional<GroupMemory> least;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,memory:/a/b", "0::/a/b"
    const size_t begin = line.find(':'), end = line.find(':', begin + 1);
    if (begin == std::string::npos || end == std::string::npos) continue;
    const std::string controllers = "," + line.substr(begin + 1, end - begin - 1) + ",";
    // In a container that sees only its own group there is no such path, and the mount is the
    // group.
    const fs::path path = fs::path(line.substr(end + 1)).relative_path();
    if (controllers == ",,") keep_least(path, second, least);
    if (controllers.find(",memory,") != std::string::npos) keep_least(path, first, least);
  }
  return least;
}

Machine this_machine() {
  const std::vector<int> cores = usable_cores();
  Machine m;
  m.cpu = proc_value("/proc/cpuinfo", "model name");
  if (m.cpu.empty()) m.cpu = "unknown";
  m.instruction_sets = instruction_sets();
  m.cores_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  m.cores = cores.empty() ? m.cores_online : static_cast<int>(cores.size());
  m.physical_cores = cores.empty() ? m.cores : physical_cores(cores);
  m.caches = caches(cores);
  m.memory_bytes = bytes_of(proc_value("/proc/meminfo", "MemTotal"));
  m.memory_available_bytes = bytes_of(proc_value("/proc/meminfo", "MemAvailable"));
  if (const auto group = group_memory()) {
    m.memory_limit_bytes = group->limit;
    m.memory_available_bytes = std::min(m.memory_available_bytes, group->left);
  }
  m.accelerators = accelerators();
  return m;
}

double load_average() {
  double load = 0;
  std::istringstream(first_line("/proc/loadavg")) >> load;
  return load;
}

std::vector<std::pair<std::string, std::string>> device_libraries() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {
      {"oneDNN", format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
      {"Highway", format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
      {"fmt", format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
}

}  // namespace tephra
