// SPDX-License-Identifier: Apache-2.0
// Runs a function over all lines of a corpus: read ahead, worked on by all threads, written in
// order. Memory is bounded; output bytes depend on the inputs and the settings alone; a run that
// was killed goes on inside the file where it was and ends with the same bytes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/corpus/ranks.h"
#include "tephra/data/corpus/tally.h"

namespace tephra {

enum class OnError { stop, skip };

// How a stream is stored: lz4 for what the next stage reads and nobody keeps; of parquet, its JSON
// lines become rows.
enum class StreamCoding { plain, zstd, lz4, parquet };

// A file for each file of the corpus: OUT/FOLDER/SOURCE/NAME + ending.
struct StageStream {
  std::string folder;
  std::string ending = ".jsonl.zst";
  StreamCoding coding = StreamCoding::zstd;
};

// handed: below kHandedFolder, for the next stage of a pipeline.
enum class DocumentFormat { jsonl, parquet, handed };

struct StageSettings {
  std::string what;  // "filter", for progress
  Path out;
  std::vector<StageStream> streams;
  std::string settings;  // all that decides the output; a run goes on only with the same
  OnError on_error = OnError::stop;
  Shard shard;
  std::shared_ptr<Ranks> ranks;  // of shard.ranks
  bool inner = false;  // another stage of the same command follows: every rank waits for all
  int64_t max_line_bytes = int64_t{256} << 20;
  int64_t samples = 5;
  int level = 3;  // of zstd
  DocumentFormat format = DocumentFormat::jsonl;
  // About what may be used: as much is read ahead as it allows. Lines above it are read all the
  // same.
  int64_t memory_bytes = int64_t{4} << 30;
  // Small windows stay in the cache, and other threads need not wait long for the one that reads.
  size_t window_bytes = size_t{2} << 20;
  int64_t journal_bytes = int64_t{64} << 20;  // of input that a killed run may have to read again
};

// Of a stage, with documents/ in it for as long as the next one needs them.
inline constexpr const char* kHandedFolder = "handed";

// The stream of the documents that a stage leaves, in the format of the settings.
StageStream documents_stream(const StageSettings& settings);

// Neighbouring lines of one file.
struct CorpusPiece {
  const CorpusFile& file;
  size_t file_index;
  const LineWindow& window;
  std::span<const Line> lines;

  std::string id(const Line& line) const { return file.title() + format_row(line.row); }
  static std::string format_row(int64_t row) { return ":" + std::to_string(row); }
};

struct PieceResult {
  std::vector<std::string> streams;  // what each stream gets
  std::string fed;                   // the first of them, for a stage that follows in the same pass
  Tally tally;

  // A document that cannot be used: counted, or the end of the run, by StageSettings::on_error.
  void bad(const CorpusPiece& piece, const Line& line, std::string_view what);

  std::vector<std::string> bad_lines;  // "web/a:3: expected ..."
};

using PieceWork = std::function<void(const CorpusPiece& piece, PieceResult& result)>;

struct StageRun {
  Tally tally;                     // of all files of the shard
  std::vector<int64_t> file_rows;  // lines of each file, 0 for those of other shards
  bool complete = false;           // all files of the corpus are done, by this or by other shards
  std::string awaited;             // of a shard that needs all others to go on: what they must do
  int64_t input_bytes = 0;         // decompressed
};

StageRun run_stage(std::span<const CorpusFile> files, const StageSettings& settings,
                   const PieceWork& work);

// A stage that is ready to run, alone or among others in one pass.
struct StageJob {
  StageSettings settings;
  PieceWork work;
  // When all files are done: writes the report and takes away what only an unfinished run needs.
  std::function<void(const StageRun& run)> finish;
  bool keeps_documents = true;  // else its first stream only feeds the next job
};

// All jobs in one pass: each works on what the one before leaves in its first stream, which need
// not go to disk for that. Every byte is as if they ran one after another. Their shard is the same.
// The journal of the last one tells of all.
std::vector<StageRun> run_jobs(std::span<const CorpusFile> files, std::span<const StageJob> jobs);
// One, with its end when it is complete.
StageRun run_job(std::span<const CorpusFile> files, const StageJob& job);

// Counts that every stage keeps.
namespace counted {
inline constexpr const char* kDocuments = "documents";  // that could be read
inline constexpr const char* kBad = "bad_documents";
inline constexpr const char* kTooLong = "too_long_lines";
inline constexpr const char* kDamaged = "damaged_files";
inline const std::string kLeftOut = "left_out.";  // while reading, by reason
inline constexpr const char* kTextBytes = "text_bytes";
}  // namespace counted

// With the shard, and the other ranks when it is one: comes back when they are there.
void join_ranks(StageSettings& settings);

// The key that carries a document's place in the first input through all stages.
inline constexpr const char* kIdField = "tephra_id";

inline constexpr const char* kReportFile = "report.json";
inline constexpr const char* kWorkFolder = ".work";  // what only an unfinished run needs

}  // namespace tephra
