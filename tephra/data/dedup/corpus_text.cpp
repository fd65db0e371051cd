// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/corpus_text.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/data/corpus/document_work.h"

namespace tephra {
namespace {

constexpr const char* kTexts = "texts";
constexpr const char* kTextRecords = "records";
constexpr const char* kTextEnding = ".bin";

}  // namespace

StageRun write_corpus_text(std::span<const CorpusFile> files, const std::string& text_field,
                           StageSettings settings) {
  settings.what = "texts";
  settings.inner = true;
  settings.streams = {{kTexts, kTextEnding, StreamCoding::plain},
                      {kTextRecords, kTextEnding, StreamCoding::plain}};
  return run_stage(files, settings, [&](const CorpusPiece& piece, PieceResult& result) {
    each_document(piece, text_field, result, [&](const Document& document) {
      require_data(document.row <= UINT32_MAX && document.text.size() < UINT32_MAX,
                   "expected fewer than 2^32 lines, and texts below 4 GiB");
      const CorpusText::Record record{static_cast<uint32_t>(document.row),
                                      static_cast<uint32_t>(document.text.size())};
      result.streams[0] += document.text;
      result.streams[0] += kDocumentEnd;
      result.streams[1].append(reinterpret_cast<const char*>(&record), sizeof record);
    });
  });
}

CorpusText::CorpusText(std::span<const CorpusFile> files, const Path& folder)
    : files_(files), folder_(folder) {
  for (size_t file = 0; file < files.size(); ++file) {
    size_t bytes = 0;
    for (const Record& record : records(file)) {
      bytes += record.bytes + size_t{1};
      longest_ = std::max(longest_, record.bytes + size_t{1});
    }
    require_data(bytes == std::filesystem::file_size(path(kTexts, file)),
                 "{}: is damaged; remove the output folder", path(kTexts, file).string());
    first_.push_back(first_.back() + bytes);
  }
}

Path CorpusText::path(const char* kind, size_t file) const {
  return folder_ / kind / (files_[file].title() + kTextEnding);
}

std::vector<CorpusText::Record> CorpusText::records(size_t file) const {
  const FileReader reader(path(kTextRecords, file));
  std::vector<Record> records(static_cast<size_t>(reader.size()) / sizeof(Record));
  reader.read(0, std::as_writable_bytes(std::span(records)));
  return records;
}

std::vector<CorpusText::Place> CorpusText::places(size_t file) const {
  std::vector<Place> places;
  size_t begin = first_[file];
  for (const Record& record : records(file)) {
    places.push_back({record.row, record.bytes, begin});
    begin += record.bytes + size_t{1};
  }
  return places;
}

std::vector<TextChunk> CorpusText::chunks(size_t most) const {
  std::vector<TextChunk> chunks(1);
  for (size_t file = 0; file < files_.size(); ++file) {
    for (const Record& record : records(file)) {
      const size_t bytes = record.bytes + size_t{1};
      TextChunk& last = chunks.back();
      if (last.bytes + bytes <= most) {
        last.bytes += bytes;
      } else {
        chunks.push_back({last.begin + last.bytes, bytes});
      }
    }
  }
  return chunks;
}

void CorpusText::append(const TextChunk& chunk, std::string& out) const {
  const size_t end = chunk.begin + chunk.bytes;
  for (size_t file = 0; file < files_.size(); ++file) {
    const size_t from = std::max(chunk.begin, first_[file]), to = std::min(end, first_[file + 1]);
    if (from >= to) continue;
    const size_t before = out.size();
    out.resize(before + (to - from));
    const FileReader reader(path(kTexts, file));
    reader.read(static_cast<int64_t>(from - first_[file]),
                std::as_writable_bytes(std::span(out).subspan(before)));
  }
}

}  // namespace tephra
