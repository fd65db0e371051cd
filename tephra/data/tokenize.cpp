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
#include "tephra/data/shard_parts.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/text_records.h"
#include "tephra/io/token_shard.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

constexpr int64_t kGrain = 64;  // records; whatever the number of threads

// What became of a record.
struct Encoded {
  std::vector<int32_t> tokens;
  int64_t text_bytes = 0;
  const char* trouble = nullptr;  // of counted::
  std::string what;               // is wrong with it
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
    if (record.trouble != nullptr) {
      result.trouble = record.trouble;
      result.what = text;
      return;
    }
    try {
      if (record.json && trim(text).empty()) return;  // a blank line between objects
      if (record.json) text = parser.string_field(text, options_.text_field);
      require_data(is_utf8(text), "expected UTF-8 text, got other bytes");
    } catch (const Error& error) {
      result.trouble = counted::kBad;
      result.what = error.what();
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

const char* hint_for(const std::string& trouble) {
  return trouble == counted::kDamaged   ? "--on-error skip goes on with the next file"
         : trouble == counted::kTooLong ? "--on-error skip leaves such documents out, "
                                          "--max-document takes longer ones"
                                        : "--on-error skip leaves such documents out";
}

int64_t total_bytes(std::span<const Path> files) {
  int64_t bytes = 0;
  for (const Path& file : files) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// A shard that grows file by file, from where an earlier run was stopped.
class ShardMaker {
 public:
  ShardMaker(std::span<const Path> files, const Tokenizer& tokenizer, const Path& prefix,
             const TokenizeOptions& options)
      : files_(files),
        options_(options),
        vocab_size_(tokenizer.vocab_size()),
        encoder_(tokenizer, options),
        record_(files, prefix, options) {
    auto [at, writer] = record_.begin(vocab_size_);
    at_ = std::move(at);
    writer_ = std::move(writer);
    at_.report.files = std::ssize(files);
    at_.report.earlier_bytes = journaled_ = at_.report.text_bytes;
  }

  bool is_at(size_t file) const { return at_.file == file && at_.records == 0; }
  // The first file of which nothing is done.
  size_t next_file() const { return at_.file + (at_.records > 0 ? 1 : 0); }

  // Makes the tokens of all files before that one.
  void go_to(size_t end);
  // The tokens of the files up to `end`, which that shard holds.
  void join(const Path& part, const ShardProgress& made, size_t end);
  void write_journal() {
    at_.hash = writer_->flush().hash;
    record_.write_progress(at_);
    journaled_ = at_.report.text_bytes;
  }
  TokenizeReport commit() {
    record_.commit(*writer_, at_);
    return at_.report;
  }
  const TokenizeReport& report() const { return at_.report; }

 private:
  void take(const std::vector<TextRecord>& records, const std::vector<Encoded>& results);
  void take_trouble(const TextRecord& record, const Encoded& result);
  void count_left_out(const LeftOut& counts) {
    for (const auto& [reason, count] : counts) {
      at_.report.troubles.count(counted::kLeftOut + reason, count);
    }
  }

  std::span<const Path> files_;
  const TokenizeOptions& options_;
  int64_t vocab_size_;
  RecordEncoder encoder_;
  ShardRecord record_;
  ShardProgress at_;
  std::unique_ptr<TokenShardWriter> writer_;
  int64_t journaled_ = 0;  // bytes of text
};

void ShardMaker::go_to(size_t end) {
  if (at_.file >= end) return;
  Progress progress("tokenize", total_bytes(files_.first(end)), "B");
  TextRecords reader(files_.first(end), options_.split, options_.max_document_bytes);
  reader.skip_to(at_.file, at_.records);
  const auto read_on = [&] { return reader.next(options_.window_bytes); };
  std::vector<TextRecord> window = read_on();
  int64_t told = 0;
  while (!window.empty()) {
    const int64_t read = reader.file_bytes();
    count_left_out(reader.take_left_out(window.back().file));
    std::future<std::vector<TextRecord>> next = std::async(std::launch::async, read_on);
    const std::vector<Encoded> results = encoder_.encode(window);
    take(window, results);
    if (at_.report.text_bytes - journaled_ >= options_.journal_bytes) write_journal();
    progress.add(read - told);
    told = read;
    window = next.get();
    stop_if_interrupted();
  }
  count_left_out(reader.take_left_out(end));
  at_.file = end;
  at_.records = 0;
}

void ShardMaker::take(const std::vector<TextRecord>& records, const std::vector<Encoded>& results) {
  TokenizeReport& report = at_.report;
  for (size_t i = 0; i < results.size(); ++i) {
    const Encoded& result = results[i];
    at_.records = records[i].file == at_.file ? at_.records + 1 : 1;
    at_.file = records[i].file;
    if (result.trouble != nullptr) {
      take_trouble(records[i], result);
    } else if (result.tokens.empty()) {
      ++report.empty;
    } else {
      writer_->add_document(result.tokens);
      report.text_bytes += result.text_bytes;
    }
  }
  report.documents = writer_->documents();
  report.tokens = writer_->tokens();
}

void ShardMaker::take_trouble(const TextRecord& record, const Encoded& result) {
  const bool has_place = result.trouble != std::string_view(counted::kBad);
  const std::string what =
      has_place ? result.what
                : format("{}:{}: {}", files_[record.file].string(), record.line, result.what);
  if (options_.on_error == OnError::stop) {
    throw Error(Fault::data, what, hint_for(result.trouble));
  }
  at_.report.troubles.count(result.trouble);
  at_.report.troubles.error(what);
}

void ShardMaker::join(const Path& part, const ShardProgress& made, size_t end) {
  if (writer_->add_shard(part).hash != made.hash) {
    std::filesystem::remove(token_shard::with_suffix(part, ".idx"));
    throw Error(Fault::data,
                format("{}.bin: its tokens are not those that were written", part.string()),
                "the same command makes them anew");
  }
  at_.report.add(made.report);
  at_.file = end;
  at_.records = 0;
  write_journal();
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
  lock_shard(out_prefix);
  ShardMaker maker(files, tokenizer, out_prefix, options);
  maker.go_to(files.size());
  return maker.commit();
}

namespace {

// One of the processes that make a shard.
class ShardWork {
 public:
  ShardWork(std::span<const Path> files, const Tokenizer& tokenizer, const Path& prefix,
            const TokenizeOptions& options)
      : files_(files),
        tokenizer_(tokenizer),
        prefix_(prefix),
        options_(options),
        shard_(options.shard),
        whole_(files, prefix, options) {}

  // Whose the name is may be asked only by who holds it.
  NamedShard make(bool overwrite) {
    lock_shard(prefix_, shard_.count > 1);
    if (shard_.index == 0 && overwrite) whole_.begin_anew();
    if (shard_.index > 0) wait_for_first();
    if (const auto done = overwrite ? std::nullopt : whole_.done(tokenizer_.vocab_size())) {
      if (shard_.index == 0) whole_.finish();
      if (shard_.index == 0) wait_for_first();
      return {done->report, false};
    }
    if (!overwrite && (shard_.index == 0 || !shard_.ranks)) whole_.check_replaceable();
    return shard_.index == 0 ? make_first() : make_part();
  }

 private:
  // The others for the first rank; it only says that it has come so far.
  void wait_for_first() const {
    if (options_.ranks) options_.ranks->follow("who makes the tokens of which files");
  }

  // Who makes which files. The first rank says so; shards come when they come.
  ShardParts shared_parts(size_t from) const {
    const std::optional<ShardParts> found = ShardParts::read(files_, prefix_, whole_);
    if (found && found->count() == shard_.count) return *found;
    require_data(!shard_.ranks || shard_.index == 0, "{}: is gone while ranks work in it",
                 ShardParts::folder(prefix_).string());
    if (found && !shard_.ranks) {
      throw Error(Fault::usage,
                  format("{}: holds the work of {} shards, not of {}",
                         ShardParts::folder(prefix_).string(), found->count(), shard_.count),
                  "the same command without --shard takes what is done of it and makes the rest");
    }
    const ShardParts parts(files_, prefix_, from, shard_.count);
    parts.write(whole_);
    return parts;
  }

  NamedShard make_first() {
    ShardMaker maker(files_, tokenizer_, prefix_, options_);
    std::optional<ShardParts> parts = ShardParts::read(files_, prefix_, whole_);
    if (shard_.count > 1) {
      parts = shared_parts(shard_.ranks ? maker.next_file() : 0);
      lock_shard(parts->path(0));
    }
    wait_for_first();
    maker.go_to(parts ? parts->end(0) : files_.size());
    if (shard_.count > 1 && !shard_.ranks) {
      maker.write_journal();
      return {maker.report(), true, false};
    }
    for (int64_t part = 1; parts && part < parts->count(); ++part) add_part(*parts, part, maker);
    if (options_.ranks) options_.ranks->gather("the tokens of all ranks");
    return {maker.commit()};
  }

  // As its process made it, or, where nobody does, here.
  void add_part(const ShardParts& parts, int64_t part, ShardMaker& maker) const {
    const size_t end = parts.end(part);
    if (!maker.is_at(parts.begin(part))) return maker.go_to(end);
    if (parts.begin(part) == end) return;
    const ShardRecord record(parts.files(part), parts.path(part), options_);
    std::optional<ShardProgress> made = record.done(tokenizer_.vocab_size());
    if (options_.ranks && !made) {
      options_.ranks->wait_for(part, "its tokens", [&] {
        made = record.done(tokenizer_.vocab_size());
        return made.has_value();
      });
    }
    if (made) {
      maker.join(parts.path(part), *made, end);
    } else {
      maker.go_to(end);
    }
  }

  NamedShard make_part() const {
    const ShardParts parts = shared_parts(0);
    NamedShard part{.report = {}, .made = true, .complete = false};
    if (parts.begin(shard_.index) < parts.end(shard_.index)) {
      const std::span<const Path> files = parts.files(shard_.index);
      const Path prefix = parts.path(shard_.index);
      const auto made = ShardRecord(files, prefix, options_).done(tokenizer_.vocab_size());
      part.report = made ? made->report : tokenize_files(files, tokenizer_, prefix, options_);
    }
    if (options_.ranks) options_.ranks->gather("the tokens of all ranks");
    return part;
  }

  std::span<const Path> files_;
  const Tokenizer& tokenizer_;
  const Path& prefix_;
  const TokenizeOptions& options_;
  const Shard& shard_;
  ShardRecord whole_;
};

}  // namespace

NamedShard make_shard(std::span<const Path> files, const Tokenizer& tokenizer,
                      const Path& out_prefix, const TokenizeOptions& options, bool overwrite) {
  return ShardWork(files, tokenizer, out_prefix, options).make(overwrite);
}

}  // namespace tephra
