// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_record.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/function_ref.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/temporary_name.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/shard_parts.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

using Told = ShardTold;
using token_shard::with_suffix;

constexpr const char *kRecordSuffix = ".made.json", *kJournalSuffix = ".journal",
                     *kRecordHash = "record_hash";

std::string settings_of(const TokenizeOptions& o) {
  return format("field={} split={} bos={} eos={} skip={} max={} {}", o.text_field,
                static_cast<int>(o.split), o.prepend_bos, o.append_eos, o.on_error == OnError::skip,
                o.max_document_bytes, o.made_by);
}

std::string inputs_of(std::span<const Path> files) {
  std::string text;
  for (const Path& file : files) {
    text += format("{} {}\n", file.filename().string(), mark_of_file(file));
  }
  return format("{} files, {}", files.size(), hash_text(xxh3(text)));
}

// A record says its own hash last; a journal is a hashed line.
Json with_hash(Json record) {
  record[kRecordHash] = hash_text(xxh3(record.dump()));
  return record;
}

bool has_its_hash(Json record) {
  if (!record.is_object() || record.object().empty()) return false;
  const auto [key, hash] = record.object().back();
  record.object().pop_back();
  return key == kRecordHash && hash.is_string() && hash.string() == hash_text(xxh3(record.dump()));
}

Told parse_told(std::string_view text, const Path& path, bool journal) {
  const Json json = Json::parse(text, path.string());
  require_data(journal || has_its_hash(json), "{}: has another hash", path.string());
  const Fields fields(json, path.string());
  Told told{fields.string("settings"), fields.string("inputs"), {}};
  told.progress.report = TokenizeReport::from_json(fields.object("report").json(), path.string());
  const std::optional<uint64_t> hash = parse_hash(fields.string("hash"));
  require_data(hash.has_value(), "{}: hash: expected sixteen digits", path.string());
  told.progress.hash = *hash;
  if (!journal) return told;
  told.progress.file = static_cast<size_t>(fields.integer("file"));
  told.progress.records = fields.integer("records");
  return told;
}

// Nothing when there is none, or it is damaged.
std::optional<Told> read_told(const Path& prefix, const char* suffix) {
  const Path path = with_suffix(prefix, suffix);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const bool journal = suffix == kJournalSuffix;
  const std::string file = read_file(path);
  const std::optional<std::string_view> text =
      journal ? checked_line(file) : std::optional<std::string_view>(file);
  if (!text) return std::nullopt;
  try {
    return parse_told(*text, path, journal);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Of files that a kill left unnamed (AtomicFile).
bool is_unnamed(const std::string& name, const std::string& prefix) {
  const auto suffixes = {".idx", kRecordSuffix, kJournalSuffix};
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const char* suffix) { return is_temporary_name(name, prefix + suffix); });
}

void remove_partial(const Path& prefix) {
  for (const char* suffix : {kJournalSuffix, token_shard::kBinPartial, token_shard::kLenPartial}) {
    std::filesystem::remove(with_suffix(prefix, suffix));
  }
  std::filesystem::remove_all(ShardParts::folder(prefix));
  const Path folder = prefix.has_parent_path() ? prefix.parent_path() : Path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_unnamed(entry.path().filename().string(), prefix.filename().string())) {
      std::filesystem::remove(entry.path());
    }
  }
}

// Fault::usage when processes of another command make parts under that name, or did so.
void check_plan(const Path& prefix, FunctionRef<bool(const Told&)> is_ours) {
  const std::optional<Told> plan = ShardParts::told(prefix);
  if (!plan || is_ours(*plan)) return;
  throw Error(Fault::usage,
              format("{}: holds the work of a command with other inputs or settings that did not "
                     "end",
                     ShardParts::folder(prefix).string()),
              "repeat the command it was begun with, or give --overwrite to begin anew");
}

// Fault::usage when another shard, or a run of another command that was stopped, has the name.
void check_free(const Path& prefix, FunctionRef<bool(const Told&)> is_ours, const char* others) {
  check_plan(prefix, is_ours);
  const std::optional<Told> journal = read_told(prefix, kJournalSuffix);
  if (journal && is_ours(*journal)) return;
  if (journal) {
    throw Error(Fault::usage,
                format("{}.journal: holds a run with other inputs or settings that did not end",
                       prefix.string()),
                "repeat the command it was begun with, or give --overwrite to begin anew");
  }
  const std::optional<Told> record = read_told(prefix, kRecordSuffix);
  if (record && is_ours(*record)) return;
  for (const char* suffix : {".idx", ".bin"}) {
    if (!std::filesystem::exists(with_suffix(prefix, suffix))) continue;
    throw Error(Fault::usage, format("{}{}: exists, {}", prefix.string(), suffix, others),
                "give --overwrite to replace it");
  }
}

}  // namespace

ShardRecord::ShardRecord(std::span<const Path> files, const Path& prefix,
                         const TokenizeOptions& options)
    : prefix_(prefix), settings_(settings_of(options)), inputs_(inputs_of(files)) {}

bool ShardRecord::is_ours(const ShardTold& told) const {
  return told.settings == settings_ && told.inputs == inputs_;
}

std::optional<ShardProgress> ShardRecord::done(int64_t vocab_size) const {
  std::optional<Told> told = read_told(prefix_, kRecordSuffix);
  if (!told || !is_ours(*told)) return std::nullopt;
  ShardProgress& progress = told->progress;
  if (!TokenShardWriter::wrote(prefix_, vocab_size, progress.shard())) return std::nullopt;
  progress.report.earlier_bytes = progress.report.text_bytes;
  return progress;
}

void ShardRecord::finish() const {
  for (const auto& told : {read_told(prefix_, kJournalSuffix), ShardParts::told(prefix_)}) {
    if (told && !is_ours(*told)) return;  // another run's
  }
  remove_partial(prefix_);
}

void ShardRecord::begin_anew() const { remove_partial(prefix_); }

void ShardRecord::check_replaceable() const {
  const auto ours = [&](const Told& told) { return is_ours(told); };
  check_free(prefix_, ours, "made of other documents or in another way");
}

void ShardRecord::check_parts() const {
  check_plan(prefix_, [&](const Told& told) { return is_ours(told); });
}

size_t ShardRecord::next_file() const {
  const std::optional<Told> told = read_told(prefix_, kJournalSuffix);
  if (!told || !is_ours(*told)) return 0;
  return told->progress.file + (told->progress.records > 0 ? 1 : 0);
}

void ShardRecord::check_settings(const Path& prefix, const TokenizeOptions& options) {
  const std::string settings = settings_of(options);
  const auto is_ours = [&](const Told& told) { return told.settings == settings; };
  check_free(prefix, is_ours, "made with other settings or by other stages");
}

BegunShard ShardRecord::begin(int64_t vocab_size) const {
  const std::optional<Told> told = read_told(prefix_, kJournalSuffix);
  if (told && is_ours(*told)) {
    auto writer = TokenShardWriter::go_on(prefix_, vocab_size, told->progress.shard());
    if (writer) return {told->progress, std::move(writer)};
    write_progress({});  // what the journal tells of is about to be cut; the name stays ours
  } else {
    std::filesystem::remove(with_suffix(prefix_, kJournalSuffix));
  }
  return {{}, std::make_unique<TokenShardWriter>(prefix_, vocab_size)};
}

Json ShardRecord::made_of() const {
  Json json;
  json["settings"] = settings_;
  json["inputs"] = inputs_;
  return json;
}

Json ShardRecord::told(const ShardProgress& progress) const {
  Json json = made_of();
  json["report"] = progress.report.to_json();
  json["hash"] = hash_text(progress.hash);
  return json;
}

void ShardRecord::write_progress(const ShardProgress& progress) const {
  Json json = told(progress);
  json["file"] = static_cast<int64_t>(progress.file);
  json["records"] = progress.records;
  write_file(with_suffix(prefix_, kJournalSuffix), hashed_line(json.dump()));
}

// From the moment that the shard has its name until its record is there, the journal says whose it
// is.
void ShardRecord::commit(TokenShardWriter& writer, ShardProgress progress) const {
  progress.hash = writer.flush().hash;
  write_progress(progress);
  writer.commit(with_suffix(prefix_, kRecordSuffix));
  Json json;
  json["stage"] = "tokens";
  const Json made = told(progress);
  for (const auto& [key, value] : made.object()) json[key] = value;
  write_file(with_suffix(prefix_, kRecordSuffix), with_hash(json).dump(2) + "\n");
  remove_partial(prefix_);
}

}  // namespace tephra
