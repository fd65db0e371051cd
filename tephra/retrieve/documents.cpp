// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/documents.h"

#include <algorithm>
#include <array>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 38;

bool is_document(const Path& path) {
  constexpr std::array<const char*, 4> kKnown = {".txt", ".md", ".rst", ".jsonl"};
  return std::find(kKnown.begin(), kKnown.end(), path.extension()) != kKnown.end();
}

}  // namespace

std::vector<Path> document_files(const Path& path) {
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored), "{}: does not exist", path.string());
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<Path> files;
  for (const auto& item : std::filesystem::recursive_directory_iterator(path)) {
    if (item.is_regular_file() && is_document(item.path())) files.push_back(item.path());
  }
  std::sort(files.begin(), files.end());
  require(!files.empty(), "{}: expected files named *.txt, *.md, *.rst or *.jsonl, found none",
          path.string());
  return files;
}

void read_documents(const Path& file,
                    FunctionRef<void(std::string_view name, std::string_view text)> document) {
  const std::string content = read_file(file, kMaxFileBytes);
  if (file.extension() != ".jsonl") return document(file.string(), content);
  int64_t number = 0;
  for (const std::string_view line : split(content, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string where = format("{}:{}", file.string(), number);
    const Json record = Json::parse(line, where);
    require_data(record.is_object(), "{}: expected an object with \"text\", got {}", where,
                 record.kind());
    const Fields fields(record, where);
    const std::string title = fields.string_or("title", "");
    const Json* id = record.find("id");
    const std::string name = id != nullptr && id->is_string() ? id->string()
                             : title.empty()                  ? where
                                                              : title;
    document(name, title.empty() ? fields.string("text") : title + "\n" + fields.string("text"));
  }
}

}  // namespace tephra
