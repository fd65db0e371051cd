// SPDX-License-Identifier: Apache-2.0
// Any JSON lines as a Parquet file and back: every object has the fields it had, with their values.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "fuzz/fuzz.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/html_text.h"
#include "tephra/data/formats/parquet_writer.h"

namespace {

using tephra::Json;

// The same text for equal values: keys sorted, whole numbers without a point.
std::string plain(const Json& json) {
  if (json.is_number() && !json.is_int() && std::abs(json.number()) < 1e15) {
    const auto whole = static_cast<int64_t>(json.number());
    if (static_cast<double>(whole) == json.number()) return std::to_string(whole);
  }
  std::string all = "[";
  if (json.is_array()) {
    for (const Json& each : json.array()) all += plain(each) + ",";
    return all + "]";
  }
  if (!json.is_object()) return json.dump();
  std::vector<std::string> fields;
  for (const auto& [key, value] : json.object()) fields.push_back(Json(key).dump() + plain(value));
  std::sort(fields.begin(), fields.end());
  for (const std::string& field : fields) all += field + ",";
  return all;
}

// Lines that both parsers take: ours refuses an object that has a key twice.
std::string valid_lines(std::string_view text) {
  std::string lines;
  for (const std::string_view line : tephra::split(text, '\n')) {
    try {
      if (!Json::parse(line, "line").is_object()) continue;
      const std::string padded = std::string(line) + std::string(64, ' ');
      tephra::SeenFields().add_lines(std::string_view(padded).substr(0, line.size()));
      lines += std::string(line) + "\n";
    } catch (const tephra::Error&) {
    }
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const std::string_view bytes = fuzz::text_of(data, size);
  if (is_utf8(bytes)) {
    const HtmlText page = html_text(bytes);
    if (!is_utf8(page.text) || !is_utf8(page.title) || page.text.size() > bytes.size())
      std::abort();
  }
  const std::string lines = valid_lines(bytes);
  // Two row groups, so that the columns of the first have to take what they never saw.
  const size_t half = std::min(lines.find('\n', lines.size() / 2), lines.size() - 1) + 1;
  std::string first = lines.substr(0, half), second = lines.substr(half);
  std::string file;
  ParquetWriter writer(1);
  for (std::string* group : {&first, &second}) {
    writer.choose_columns(*group);
    writer.add_group(writer.pages_of(*group), file);
  }
  writer.finish(file);
  const fuzz::MemoryFile stored(file);
  const std::unique_ptr<ByteReader> reader = open_parquet_documents(stored.path());
  std::string back, part(1 << 16, '\0');
  while (const size_t got = reader->read(part)) back.append(part, 0, got);
  const std::vector<std::string_view> want = split(lines, '\n'), got = split(back, '\n');
  if (want.size() != got.size()) std::abort();
  for (size_t i = 0; i + 1 < want.size(); ++i) {
    if (plain(Json::parse(want[i], "want")) != plain(Json::parse(got[i], "got"))) std::abort();
  }
  return 0;
}
