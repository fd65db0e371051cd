// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_maker.h"

#include <future>

#include "tephra/base/error.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

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

std::shared_ptr<const TokenShard> open_part(const Path& part) {  // null when it is damaged
  try {
    return TokenShard::open(part);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

ShardMaker::ShardMaker(std::span<const Path> files, const Tokenizer& tokenizer, const Path& prefix,
                       const TokenizeOptions& options)
    : files_(files),
      options_(options),
      encoder_(tokenizer, options),
      record_(files, prefix, options) {
  auto [at, writer] = record_.begin(tokenizer.vocab_size());
  at_ = std::move(at);
  writer_ = std::move(writer);
  at_.report.files = std::ssize(files);
  at_.report.earlier_bytes = journaled_ = at_.report.text_bytes;
}

void ShardMaker::write_journal() {
  at_.hash = writer_->flush().hash;
  record_.write_progress(at_);
  journaled_ = at_.report.text_bytes;
}

TokenizeReport ShardMaker::commit() {
  record_.commit(*writer_, at_);
  return at_.report;
}

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
    const std::vector<EncodedRecord> results = encoder_.encode(window);
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

void ShardMaker::take(const std::vector<TextRecord>& records,
                      const std::vector<EncodedRecord>& results) {
  TokenizeReport& report = at_.report;
  for (size_t i = 0; i < results.size(); ++i) {
    const EncodedRecord& result = results[i];
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

void ShardMaker::take_trouble(const TextRecord& record, const EncodedRecord& result) {
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
  const std::shared_ptr<const TokenShard> shard = open_part(part);
  if (shard == nullptr || writer_->add_shard(*shard).hash != made.hash) {
    std::filesystem::remove(token_shard::with_suffix(part, ".idx"));  // it is done no more
    throw Error(Fault::data,
                format("{}: its tokens are not those that were written", part.string()),
                "the same command makes them anew");
  }
  at_.report.add(made.report);
  at_.file = end;
  at_.records = 0;
  write_journal();
}

void ShardMaker::count_left_out(const LeftOut& counts) {
  for (const auto& [reason, count] : counts) {
    at_.report.troubles.count(counted::kLeftOut + reason, count);
  }
}

}  // namespace tephra
