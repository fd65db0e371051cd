// SPDX-License-Identifier: Apache-2.0
// What tests of files and of errors need: a folder that removes itself, and the error of a call.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"

namespace tephra {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tephra-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const Path& path() const { return path_; }
  Path operator/(std::string_view name) const { return path_ / name; }

  // Names of all that is in it, hidden files too, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& item : std::filesystem::directory_iterator(path_)) {
      result.push_back(item.path().filename().string());
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  Path path_;
};

// The error that a call throws; a test failure when it throws none.
inline Error error_of(FunctionRef<void()> call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return Error(Fault::internal, "no error");
}

}  // namespace tephra
