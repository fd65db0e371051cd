// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/new_folder.h"

#include <system_error>

#include "tephra/base/temporary_name.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// The folder and those of its parents that are not there yet, the deepest first. A link that points
// to nothing is there.
std::vector<Path> missing_folders(const Path& path) {
  std::vector<Path> missing;
  const auto is_missing = [](const Path& p) {
    std::error_code ignored;
    return fs::symlink_status(p, ignored).type() == fs::file_type::not_found;
  };
  for (Path p = path; !p.empty() && is_missing(p); p = p.parent_path()) missing.push_back(p);
  return missing;
}

}  // namespace

NewFolder::NewFolder(const Path& path) : path_(path), made_(missing_folders(path)) {
  try {
    make_writable_folder(path_);
    remove_abandoned_temporaries(path_, ".safetensors");  // as large as a model
    was_empty_ = fs::is_empty(path_);
  } catch (...) {
    remove_made();
    throw;
  }
}

NewFolder::~NewFolder() {
  if (kept_ || !was_empty_) return;
  std::error_code ignored;
  for (const std::string& name : files_) fs::remove(path_ / name, ignored);
  remove_made();
}

void NewFolder::write(const std::string& name, std::string_view text) {
  write_file(path_ / name, text);
  wrote(name);
}

void NewFolder::remove_made() const {
  std::error_code ignored;
  for (const Path& folder : made_) fs::remove(folder, ignored);
}

}  // namespace tephra
