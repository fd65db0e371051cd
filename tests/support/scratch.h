// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, gone when the test ends.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tephra {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "tephra-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
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
