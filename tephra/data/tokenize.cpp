// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/tokenize.h"

#include <future>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/output_lock.h"
#include "tephra/data/encoder_pool.h"
#include "tephra/data/json_line.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/text_records.h"
#include "tephra/io/token_shard.h"

namespace tephra {
namespace {

constexpr int64_t kGrain = 64;  // records; whatever the number of threads

// What became of a record.
struct Encoded {
  std::vector<int32_t> tokens;
  int64_t text_bytes = 0;
  std::string bad;  // what is wrong with it
};

class RecordEncoder {
 public:
  RecordEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : options_(options), encoders_(tokenizer) {
    check_tokenize(tokenizer, options);
    if (options.append_eos) eos_ = end_token(tokenizer);
    if (options.prepend_bos) bos_ = *tokenizer.bos();
  }

  std::vector<Encoded> encode(const std::vector<TextRecord>& records) {
    std::vector<Encoded> results(records.size());
    parallel_for(static_cast<int64_t>(records.size()), kGrain, [&](int64_t begin, int64_t end) {
      JsonLine parser;
      encoders_.use([&](Encoder& encoder) {
        for (int64_t i = begin; i < end; ++i) {
          const auto at = static_cast<size_t>(i);
          encode_one(records[at], parser, encoder, results[at]);
        }
      });
    });
    return results;
  }

 private:
  void encode_one(const TextRecord& record, JsonLine& parser, Encoder& encoder, Encoded& result) {
    std::string_view text = record.text;
    try {
      if (record.json && trim(text).empty()) return;  // a blank line between objects
      if (record.json) text = parser.string_field(text, options_.text_field);
      require_data(is_utf8(text), "expected UTF-8 text, got other bytes");
    } catch (const Error& error) {
      result.bad = error.what();
      return;
    }
    if (text.empty()) return;
    if (options_.prepend_bos) result.tokens.push_back(bos_);
    encoder.encode(text, result.tokens);
    if (options_.append_eos) result.tokens.push_back(eos_);
    result.text_bytes = static_cast<int64_t>(text.size());
  }

  const TokenizeOptions& options_;
  EncoderPool encoders_;
  int32_t bos_ = 0, eos_ = 0;
};

void write_results(const std::vector<TextRecord>& records, const std::vector<Encoded>& results,
                   std::span<const Path> files, const TokenizeOptions& options,
                   TokenShardWriter& writer, ShardProgress& at) {
  TokenizeReport& report = at.report;
  for (size_t i = 0; i < results.size(); ++i) {
    const Encoded& result = results[i];
    at.records = records[i].file == at.file ? at.records + 1 : 1;
    at.file = records[i].file;
    if (!result.bad.empty()) {
      const std::string what =
          format("{}:{}: {}", files[records[i].file].string(), records[i].line, result.bad);
      if (!options.skip_bad) throw Error(Fault::data, what, "--skip-bad leaves such documents out");
      if (report.bad++ == 0) report.first_bad = what;
    } else if (result.tokens.empty()) {
      ++report.empty;
    } else {
      writer.add_document(result.tokens);
      report.text_bytes += result.text_bytes;
    }
  }
  report.documents = writer.documents();
  report.tokens = writer.tokens();
}

LeftOut together(LeftOut counts, const LeftOut& more) {
  for (const auto& [reason, count] : more) counts[reason] += count;
  return counts;
}

int64_t total_bytes(std::span<const Path> files) {
  int64_t bytes = 0;
  for (const Path& file : files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

}  // namespace

void check_tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (options.append_eos) end_token(tokenizer);
  if (!options.prepend_bos || tokenizer.bos()) return;
  throw Error(Fault::usage, "the tokenizer names no token that begins a text",
              "give \"bos_token\" in tokenizer_config.json beside tokenizer.json");
}

std::string mark_of_tokenizer(const Path& path) {
  const Path folder = std::filesystem::is_directory(path) ? path : path.parent_path();
  const Path main = std::filesystem::is_directory(path) ? path / "tokenizer.json" : path;
  std::string text;
  for (const Path& file :
       {main, folder / "tokenizer_config.json", folder / "generation_config.json"}) {
    if (std::filesystem::exists(file)) text += hash_text(xxh3(read_file(file)));
    text += '.';
  }
  return format("tokenizer={}", hash_text(xxh3(text)));
}

TokenizeReport tokenize_files(std::span<const Path> files, const Tokenizer& tokenizer,
                              const Path& out_prefix, const TokenizeOptions& options) {
  RecordEncoder encoder(tokenizer, options);
  lock_shard(out_prefix);
  const ShardRecord record(files, out_prefix, options);
  ShardProgress at = record.begin(tokenizer.vocab_size());
  TokenShardWriter writer(out_prefix, tokenizer.vocab_size(), at.shard());
  at.report.files = static_cast<int64_t>(files.size());
  at.report.earlier_bytes = at.report.text_bytes;
  Progress progress("tokenize", total_bytes(files), "B");
  TextRecords reader(files, options.split);
  reader.skip_to(at.file, at.records);
  const auto read_on = [&] { return reader.next(options.window_bytes); };
  const LeftOut left_out = at.report.left_out;  // of the files that are not read again
  std::vector<TextRecord> window = read_on();
  int64_t told = 0, journaled = at.report.text_bytes;
  while (!window.empty()) {
    const int64_t read = reader.file_bytes();
    at.report.left_out = together(left_out, reader.left_out(window.back().file));
    std::future<std::vector<TextRecord>> next = std::async(std::launch::async, read_on);
    const std::vector<Encoded> results = encoder.encode(window);
    write_results(window, results, files, options, writer, at);
    if (at.report.text_bytes - journaled >= options.journal_bytes) {
      writer.flush();
      record.write_progress(at);
      journaled = at.report.text_bytes;
    }
    progress.add(read - told);
    told = read;
    window = next.get();
    stop_if_interrupted();
  }
  at.report.left_out = together(left_out, reader.left_out(files.size()));
  record.commit(writer, at);
  return at.report;
}

// Whose the name is may be asked only by who holds it.
NamedShard make_shard(std::span<const Path> files, const Tokenizer& tokenizer,
                      const Path& out_prefix, const TokenizeOptions& options, bool overwrite) {
  lock_shard(out_prefix);
  const ShardRecord record(files, out_prefix, options);
  if (overwrite) {
    record.begin_anew();
  } else if (const auto report = record.done(tokenizer.vocab_size())) {
    record.finish();
    return {*report, false};
  } else {
    record.check_replaceable();
  }
  return {tokenize_files(files, tokenizer, out_prefix, options)};
}

}  // namespace tephra
