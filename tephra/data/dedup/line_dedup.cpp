// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/line_dedup.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/first_pass.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/filter/words.h"

namespace tephra {
namespace {

constexpr const char* kLinesFolder = ".dedup";
constexpr const char* kHashes = "hashes";
constexpr const char* kCounts = "counts";
constexpr const char* kLinesEnding = ".bin";
constexpr size_t kReadHashes = size_t{1} << 19;

// Pieces that are compared, of one document.
struct DocumentPieces {
  uint32_t row = 0;
  uint32_t count = 0;
};

// Each piece with the separator that follows it.
struct TextPiece {
  std::string_view text, separator;
};

void split_pieces(std::string_view text, bool paragraphs, std::vector<TextPiece>& pieces) {
  pieces.clear();
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(paragraphs ? "\n\n" : "\n", at);
    if (end == std::string_view::npos) end = text.size();
    // Looked for only where it is jumped to: a text of newlines takes time by its length.
    const size_t after =
        std::min(paragraphs ? text.find_first_not_of('\n', end) : end + 1, text.size());
    pieces.push_back({text.substr(at, end - at), text.substr(end, after - end)});
    at = after;
  }
}

bool is_compared(std::string_view piece, int64_t least_chars) {
  return count_code_points(trim(piece)) >= least_chars;
}

StageRun write_hashes(std::span<const CorpusFile> files, const LineDedupOptions& options,
                      StageSettings stage) {
  stage.what = "hash";
  stage.inner = true;
  stage.out = stage.out / kLinesFolder;
  stage.streams = {{kHashes, kLinesEnding, StreamCoding::plain},
                   {kCounts, kLinesEnding, StreamCoding::plain}};
  stage.settings =
      format("lines {} {} {}", options.text_field, options.paragraphs, options.least_chars);
  return run_stage(files, stage, [&](const CorpusPiece& piece, PieceResult& result) {
    std::vector<TextPiece> pieces;
    each_document(piece, options.text_field, result, [&](const Document& document) {
      DocumentPieces counts{static_cast<uint32_t>(document.row), 0};
      split_pieces(document.text, options.paragraphs, pieces);
      for (const TextPiece& each : pieces) {
        if (!is_compared(each.text, options.least_chars)) continue;
        const uint64_t hash = xxh3(trim(each.text));
        result.streams[0].append(reinterpret_cast<const char*>(&hash), sizeof hash);
        ++counts.count;
      }
      result.streams[1].append(reinterpret_cast<const char*>(&counts), sizeof counts);
    });
  });
}

// Which of all compared pieces stood before, by their number in the corpus.
class SeenPieces {
 public:
  SeenPieces(std::span<const CorpusFile> files, const Path& folder)
      : files_(files), folder_(folder) {
    for (const CorpusFile& file : files) {
      first_.push_back(first_.back() + std::filesystem::file_size(path(kHashes, file)) / 8);
    }
    require_data(first_.back() < UINT32_MAX, "expected fewer than 2^32 lines, got {}",
                 first_.back());
    seen_.resize(first_.back());
  }

  void find(int64_t memory_bytes) {
    const auto total = static_cast<int64_t>(first_.back());
    const auto each = 2 * static_cast<int64_t>(sizeof(BandRecord));
    const int64_t room = std::max(memory_bytes, int64_t{1} << 10);
    const auto parts = static_cast<uint64_t>(total * each / room + 1);
    BandJoin join;
    for (uint64_t part = 0; part < parts; ++part) {
      std::vector<BandRecord> records = read(part, parts);
      join.each_match(records, [&](uint32_t, uint32_t later) { seen_[later] = true; });
      stop_if_interrupted();
    }
  }

  // A text that has grown meanwhile may ask for more than there are.
  bool operator[](size_t piece) const { return piece < seen_.size() && seen_[piece]; }

  // Of each document of the file: its row and the number of its first piece.
  std::vector<std::pair<uint32_t, uint32_t>> documents(size_t file) const {
    const FileReader reader(path(kCounts, files_[file]));
    std::vector<DocumentPieces> counts(static_cast<size_t>(reader.size()) / sizeof(DocumentPieces));
    reader.read(0, std::as_writable_bytes(std::span(counts)));
    std::vector<std::pair<uint32_t, uint32_t>> result;
    auto next = static_cast<uint32_t>(first_[file]);
    for (const DocumentPieces& document : counts) {
      result.emplace_back(document.row, next);
      next += document.count;
    }
    return result;
  }

 private:
  Path path(const char* kind, const CorpusFile& file) const {
    return folder_ / kind / (file.title() + kLinesEnding);
  }

  std::vector<BandRecord> read(uint64_t part, uint64_t parts) const {
    const uint64_t width = parts == 1 ? 0 : UINT64_MAX / parts + 1;
    std::vector<BandRecord> records;
    std::vector<uint64_t> hashes;
    for (size_t file = 0; file < files_.size(); ++file) {
      const FileReader reader(path(kHashes, files_[file]));
      const size_t count = first_[file + 1] - first_[file];
      for (size_t begin = 0; begin < count; begin += kReadHashes) {
        hashes.resize(std::min(kReadHashes, count - begin));
        reader.read(static_cast<int64_t>(8 * begin), std::as_writable_bytes(std::span(hashes)));
        for (size_t i = 0; i < hashes.size(); ++i) {
          if (parts > 1 && hashes[i] / width != part) continue;
          records.push_back({hashes[i], static_cast<uint32_t>(first_[file] + begin + i)});
        }
      }
    }
    return records;
  }

  std::span<const CorpusFile> files_;
  Path folder_;
  std::vector<size_t> first_ = {0};
  std::vector<bool> seen_;
};

// The document without the pieces that were seen; counts them.
std::string without_seen(const Document& document, const LineDedupOptions& options,
                         const SeenPieces& seen, size_t next, PieceResult& result) {
  std::vector<TextPiece> pieces;
  split_pieces(document.text, options.paragraphs, pieces);
  std::string text;
  std::string_view separator;
  bool changed = false;
  for (const TextPiece& each : pieces) {
    if (is_compared(each.text, options.least_chars) && seen[next++]) {
      result.tally.count("removed_pieces");
      result.tally.count("removed_bytes", static_cast<int64_t>(each.text.size()));
      result.tally.sample("removed", document.id, each.text);
      changed = true;
      continue;
    }
    text += text.empty() ? std::string_view() : separator;
    text += each.text;
    separator = each.separator;
  }
  return changed ? text : std::string(document.text);
}

}  // namespace

StageRun dedup_lines(std::span<const CorpusFile> files, const LineDedupOptions& options,
                     StageSettings stage) {
  const StageRun hashed = write_hashes(files, options, stage);
  if (!hashed.complete) return hashed;
  SeenPieces seen(files, stage.out / kLinesFolder);
  seen.find(options.memory_bytes);
  stage.what = "dedup lines";
  stage.streams = {documents_stream(stage)};
  stage.settings = format("lines {} {} {} {}", options.text_field, options.paragraphs,
                          options.least_chars, stage.level);
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> documents(files.size());
  for (size_t file = 0; file < files.size(); ++file) documents[file] = seen.documents(file);
  const FirstPass first(files, hashed);
  const auto work = [&](const CorpusPiece& piece, PieceResult& result) {
    const auto& rows = documents[piece.file_index];
    first.check(piece);
    bool changed = false;
    each_document(piece, options.text_field, result, [&](const Document& document) {
      const auto found = std::lower_bound(rows.begin(), rows.end(),
                                          std::pair(static_cast<uint32_t>(document.row), 0u));
      if (found == rows.end() || found->first != document.row) {
        changed = true;
        return;
      }
      const std::string text = without_seen(document, options, seen, found->second, result);
      if (trim(text).empty() && !trim(document.text).empty()) {
        result.tally.count("emptied_documents");
        return;
      }
      result.tally.count("kept");
      if (text == document.text) {
        append_document(result.streams[0], document);
        return;
      }
      std::string line;
      append_with_string(line, document.object, options.text_field, text);
      append_document(result.streams[0],
                      {line, text, document.id, document.row, document.has_id, document.fields});
    });
    if (changed) FirstPass::changed(piece.file, "a line is another one than at first");
  };
  return run_later(files, reported_job(stage, work), first);
}

}  // namespace tephra
