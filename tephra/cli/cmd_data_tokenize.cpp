// SPDX-License-Identifier: Apache-2.0
// tephra data tokenize: text files to a token shard.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
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
  flags.add("--skip-bad", o.tokenize.skip_bad,
            "leave documents out that cannot be read, count them");
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

Json to_json(const Options& o, const TokenizeReport& report, double seconds) {
  Json json;
  json["out"] = o.out;
  json["files"] = report.files;
  json["documents"] = report.documents;
  json["tokens"] = report.tokens;
  json["text_bytes"] = report.text_bytes;
  json["empty"] = report.empty;
  json["bad"] = report.bad;
  json["first_bad"] = report.bad > 0 ? Json(report.first_bad) : Json();
  json["left_out"] = Json::Object{};
  for (const auto& [reason, count] : report.left_out) json["left_out"][reason] = count;
  json["seconds"] = seconds;
  return json;
}

int run(const Options& o) {
  const std::vector<Path> files = text_files(o.inputs);
  require(Path(o.out).has_filename(), "--out: expected the beginning of file names, got '{}'",
          o.out);
  const Tokenizer tokenizer = Tokenizer::load(o.tokenizer);
  if (const Path folder = Path(o.out).parent_path(); !folder.empty()) make_writable_folder(folder);
  install_signal_handlers();
  TokenizeOptions options = o.tokenize;
  options.split = parse_split(o.split);
  options.made_by = mark_of_tokenizer(o.tokenizer);
  NamedShard shard;
  const double seconds =
      seconds_of([&] { shard = make_shard(files, tokenizer, o.out, options, o.overwrite); });
  if (!shard.made) log_info("{}: done before; --overwrite makes it anew", o.out);
  const TokenizeReport& report = shard.report;
  if (report.bad > 0) {
    log_warning("{} bad documents were left out; the first: {}", human_count(report.bad),
                report.first_bad);
  }
  Tally left_out;
  for (const auto& [reason, count] : report.left_out) {
    left_out.count(counted::kLeftOut + reason, count);
  }
  tell_left_out(left_out);
  if (o.json) {
    print_json(to_json(o, report, seconds));
  } else {
    const int64_t bytes = report.text_bytes - report.earlier_bytes;
    const std::string rate =
        bytes > 0
            ? format(", {:.1f} MB/s", static_cast<double>(bytes) / 1e6 / std::max(seconds, 1e-9))
            : "";
    print("{}: {} tokens of {} documents, {:.2f} bytes a token{}", o.out,
          human_count(report.tokens), human_count(report.documents),
          static_cast<double>(report.text_bytes) /
              static_cast<double>(std::max<int64_t>(1, report.tokens)),
          rate);
  }
  return 0;
}

}  // namespace

Command data_tokenize_command() {
  return command<Options>("data tokenize", "text files to a token shard", describe, run);
}

}  // namespace tephra
