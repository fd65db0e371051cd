// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/data_options.h"

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/output.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/output_lock.h"

namespace tephra {

void describe_corpus(Flags& flags, CorpusOptions& o) {
  flags
      .add("INPUT", o.inputs,
           ".jsonl, .wet, .warc (.gz, .zst) or .parquet files or folders, as PATH or SOURCE=PATH; "
           "also an earlier stage's "
           "output")
      .required();
  flags.add("--out DIR", o.out, "folder to write").required();
  flags.add("--text-field", o.text_field, "the key that holds the text");
  flags.add("--on-error", o.on_error, "what a document or file that cannot be read does")
      .choices({"stop", "skip"});
  flags.add("--shard I/N", o.shard,
            "only every N-th file, from I; the same command without it joins them; auto: by rank "
            "under mpirun or srun, which needs no joining");
  flags.add("--max-document", o.max_document, "longest line that is read");
  flags.add("--memory", o.memory,
            "what may be used, beside some 64 MiB, a line that is longer, and of dedup 4 bytes a "
            "document and 64 a duplicate");
  flags.add("--samples", o.samples, "texts that the report keeps for each reason").range(0, 1000);
  flags.add("--level", o.level, "zstd's, of what is written").range(1, 19);
  flags.add("--overwrite", o.overwrite, "replace what DIR holds");
  flags.add("--json", o.json, "one JSON document on stdout");
}

void describe_output_format(Flags& flags, CorpusOptions& o) {
  flags
      .add("--output-format", o.format,
           "of the documents that are left: .jsonl.zst, or .parquet with a column for each field")
      .choices({"jsonl", "parquet"});
}

StageSettings stage_settings(const CorpusOptions& o) {
  StageSettings stage;
  stage.out = o.out;
  stage.on_error = on_error_setting(o.on_error);
  stage.shard = parse_shard(o.shard);
  stage.max_line_bytes = size_setting(o.max_document, "--max-document");
  stage.memory_bytes = size_setting(o.memory, "--memory");
  stage.samples = o.samples;
  stage.level = static_cast<int>(o.level);
  stage.format = o.format == "parquet" ? DocumentFormat::parquet : DocumentFormat::jsonl;
  require(!o.overwrite || stage.shard.count == 1,
          "--overwrite: shards would remove each other's work; remove {} yourself", o.out);
  check_apart(o.inputs, o.out);
  lock_output(o.out, stage.shard);
  prepare_output(o.out, o.overwrite, stage.shard);
  lock_share(o.out, stage.shard);
  join_ranks(stage);
  return stage;
}

CorpusContext corpus_context(const CorpusOptions& o) {
  return {o.text_field, size_setting(o.memory, "--memory")};
}

void tell_left_out(const Tally& tally, const std::string& where) {
  std::string text;
  for (const auto& [name, count] : tally.counts()) {
    if (!name.starts_with(counted::kLeftOut)) continue;
    const std::string reason = name.substr(counted::kLeftOut.size());
    text += format("{}{} {}", text.empty() ? "" : ", ", human_count(count), reason);
  }
  if (text.empty()) return;
  log_info("{}records that are no documents were left out: {}", where, text);
}

void tell_bad(const Tally& tally, const std::string& where) {
  const int64_t bad = tally[counted::kBad] + tally[counted::kTooLong];
  if (bad > 0) {
    log_warning("{}{} documents could not be read and were left out", where, human_count(bad));
  }
  if (const int64_t files = tally[counted::kDamaged]; files > 0) {
    log_warning("{}{} files could not be read to their end", where, human_count(files));
  }
  if (!tally.errors().empty()) log_warning("{}the first: {}", where, tally.errors().front());
}

void tell_shard_done(const std::string& out, const std::string& shard) {
  log_info("{}: shard {} is done; when all are, the same command without --shard joins them", out,
           shard);
}

void tell_troubles(const StageRun& run, const CorpusOptions& o) {
  tell_left_out(run.tally);
  tell_bad(run.tally);
  if (!run.complete && parse_shard(o.shard).ranks) return;  // the first rank goes on
  if (!run.awaited.empty()) {
    log_info("{}: shard {} has done its {}; when all shards have, run each of them once more",
             o.out, o.shard, run.awaited);
  } else if (!run.complete) {
    tell_shard_done(o.out, o.shard);
  }
}

bool told_as_json(const StageRun& run, const CorpusOptions& o, std::optional<double> seconds) {
  if (const Shard shard = parse_shard(o.shard); shard.ranks && shard.index > 0) return true;
  if (!o.json) return !run.awaited.empty();
  Json json = run.tally.to_json();
  json["out"] = o.out;
  json["complete"] = run.complete;
  if (seconds) json["seconds"] = *seconds;
  print_json(json);
  return true;
}

}  // namespace tephra
