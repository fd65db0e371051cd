// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_record.h"

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

using token_shard::with_suffix;

constexpr const char *kRecordSuffix = ".made.json", *kJournalSuffix = ".journal";

std::string settings_of(const TokenizeOptions& o) {
  return format("field={} split={} bos={} eos={} skip={} {}", o.text_field,
                static_cast<int>(o.split), o.prepend_bos, o.append_eos, o.skip_bad, o.made_by);
}

std::string inputs_of(std::span<const Path> files) {
  std::string text;
  for (const Path& file : files) {
    text += format("{} {}\n", file.filename().string(), mark_of_file(file));
  }
  return format("{} files, {}", files.size(), hash_text(xxh3(text)));
}

Json counts_json(const TokenizeReport& report) {
  Json json;
  json["files"] = report.files;
  json["documents"] = report.documents;
  json["tokens"] = report.tokens;
  json["text_bytes"] = report.text_bytes;
  json["empty"] = report.empty;
  json["bad"] = report.bad;
  json["first_bad"] = report.first_bad;
  json["left_out"] = Json::Object{};
  for (const auto& [reason, count] : report.left_out) json["left_out"][reason] = count;
  return json;
}

TokenizeReport read_counts(const Fields& fields) {
  TokenizeReport report;
  report.files = fields.integer("files");
  report.documents = fields.integer("documents");
  report.tokens = fields.integer("tokens");
  report.text_bytes = fields.integer("text_bytes");
  report.empty = fields.integer("empty");
  report.bad = fields.integer("bad");
  report.first_bad = fields.string("first_bad");
  const Fields left_out = fields.object("left_out");
  for (const auto& [reason, _] : left_out.json().object()) {
    report.left_out[reason] = left_out.integer(reason);
  }
  return report;
}

// The file as JSON; nothing when there is none, or it is damaged.
std::optional<Json> read_if_whole(const Path& path, bool hashed) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  const std::optional<std::string_view> json =
      hashed ? checked_line(text) : std::optional<std::string_view>(text);
  if (!json) return std::nullopt;
  return Json::parse(*json, path.string());
}

bool is_index(const Path& prefix) { return std::filesystem::exists(with_suffix(prefix, ".idx")); }

bool is_shard(const Path& prefix) {
  return is_index(prefix) && std::filesystem::exists(with_suffix(prefix, ".bin"));
}

void remove_partial(const Path& prefix) {
  for (const char* suffix : {kJournalSuffix, token_shard::kBinPartial, token_shard::kLenPartial}) {
    std::filesystem::remove(with_suffix(prefix, suffix));
  }
}

[[noreturn]] void refuse(const Path& prefix, const char* why) {
  throw Error(Fault::usage, format("{}.idx: {}", prefix.string(), why),
              "give --overwrite to replace it");
}

}  // namespace

ShardRecord::ShardRecord(std::span<const Path> files, const Path& prefix,
                         const TokenizeOptions& options)
    : prefix_(prefix), settings_(settings_of(options)), inputs_(inputs_of(files)) {}

bool ShardRecord::same(const Json& json, const Path& path) const {
  const Fields fields(json, path.string());
  return fields.string("settings") == settings_ && fields.string("inputs") == inputs_;
}

std::optional<TokenizeReport> ShardRecord::done() const {
  const Path path = with_suffix(prefix_, kRecordSuffix);
  const std::optional<Json> json = is_shard(prefix_) ? read_if_whole(path, false) : std::nullopt;
  if (!json || !same(*json, path)) return std::nullopt;
  remove_partial(prefix_);  // a kill at the very end may have left it
  TokenizeReport report = read_counts(Fields(*json, path.string()).object("counts"));
  report.earlier_bytes = report.text_bytes;
  return report;
}

void ShardRecord::check_replaceable() const {
  if (!is_index(prefix_) || done()) return;
  const Path path = with_suffix(prefix_, kJournalSuffix);
  const std::optional<Json> json = read_if_whole(path, true);
  if (json && same(*json, path)) return;  // killed when it had its name
  refuse(prefix_, "exists, made of other documents or in another way");
}

void ShardRecord::check_settings(const Path& prefix, const TokenizeOptions& options) {
  if (!is_index(prefix)) return;
  for (const char* suffix : {kRecordSuffix, kJournalSuffix}) {
    const Path path = with_suffix(prefix, suffix);
    const std::optional<Json> json = read_if_whole(path, suffix == kJournalSuffix);
    if (json && Fields(*json, path.string()).string("settings") == settings_of(options)) return;
  }
  refuse(prefix, "exists, made with other settings or by other stages");
}

ShardProgress ShardRecord::begin(int64_t vocab_size) const {
  const Path path = with_suffix(prefix_, kJournalSuffix);
  const std::optional<Json> json = read_if_whole(path, true);
  if (json && same(*json, path)) {
    const Fields fields(*json, path.string());
    ShardProgress progress;
    progress.file = static_cast<size_t>(fields.integer("file"));
    progress.records = fields.integer("records");
    progress.report = read_counts(fields.object("counts"));
    if (TokenShardWriter::holds(prefix_, vocab_size, progress.shard())) return progress;
  }
  std::filesystem::remove(path);  // what it tells of is about to be cut
  return {};
}

void ShardRecord::write_progress(const ShardProgress& progress) const {
  Json json;
  json["settings"] = settings_;
  json["inputs"] = inputs_;
  json["file"] = static_cast<int64_t>(progress.file);
  json["records"] = progress.records;
  json["counts"] = counts_json(progress.report);
  write_file(with_suffix(prefix_, kJournalSuffix), hashed_line(json.dump()));
}

// From the moment that the shard has its name until its record is there, the journal says whose it
// is.
void ShardRecord::commit(TokenShardWriter& writer, const ShardProgress& progress) const {
  writer.flush();
  write_progress(progress);
  std::filesystem::remove(with_suffix(prefix_, kRecordSuffix));  // of the shard that is replaced
  writer.commit();
  Json json;
  json["stage"] = "tokens";
  json["settings"] = settings_;
  json["inputs"] = inputs_;
  json["counts"] = counts_json(progress.report);
  write_file(with_suffix(prefix_, kRecordSuffix), json.dump(2) + "\n");
  remove_partial(prefix_);
}

}  // namespace tephra
