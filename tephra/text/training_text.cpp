// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/training_text.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kChunksAtOnce = 64;  // bounds the memory of parsed JSON

// End of a chunk of about kChunk bytes: after a newline, so that no word is cut.
size_t chunk_end(std::string_view text, size_t at) {
  if (text.size() - at <= kChunk) return text.size();
  for (size_t end = text.find('\n', at + kChunk); end != text.npos;
       end = text.find('\n', end + 1)) {
    const size_t next = end + 1;
    if (next == text.size()) break;
    if (std::string_view(" \t\r\n").find(text[next]) == std::string_view::npos) return next;
  }
  return text.size();
}

std::string texts_of_lines(std::string_view lines, size_t first_line, const std::string& where) {
  std::string all;
  size_t number = first_line;
  for (const std::string_view line : split(lines, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const Json row = Json::parse(line, format("{}: line {}", where, number));
    require_data(row.is_object(), "{}: line {}: expected an object, got {}", where, number,
                 row.kind());
    all += Fields(row, format("{}: line {}", where, number)).string("text");
    all += '\n';
  }
  return all;
}

}  // namespace

void count_file(const Path& path, WordCounter& counter, Progress& progress) {
  const auto file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  const bool json_lines = path.extension() == ".jsonl";
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    std::vector<std::string_view> chunks;
    std::vector<size_t> lines;
    const size_t from = at;
    while (at < text.size() && chunks.size() < kChunksAtOnce) {
      const size_t end = chunk_end(text, at);
      chunks.push_back(text.substr(at, end - at));
      lines.push_back(line);
      if (json_lines)
        line += static_cast<size_t>(std::count(chunks.back().begin(), chunks.back().end(), '\n'));
      at = end;
    }
    std::vector<std::string> parsed(json_lines ? chunks.size() : 0);
    parallel_for(static_cast<int64_t>(parsed.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        parsed[i] = texts_of_lines(chunks[i], lines[i], path.string());
        chunks[i] = parsed[i];
      }
    });
    counter.add(chunks);
    progress.add(static_cast<int64_t>(at - from));
  }
}

}  // namespace tephra
