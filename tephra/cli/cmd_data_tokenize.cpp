// SPDX-License-Identifier: Apache-2.0
// tephra data tokenize: text files to a token shard.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/tokenize.h"

namespace tephra {
namespace {

struct Options {
  std::vector<std::string> inputs;
  std::string tokenizer;
  std::string out;
  std::string split = "file";
  std::string on_error = "stop";
  std::string max_document = "1GiB";
  std::string shard = "auto";
  TokenizeOptions tokenize;
  bool overwrite = false;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags
      .add("INPUT", o.inputs,
           ".txt, .jsonl, .wet or .warc files, also .gz and .zst, .parquet files, or folders of "
           "them")
      .required();
  flags.add("--tokenizer PATH", o.tokenizer, "tokenizer.json, or a model folder with one")
      .required();
  flags.add("--out PREFIX", o.out, "writes PREFIX.bin and PREFIX.idx").required();
  flags.add("--text-field", o.tokenize.text_field, "of .jsonl: the key that holds the text");
  flags.add("--split", o.split, "of .txt: what a document is")
      .choices({"file", "line", "paragraph"});
  flags.add("--append-eos", o.tokenize.append_eos, "end each document with the end-of-text token");
  flags.add("--prepend-bos", o.tokenize.prepend_bos, "begin each document with the first token");
  flags.add("--on-error", o.on_error, "what a document or file that cannot be read does")
      .choices({"stop", "skip"});
  flags.add("--max-document", o.max_document, "longest document that is read");
  flags.add("--shard I/N", o.shard,
            "only the I-th part of the files; the same command without it joins them; auto: by "
            "rank under mpirun or srun, which needs no joining");
  flags.add("--overwrite", o.overwrite, "replace a shard of that name");
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example(
      "tephra data tokenize corpus.jsonl.zst --tokenizer model --out shards/web --append-eos");
  flags.example(
      "tephra data tokenize books --tokenizer model --out shards/books --split paragraph");
}

TextSplit parse_split(const std::string& name) {
  return name == "line"        ? TextSplit::line
         : name == "paragraph" ? TextSplit::paragraph
                               : TextSplit::file;
}

// Where the ranks of a command meet, beside the shard.
Path ranks_folder(const Path& prefix) {
  return prefix.parent_path() / format(".{}.ranks", prefix.filename().string());
}

TokenizeOptions tokenize_options(const Options& o) {
  TokenizeOptions options = o.tokenize;
  options.split = parse_split(o.split);
  options.on_error = on_error_setting(o.on_error);
  options.max_document_bytes = static_cast<size_t>(size_setting(o.max_document, "--max-document"));
  options.made_by = mark_of_tokenizer(o.tokenizer);
  options.shard = parse_shard(o.shard);
  require(!o.overwrite || options.shard.count == 1 || options.shard.ranks,
          "--overwrite: shards would remove each other's work; begin without --shard");
  return options;
}

NamedShard make(const Options& o, std::span<const Path> files) {
  const Tokenizer tokenizer = Tokenizer::load(o.tokenizer);
  TokenizeOptions options = tokenize_options(o);
  if (const Path folder = Path(o.out).parent_path(); !folder.empty()) make_writable_folder(folder);
  if (options.shard.ranks) {
    options.ranks = std::make_shared<Ranks>(ranks_folder(o.out), options.shard);
  }
  NamedShard shard = make_shard(files, tokenizer, o.out, options, o.overwrite);
  if (options.ranks) {
    options.ranks->gather("the end of tokenize");
  } else if (shard.complete) {
    std::filesystem::remove_all(ranks_folder(o.out));  // of ranks that failed
  }
  return shard;
}

void tell(const Options& o, const TokenizeReport& report, double seconds) {
  const int64_t bytes = report.text_bytes - report.earlier_bytes;
  const std::string rate =
      bytes > 0
          ? format(", {:.1f} MB/s", static_cast<double>(bytes) / 1e6 / std::max(seconds, 1e-9))
          : "";
  print("{}: {} tokens of {} documents, {:.2f} bytes a token{}", o.out, human_count(report.tokens),
        human_count(report.documents),
        static_cast<double>(report.text_bytes) /
            static_cast<double>(std::max<int64_t>(1, report.tokens)),
        rate);
}

int run(const Options& o) {
  const std::vector<Path> files = text_files(o.inputs);
  require(Path(o.out).has_filename(), "--out: expected the beginning of file names, got '{}'",
          o.out);
  NamedShard shard;
  const double seconds = seconds_of([&] { shard = make(o, files); });
  if (const Shard part = parse_shard(o.shard); part.ranks && part.index > 0) return 0;
  if (!shard.made) log_info("{}: done before; --overwrite makes it anew", o.out);
  tell_bad(shard.report.troubles);
  tell_left_out(shard.report.troubles);
  if (!shard.complete) tell_shard_done(o.out, o.shard);
  if (o.json) {
    Json json = shard.report.to_json();
    json["out"] = o.out;
    json["complete"] = shard.complete;
    json["seconds"] = seconds;
    print_json(json);
  } else if (shard.complete) {
    tell(o, shard.report, seconds);
  }
  return 0;
}

}  // namespace

Command data_tokenize_command() {
  return command<Options>("data tokenize", "text files to a token shard", describe, run);
}

}  // namespace tephra
