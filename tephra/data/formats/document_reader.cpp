// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/document_reader.h"

#include <algorithm>
#include <cstring>

namespace tephra {

bool is_document_file(const Path& path) {
  const Path ending = without_compression(path).extension();
  return ending == ".jsonl" || ending == ".wet" || ending == ".warc" ||
         path.extension() == ".parquet";
}

std::unique_ptr<ByteReader> open_documents(const Path& path) {
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

size_t ConvertingReader::read(std::span<char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    if (given_ == lines_.size()) {
      lines_.clear();
      given_ = 0;
      if (!next_line(lines_)) break;
    }
    const size_t part = std::min(out.size() - filled, lines_.size() - given_);
    std::memcpy(out.data() + filled, lines_.data() + given_, part);
    filled += part;
    given_ += part;
  }
  return filled;
}

}  // namespace tephra
