// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/journal.h"

#include "tephra/base/error.h"
#include "tephra/base/flush_disks.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

JournalEntry read_entry(const Json& json, const std::string& where, size_t samples) {
  const Fields fields(json, where);
  JournalEntry entry;
  entry.offset = fields.integer("offset");
  entry.row = fields.integer("row");
  entry.finished = fields.boolean("finished");
  if (fields.has("input")) entry.input = fields.string("input");
  for (const Json& size : fields.array("out")) {
    require_data(size.is_int(), "{}: out: expected integers", where);
    entry.out_size.push_back(size.integer());
  }
  if (fields.has("tables")) entry.tables = fields.array("tables");
  entry.tally = Tally::from_json(fields.object("tally").json(), where, samples);
  if (const Json* before = json.find("before")) {
    entry.before.push_back(read_entry(*before, where, samples));
    entry.rest = fields.string("rest");
  }
  return entry;
}

Json entry_json(const JournalEntry& entry) {
  Json json, sizes = Json::Array{};
  for (const int64_t size : entry.out_size) sizes.push_back(size);
  json["offset"] = entry.offset;
  json["row"] = entry.row;
  json["finished"] = entry.finished;
  if (!entry.input.empty()) json["input"] = entry.input;
  json["out"] = std::move(sizes);
  bool any = false;
  for (const Json& table : entry.tables) any |= !table.is_null();
  if (any) json["tables"] = Json(entry.tables);
  json["tally"] = entry.tally.to_json();
  if (!entry.before.empty()) {
    json["before"] = entry_json(entry.before[0]);
    json["rest"] = entry.rest;
  }
  return json;
}

std::string entry_text(const JournalEntry& entry) { return hashed_line(entry_json(entry).dump()); }

}  // namespace

// "HASH TEXT".
std::string hashed_line(std::string_view text) {
  return format("{} {}\n", hash_text(xxh3(text)), text);
}

std::optional<std::string_view> checked_line(std::string_view line) {
  line = trim(line);
  if (line.size() < 17 || line[16] != ' ') return std::nullopt;
  const std::optional<uint64_t> hash = parse_hash(line.substr(0, 16));
  const std::string_view text = line.substr(17);
  if (!hash || *hash != xxh3(text)) return std::nullopt;
  return text;
}

std::optional<JournalEntry> Journal::last() const {
  if (!std::filesystem::exists(path_)) return std::nullopt;
  const std::string text = read_file(path_);
  const std::optional<std::string_view> json = checked_line(text);
  if (!json) return std::nullopt;
  return read_entry(Json::parse(*json, path_.string()), path_.string(), samples_);
}

// Only the newest entry counts, so the file is replaced; the rename is the moment it counts from.
void Journal::write(const JournalEntry& entry) const { write_file(path_, entry_text(entry)); }

void Journal::write_unflushed(const JournalEntry& entry) const {
  write_file_unflushed(path_, entry_text(entry));
}

}  // namespace tephra
