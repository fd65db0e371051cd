// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/text_records.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/formats/document_reader.h"

namespace tephra {
namespace {

bool is_text(const Path& path) {
  return is_document_file(path) || without_compression(path).extension() == ".txt";
}

int64_t size_on_disk(const Path& path) {  // 0 when it cannot be told
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

}  // namespace

std::vector<Path> text_files(std::span<const std::string> inputs) {
  std::vector<Path> files;
  for (const std::string& input : inputs) {
    require(std::filesystem::exists(input), "{}: does not exist", input);
    if (!std::filesystem::is_directory(input)) {
      if (!is_text(input)) {
        throw Error(Fault::usage,
                    format("{}: expected a text file, got one whose name ends otherwise", input),
                    "rename it to .txt, .jsonl, .wet or .warc, also with .gz or .zst, or .parquet, "
                    "by what it holds");
      }
      files.emplace_back(input);
      continue;
    }
    std::vector<Path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(documents_of(input))) {
      if (entry.is_regular_file() && is_text(entry.path())) found.push_back(entry.path());
    }
    require(!found.empty(), "{}: has no .txt, .jsonl, .wet, .warc (.gz, .zst) or .parquet files",
            input);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

void TextRecords::skip_to(size_t file, int64_t records) {
  for (; opened_ < file; ++opened_) {
    done_bytes_ += size_on_disk(files_[opened_]);
  }
  TextRecord record;
  for (int64_t i = 0; i < records; ++i) {
    require_data(next_record(record) && record.file == file,
                 "{}: has fewer documents than when its reading began; it was changed",
                 files_[file].string());
  }
}

LeftOut TextRecords::take_left_out(size_t files) {
  LeftOut sum;
  while (!left_out_.empty() && left_out_.begin()->first < files) {
    for (const auto& [reason, count] : left_out_.begin()->second) sum[reason] += count;
    left_out_.erase(left_out_.begin());
  }
  return sum;
}

std::vector<TextRecord> TextRecords::next(size_t bytes) {
  std::vector<TextRecord> records;
  size_t size = 0;
  while (size < bytes) {
    TextRecord record;
    if (!next_record(record)) break;
    size += record.text.size() + sizeof(TextRecord);
    records.push_back(std::move(record));
  }
  return records;
}

bool TextRecords::next_record(TextRecord& record) {
  for (;;) {
    try {
      if (lines_ && next_of_file(record)) return true;
      if (lines_) close_file();
      if (opened_ == files_.size()) return false;
      if (open_next(record)) return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::data && error.fault() != Fault::usage) throw;
      record = damaged(error);
      close_file();
      return true;
    }
  }
}

TextRecord TextRecords::damaged(const Error& error) const {
  TextRecord record{error.what(), 0, opened_ - 1, false, counted::kDamaged};
  if (!lines_) return record;
  record.line = lines_->line_number();
  record.text += format("; {} lines before it were read", record.line);
  return record;
}

void TextRecords::close_file() {
  done_bytes_ += size_on_disk(files_[opened_ - 1]);
  if (lines_) left_out_[opened_ - 1] = lines_->bytes().left_out();
  lines_.reset();
}

bool TextRecords::next_of_file(TextRecord& record) {
  record = {"", 0, opened_ - 1, json_};
  return !json_ && split_ == TextSplit::paragraph ? next_paragraph(record) : next_line(record);
}

bool TextRecords::next_line(TextRecord& record) {
  std::string_view line;
  if (!lines_->next(line)) return false;
  record.line = lines_->line_number();
  record.text = line;
  if (lines_->too_long()) too_long(record);
  return true;
}

// Lines up to one that is blank.
bool TextRecords::next_paragraph(TextRecord& record) {
  std::string_view line;
  bool is_long = false;
  while (lines_->next(line)) {
    const bool blank = !lines_->too_long() && trim(line).empty();
    if (blank && record.line > 0) break;
    if (blank) continue;
    if (record.line == 0) record.line = lines_->line_number();
    if (!record.text.empty()) record.text += '\n';
    is_long =
        is_long || lines_->too_long() || record.text.size() + line.size() > max_document_bytes_;
    if (!is_long) record.text += line;
  }
  if (is_long) too_long(record);
  return record.line > 0;
}

void TextRecords::too_long(TextRecord& record) const {
  record.text = format("{}:{}: a document is longer than {}", files_[record.file].string(),
                       record.line, human_bytes(static_cast<int64_t>(max_document_bytes_)));
  record.trouble = counted::kTooLong;
}

// True when the file is one document, which `record` then holds.
bool TextRecords::open_next(TextRecord& record) {
  const Path& path = files_[opened_++];
  json_ = is_document_file(path);
  if (json_ || split_ != TextSplit::file) {
    lines_ =
        std::make_unique<LineReader>(path, json_ ? open_documents(path) : ByteReader::open(path),
                                     max_document_bytes_, LongLines::empty);
    return false;
  }
  record = {read_decompressed(path, max_document_bytes_), 1, opened_ - 1, false};
  close_file();
  return true;
}

}  // namespace tephra
