// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/text_records.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/formats/document_reader.h"

namespace tephra {
namespace {

constexpr size_t kMaxDocumentBytes = size_t{1} << 30;

bool is_text(const Path& path) {
  return is_document_file(path) || without_compression(path).extension() == ".txt";
}

}  // namespace

std::vector<Path> text_files(std::span<const std::string> inputs) {
  std::vector<Path> files;
  for (const std::string& input : inputs) {
    require(std::filesystem::exists(input), "{}: does not exist", input);
    if (!std::filesystem::is_directory(input)) {
      require(is_text(input),
              "{}: expected .txt, .jsonl, .wet or .warc, also with .gz or .zst, or .parquet",
              input);
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
    done_bytes_ += static_cast<int64_t>(std::filesystem::file_size(files_[opened_]));
  }
  TextRecord record;
  for (int64_t i = 0; i < records; ++i) {
    require_data(next_record(record) && record.file == file,
                 "{}: has fewer documents than when its reading began; it was changed",
                 files_[file].string());
  }
}

LeftOut TextRecords::left_out(size_t files) const {
  LeftOut sum;
  for (const auto& [file, counts] : left_out_) {
    if (file >= files) break;
    for (const auto& [reason, count] : counts) sum[reason] += count;
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
    if (lines_) {
      record = {"", 0, opened_ - 1, json_};
      std::string_view line;
      if (!json_ && split_ == TextSplit::paragraph) {
        if (next_paragraph(record)) return true;
      } else if (lines_->next(line)) {
        record.text = line;
        record.line = lines_->line_number();
        return true;
      }
      done_bytes_ += lines_->file_bytes();
      left_out_[opened_ - 1] = lines_->bytes().left_out();
      lines_.reset();
    }
    if (opened_ == files_.size()) return false;
    if (open_next(record)) return true;
  }
}

// True when the file is one document, which `record` then holds.
bool TextRecords::open_next(TextRecord& record) {
  const Path& path = files_[opened_++];
  json_ = is_document_file(path);
  if (json_ || split_ != TextSplit::file) {
    lines_ = std::make_unique<LineReader>(
        path, json_ ? open_documents(path) : ByteReader::open(path), kMaxDocumentBytes);
    return false;
  }
  record = {read_decompressed(path, kMaxDocumentBytes), 1, opened_ - 1, false};
  done_bytes_ += static_cast<int64_t>(std::filesystem::file_size(path));
  return true;
}

// Lines up to one that is blank.
bool TextRecords::next_paragraph(TextRecord& record) {
  std::string_view line;
  while (lines_->next(line)) {
    const bool blank = trim(line).empty();
    if (blank && !record.text.empty()) return true;
    if (blank) continue;
    if (record.text.empty()) record.line = lines_->line_number();
    if (!record.text.empty()) record.text += '\n';
    record.text += line;
    require_data(record.text.size() <= kMaxDocumentBytes, "{}: a paragraph is longer than 1 GiB",
                 lines_->where());
  }
  return !record.text.empty();
}

}  // namespace tephra
