// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/document_reader.h"

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"

namespace tephra {

bool is_document_file(const Path& path) {
  const Path ending = without_compression(path).extension();
  return ending == ".jsonl" || ending == ".wet" || ending == ".warc" ||
         path.extension() == ".parquet";
}

std::unique_ptr<ByteReader> open_documents(const Path& path) {
  // A pipe would wait for a writer, and cannot be read again by a run that goes on.
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  require(
      kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found,
      "{}: is no regular file", path.string());
  if (path.extension() == ".parquet") return open_parquet_documents(path);
  const Path ending = without_compression(path).extension();
  if (ending == ".wet") return open_wet(path);
  if (ending == ".warc") return open_warc(path);
  return ByteReader::open(path);
}

Path without_format(const Path& path) {
  Path name = without_compression(path).replace_extension();
  if (name.extension() == ".warc") name.replace_extension();
  return name;
}

size_t ConvertingReader::read_some(std::span<char> out) {
  if (given_ == lines_.size()) {
    lines_.clear();
    given_ = 0;
    if (!next_line(lines_)) return 0;
  }
  const size_t part = std::min(out.size(), lines_.size() - given_);
  std::memcpy(out.data(), lines_.data() + given_, part);
  given_ += part;
  return part;
}

}  // namespace tephra
