// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/decontaminate/task_index.h"

#include <algorithm>
#include <functional>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/line_reader.h"

namespace tephra {
namespace {

void each_string(const Json& json, const std::function<void(const std::string&)>& use) {
  if (json.is_string()) use(json.string());
  if (json.is_array()) {
    for (const Json& item : json.array()) each_string(item, use);
  }
  if (json.is_object()) {
    for (const auto& [key, value] : json.object()) each_string(value, use);
  }
}

}  // namespace

TaskIndex::TaskIndex(std::span<const std::string> tasks, int64_t words, int64_t least)
    : words_(static_cast<size_t>(words)), least_(static_cast<size_t>(least)) {
  require(least > 0 && least <= words, "expected at least one word and at most {}, got {}", words,
          least);
  for (const std::string& task : tasks) {
    const size_t equals = task.find('=');
    const bool named = equals != std::string::npos && !std::filesystem::exists(task);
    const Path path = named ? task.substr(equals + 1) : task;
    names_.push_back(named ? task.substr(0, equals) : without_compression(path).stem().string());
    add_file(path, names_.size() - 1);
  }
  require_data(!by_hash_.empty(), "the tasks have no text of at least {} words", least);
  std::sort(lengths_.rbegin(), lengths_.rend());
}

void TaskIndex::add_file(const Path& path, size_t task) {
  const std::string ending = without_compression(path).extension().string();
  require(ending == ".jsonl" || ending == ".txt", "{}: expected .jsonl or .txt, also .gz and .zst",
          path.string());
  LineReader reader(path);
  std::string_view line;
  while (reader.next(line)) {
    if (trim(line).empty()) continue;
    if (ending == ".txt") {
      require_data(is_utf8(line), "{}: expected UTF-8 text", reader.where());
      add_text(line, task);
    } else {
      each_string(Json::parse(line, reader.where()),
                  [&](const std::string& text) { add_text(text, task); });
    }
  }
}

void TaskIndex::add_text(std::string_view text, size_t task) {
  NormalWords words;
  words.set(text, Normalization::zyda1);
  const size_t length = std::min(words_, words.size());
  if (length < least_) {
    ++skipped_;
    return;
  }
  if (std::find(lengths_.begin(), lengths_.end(), length) == lengths_.end()) {
    lengths_.push_back(length);
  }
  for (size_t i = 0; i + length <= words.size(); ++i) {
    by_hash_.emplace(xxh3(words.words(i, length)), static_cast<uint32_t>(task));
  }
}

std::optional<TaskIndex::Match> TaskIndex::find(std::string_view text, NormalWords& scratch) const {
  scratch.set(text, Normalization::zyda1);
  for (size_t i = 0; i < scratch.size(); ++i) {
    for (const size_t length : lengths_) {
      if (i + length > scratch.size()) continue;
      const std::string_view words = scratch.words(i, length);
      const auto found = by_hash_.find(xxh3(words));
      if (found != by_hash_.end()) return Match{found->second, std::string(words)};
    }
  }
  return std::nullopt;
}

}  // namespace tephra
