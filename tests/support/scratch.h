// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, gone when the test ends.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace tephra {

// A disk in memory where there is a roomy one and TMPDIR does not say otherwise: on it a flush, of
// which tests see nothing, does not wait.
inline std::filesystem::path scratch_disk() {
  constexpr uintmax_t kRoom = uintmax_t{2} << 30;
  std::error_code error;
  const std::filesystem::path memory = "/dev/shm";
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool roomy = !error && space.available >= kRoom && ::access(memory.c_str(), W_OK) == 0;
  return roomy && std::getenv("TMPDIR") == nullptr ? memory
                                                   : std::filesystem::temp_directory_path();
}

class Scratch {
 public:
  Scratch() : Scratch(scratch_disk()) {}
  explicit Scratch(const std::filesystem::path& disk) {
    std::string name = (disk / "tephra-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + " cannot be made");
    folder_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const {
    return folder_ / name;
  }

  // Names of all that is in it, hidden files too, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& item : std::filesystem::directory_iterator(folder_)) {
      result.push_back(item.path().filename().string());
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tephra
