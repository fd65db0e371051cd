// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/substring_dedup.h"

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/first_pass.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/dedup/corpus_text.h"

namespace tephra {
namespace {

constexpr const char* kSubstringFolder = ".dedup";
constexpr const char* kMarksFile = "marks.bin";
constexpr size_t kBytesPerByte = 5;  // the text and its suffix array
constexpr size_t kLeastPart = size_t{1} << 16;
constexpr size_t kMostParts = 64;  // each is compared with every other one
constexpr size_t kMostBytes = size_t{INT32_MAX};

size_t ceil_size(size_t a, size_t b) { return (a + b - 1) / b; }

// Memory with which the corpus would be cut into that many parts.
size_t memory_for(const CorpusText& corpus, size_t parts) {
  const size_t part = std::max(ceil_size(corpus.bytes(), parts) + corpus.longest(), kLeastPart);
  return corpus.bytes() / 8 + 2 * kBytesPerByte * part;
}

// Parts of which any two fit into memory together; a single one when all of it does.
std::vector<TextChunk> choose_parts(const CorpusText& corpus, size_t memory) {
  const size_t marks = corpus.bytes() / 8;
  const size_t room = std::min(memory > marks ? (memory - marks) / kBytesPerByte : 0, kMostBytes);
  if (corpus.bytes() <= room) return {{0, corpus.bytes()}};
  std::vector<TextChunk> parts;
  const bool fits = room / 2 >= std::max(corpus.longest(), kLeastPart);
  if (fits) parts = corpus.chunks(room / 2);
  if (fits && parts.size() <= kMostParts) return parts;
  const size_t enough = memory_for(corpus, kMostParts);
  throw Error(
      Fault::usage,
      format("--memory: {} are too little to compare {} of text with itself",
             human_bytes(static_cast<int64_t>(memory)),
             human_bytes(static_cast<int64_t>(corpus.bytes()))),
      enough / (2 * kBytesPerByte) > kMostBytes / 2
          ? "a corpus of this size needs --unit paragraph, or to be compared source by source"
          : format("give at least {}; {} would do in one go",
                   human_bytes(static_cast<int64_t>(enough)),
                   human_bytes(
                       static_cast<int64_t>(corpus.bytes() / 8 + kBytesPerByte * corpus.bytes()))));
}

// Every pair of parts, or the only one.
void search_parts(const CorpusText& corpus, std::span<const TextChunk> parts,
                  const RepeatRule& rule, WindowMarks& marks) {
  const auto total = static_cast<int64_t>(parts.size() == 1 ? corpus.bytes()
                                                            : corpus.bytes() * (parts.size() - 1));
  Progress progress("repeats", total, "B");
  const auto search = [&](const TextChunk& a, const TextChunk& b) {
    std::string text;
    text.reserve(a.bytes + b.bytes + rule.least);
    corpus.append(a, text);
    corpus.append(b, text);
    mark_repeats(text, a, b, rule, marks);
    progress.add(static_cast<int64_t>(a.bytes + b.bytes));
    stop_if_interrupted();
  };
  if (parts.size() == 1) search(parts[0], {});
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = i + 1; j < parts.size(); ++j) search(parts[i], parts[j]);
  }
}

// The marks of an earlier run that came as far.
bool read_marks(const Path& path, WindowMarks& marks) {
  if (!std::filesystem::exists(path)) return false;
  const FileReader reader(path);
  const std::span<std::byte> bytes = std::as_writable_bytes(marks.words());
  if (reader.size() != static_cast<int64_t>(bytes.size() + sizeof(uint64_t))) return false;
  uint64_t hash = 0;
  reader.read(0, std::as_writable_bytes(std::span(&hash, 1)));
  reader.read(sizeof hash, bytes);
  if (hash == xxh3(std::as_bytes(marks.words()))) return true;
  std::fill(marks.words().begin(), marks.words().end(), uint64_t{0});
  return false;
}

void write_marks(const Path& path, const WindowMarks& marks) {
  const uint64_t hash = xxh3(std::as_bytes(marks.words()));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&hash, 1)));
  file.write(std::as_bytes(marks.words()));
  file.commit();
}

WindowMarks find_marks(const CorpusText& corpus, const SubstringDedupOptions& options,
                       const Path& folder) {
  WindowMarks marks(corpus.bytes());
  if (read_marks(folder / kMarksFile, marks)) return marks;
  const std::vector<TextChunk> parts =
      choose_parts(corpus, static_cast<size_t>(options.memory_bytes));
  if (parts.size() > 1) {
    log_info("the text does not fit --memory: {} parts are compared in pairs", parts.size());
  }
  const RepeatRule rule{static_cast<size_t>(options.least_bytes), !options.remove_all};
  search_parts(corpus, parts, rule, marks);
  write_marks(folder / kMarksFile, marks);
  return marks;
}

// The text without these ranges; counts them.
std::string without_ranges(const Document& document, std::span<const ByteRange> ranges,
                           const std::string& source, Tally& tally) {
  std::string text;
  size_t at = 0, removed = 0;
  for (const ByteRange& range : ranges) {
    text += document.text.substr(at, range.begin - at);
    at = range.end;
    removed += range.end - range.begin;
  }
  tally.sample("removed", document.id,
               document.text.substr(ranges[0].begin, ranges[0].end - ranges[0].begin));
  text += document.text.substr(at);
  tally.count("removed_pieces", static_cast<int64_t>(ranges.size()));
  tally.count("removed_bytes", static_cast<int64_t>(removed));
  tally.count("source." + source + ".removed_bytes", static_cast<int64_t>(removed));
  return text;
}

class SubstringWriter {
 public:
  SubstringWriter(std::span<const CorpusFile> files, const CorpusText& corpus,
                  const WindowMarks& marks, const SubstringDedupOptions& options)
      : marks_(marks), options_(options) {
    for (size_t file = 0; file < files.size(); ++file) places_.push_back(corpus.places(file));
  }

  void work(const CorpusPiece& piece, PieceResult& result) const {
    bool changed = false;
    each_document(piece, options_.text_field, result, [&](const Document& document) {
      const auto& places = places_[piece.file_index];
      const auto found = std::lower_bound(
          places.begin(), places.end(), document.row,
          [](const CorpusText::Place& place, int64_t row) { return place.row < row; });
      if (found == places.end() || found->row != document.row ||
          found->bytes != document.text.size()) {
        changed = true;
        return;
      }
      const std::vector<ByteRange> ranges = marked_ranges(
          marks_, found->begin, document.text, static_cast<size_t>(options_.least_bytes));
      if (ranges.empty()) {
        result.tally.count("kept");
        append_document(result.streams[0], document);
        return;
      }
      write_changed(document, without_ranges(document, ranges, piece.file.source, result.tally),
                    result);
    });
    if (changed) FirstPass::changed(piece.file, "a text is another one than at first");
  }

 private:
  void write_changed(const Document& document, const std::string& text, PieceResult& result) const {
    if (trim(text).empty()) {
      result.tally.count("emptied_documents");
      return;
    }
    result.tally.count("kept");
    result.tally.count("changed_documents");
    std::string line;
    append_with_string(line, document.object, options_.text_field, text);
    append_document(result.streams[0],
                    {line, text, document.id, document.row, document.has_id, document.fields});
  }

  const WindowMarks& marks_;
  const SubstringDedupOptions& options_;
  std::vector<std::vector<CorpusText::Place>> places_;
};

}  // namespace

StageRun dedup_substrings(std::span<const CorpusFile> files, const SubstringDedupOptions& options,
                          StageSettings stage) {
  StageSettings texts = stage;
  texts.out = stage.out / kSubstringFolder;
  texts.settings =
      format("substrings {} {} {}", options.text_field, options.least_bytes, options.remove_all);
  const StageRun read = write_corpus_text(files, options.text_field, texts);
  if (!read.complete) return read;
  const CorpusText corpus(files, texts.out);
  const WindowMarks marks = find_marks(corpus, options, texts.out);
  const SubstringWriter writer(files, corpus, marks, options);
  stage.what = "dedup substrings";
  stage.streams = {documents_stream(stage)};
  stage.settings = format("{} {}", texts.settings, stage.level);
  const FirstPass first(files, read);
  StageJob job = reported_job(stage, [&](const CorpusPiece& piece, PieceResult& result) {
    first.check(piece);
    writer.work(piece, result);
  });
  return run_later(files, job, first);
}

}  // namespace tephra
