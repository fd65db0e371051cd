// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/stage.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "tephra/base/append_file.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/data/formats/parquet_writer.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// Two windows are in memory, one is read while the other is worked on. A piece is the work of one
// thread; its size decides where frames begin, so it does not depend on the number of threads.
constexpr size_t kPieceBytes = size_t{1} << 20;

constexpr const char* kWorkFolder = ".work";
constexpr auto kPollInterval = std::chrono::milliseconds(200);

std::vector<std::span<const Line>> cut_pieces(const LineWindow& window) {
  std::vector<std::span<const Line>> pieces;
  const std::span<const Line> lines = window.lines;
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = begin, bytes = 0;
    while (end < lines.size() && bytes < kPieceBytes) bytes += lines[end++].size;
    pieces.push_back(lines.subspan(begin, end - begin));
    begin = end;
  }
  return pieces;
}

Path stream_path(const StageSettings& settings, const StageStream& stream, const CorpusFile& file) {
  return settings.out / stream.folder / (file.title() + stream.ending);
}

// The work on one file, from where its journal says to its end.
class FileRun {
 public:
  FileRun(const CorpusFile& file, size_t index, const StageSettings& settings, Progress& progress)
      : file_(file),
        index_(index),
        settings_(settings),
        progress_(progress),
        journal_(settings.out / kWorkFolder / (file.title() + ".journal"),
                 static_cast<size_t>(settings.samples)) {
    state_.tally = Tally(static_cast<size_t>(settings.samples));
    if (auto last = journal_.last(); last && last->out_size.size() == settings.streams.size()) {
      state_ = std::move(*last);
    }
    state_.out_size.resize(settings.streams.size());
    state_.tables.resize(settings.streams.size());
  }

  bool finished() const { return state_.finished; }
  const JournalEntry& state() const { return state_; }

  void run(const PieceWork& work) {
    if (!state_.finished) process(work);
    for (size_t s = 0; s < settings_.streams.size(); ++s) {
      if (fs::exists(partial(s))) fs::rename(partial(s), final(s));
      require_data(fs::exists(final(s)), "{}: was made and is gone; --overwrite begins anew",
                   final(s).string());
    }
  }

 private:
  Path final(size_t s) const { return stream_path(settings_, settings_.streams[s], file_); }
  Path partial(size_t s) const { return final(s).string() + ".partial"; }

  void process(const PieceWork& work) {
    open_outputs();
    make_writable_folder((settings_.out / kWorkFolder / file_.title()).parent_path());
    LineWindows windows(file_.path, settings_.window_bytes,
                        static_cast<size_t>(settings_.max_line_bytes));
    windows.skip_to(state_.offset, state_.row);
    const auto read_on = [&] { return windows.next(); };
    std::future<LineWindow> next = std::async(std::launch::async, read_on);
    for (bool last = false; !last;) {
      const LineWindow window = next.get();
      last = window.last;
      if (!last) next = std::async(std::launch::async, read_on);
      take(window, work);
      if (last) end_tables();
      if (last || state_.offset - journaled_ >= settings_.journal_bytes) write_journal(last);
      stop_if_interrupted();
    }
    outputs_.clear();
  }

  void open_outputs() {
    journaled_ = state_.offset;
    for (size_t s = 0; s < settings_.streams.size(); ++s) {
      make_writable_folder(partial(s).parent_path());
      const auto there =
          static_cast<int64_t>(fs::exists(partial(s)) ? fs::file_size(partial(s)) : 0);
      require_data(there >= state_.out_size[s],
                   "{}: is shorter than the {} bytes that were written; --overwrite begins anew",
                   partial(s).string(), state_.out_size[s]);
      outputs_.push_back(std::make_unique<AppendFile>(partial(s), state_.out_size[s]));
      tables_.emplace_back(settings_.level, state_.tables[s], journal_.path().string());
    }
  }

  void take(const LineWindow& window, const PieceWork& work) {
    const std::vector<std::span<const Line>> pieces = cut_pieces(window);
    std::vector<PieceResult> results(pieces.size());
    parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        work_on({file_, index_, window, pieces[i]}, work, results[i]);
      }
    });
    for (PieceResult& result : results) {
      for (std::string& what : result.bad_lines) {
        bad(std::move(what), counted::kBad, "--on-error skip leaves such documents out");
      }
      for (size_t s = 0; s < outputs_.size(); ++s) {
        if (!settings_.streams[s].parquet) append(s, result.streams[s]);
      }
      state_.tally.add(result.tally);
    }
    append_row_groups(results);
    take_troubles(window);
    progress_.add(window.file_bytes - file_bytes_);
    file_bytes_ = window.file_bytes;
    state_.offset = window.end_offset;
    state_.row = window.end_row;
  }

  void append(size_t s, std::string_view bytes) {
    outputs_[s]->append(bytes);
    state_.out_size[s] += static_cast<int64_t>(bytes.size());
  }

  // What a window gives is a row group, so that every journal stands between two.
  void append_row_groups(std::span<PieceResult> results) {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (!settings_.streams[s].parquet) continue;
      std::vector<std::string> pieces;
      for (PieceResult& result : results) pieces.push_back(std::move(result.streams[s]));
      std::string bytes;
      tables_[s].add_group(pieces, bytes);
      append(s, bytes);
    }
  }

  void end_tables() {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (!settings_.streams[s].parquet) continue;
      std::string bytes;
      tables_[s].finish(bytes);
      append(s, bytes);
    }
  }

  void work_on(const CorpusPiece& piece, const PieceWork& work, PieceResult& result) const {
    result.streams.resize(settings_.streams.size());
    result.tally = Tally(static_cast<size_t>(settings_.samples));
    work(piece, result);
    for (size_t s = 0; s < result.streams.size(); ++s) {
      if (!settings_.streams[s].compressed || settings_.streams[s].parquet) continue;
      std::string frame;
      append_zstd_frame(frame, result.streams[s], settings_.level);
      result.streams[s] = std::move(frame);
    }
  }

  void take_troubles(const LineWindow& window) {
    for (const int64_t row : window.long_rows) {
      bad(format("{}:{}: a line is longer than {}", file_.title(), row,
                 human_bytes(settings_.max_line_bytes)),
          counted::kTooLong,
          "--on-error skip leaves such lines out, --max-document takes longer ones");
    }
    if (window.damage.empty()) return;
    bad(format("{}; {} lines before it were read", window.damage, window.end_row),
        counted::kDamaged, "--on-error skip goes on with the next file");
  }

  void bad(std::string what, const char* kind, const char* hint) {
    if (settings_.on_error == OnError::stop) throw Error(Fault::data, what, hint);
    state_.tally.count(kind);
    state_.tally.error(std::move(what));
  }

  void write_journal(bool finished) {
    for (const auto& output : outputs_) output->flush();
    state_.finished = finished;
    for (size_t s = 0; s < tables_.size(); ++s) {
      if (settings_.streams[s].parquet && !finished) state_.tables[s] = tables_[s].state();
    }
    journal_.write(state_);
    journaled_ = state_.offset;
  }

  const CorpusFile& file_;
  size_t index_;
  const StageSettings& settings_;
  Progress& progress_;
  Journal journal_;
  JournalEntry state_;
  std::vector<std::unique_ptr<AppendFile>> outputs_;
  std::vector<ParquetWriter> tables_;  // used of streams that are Parquet files
  int64_t journaled_ = 0;
  int64_t file_bytes_ = 0;
};

// Outputs of other settings cannot be joined with these.
void check_settings(const StageSettings& settings, std::span<const CorpusFile> files) {
  std::string text = settings.settings + "\n";
  for (const StageStream& stream : settings.streams) {
    if (stream.parquet) text += stream.folder + " as Parquet\n";
  }
  for (const CorpusFile& file : files) text += file.title() + "\n";
  const Path path = settings.out / kWorkFolder / "settings";
  make_writable_folder(path.parent_path());
  if (fs::exists(path) && read_file(path) != text) {
    throw Error(Fault::usage,
                format("{}: holds a run with other inputs or settings that did not end",
                       settings.out.string()),
                "repeat the command it was begun with, or give --overwrite to begin anew");
  }
  if (!fs::exists(path)) write_file(path, text);
}

}  // namespace

namespace {

std::optional<int64_t> environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

Shard shard_of_rank() {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [rank_name, size_name] : kNames) {
    const std::optional<int64_t> rank = environment_number(rank_name),
                                 size = environment_number(size_name);
    if (rank && size && *rank >= 0 && *rank < *size) return {*rank, *size, *size > 1};
  }
  return {};
}

// Until the file's journal says that its rank is done with it.
JournalEntry wait_for_peer(const CorpusFile& file, const StageSettings& settings) {
  const Journal journal(settings.out / kWorkFolder / (file.title() + ".journal"),
                        static_cast<size_t>(settings.samples));
  for (;;) {
    auto entry = journal.last();
    bool there = entry && entry->finished;  // the files get their names a moment later
    for (const StageStream& stream : settings.streams) {
      there = there && fs::exists(stream_path(settings, stream, file));
    }
    if (there) return std::move(*entry);
    stop_if_interrupted();
    std::this_thread::sleep_for(kPollInterval);
  }
}

Path mark_of_rank(const Path& out, int64_t rank) {
  return out / kWorkFolder / format("rank-{}", rank);
}

// The first rank ends a command and takes away what others may still be reading, so it waits until
// each has come to its end: a rank that has no file of its own, too.
void meet_ranks(const StageSettings& settings) {
  const Shard& shard = settings.shard;
  if (shard.index != 0) return write_file(mark_of_rank(settings.out, shard.index), "");
  for (int64_t rank = 1; rank < shard.count; ++rank) {
    while (!fs::exists(mark_of_rank(settings.out, rank))) {
      stop_if_interrupted();
      std::this_thread::sleep_for(kPollInterval);
    }
  }
}

}  // namespace

Shard parse_shard(std::string_view text) {
  if (text == "auto") return shard_of_rank();
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  bool ok = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  if (ok) {
    const auto second = std::from_chars(first.ptr + 1, end, shard.count);
    ok = second.ec == std::errc() && second.ptr == end;
  }
  require(ok && shard.index >= 0 && shard.index < shard.count,
          "--shard: expected I/N with 0 <= I < N, or auto, got '{}'", text);
  return shard;
}

StageStream documents_stream(const StageSettings& settings) {
  StageStream stream{kDocumentsFolder};
  stream.parquet = settings.format == DocumentFormat::parquet;
  if (stream.parquet) stream.ending = ".parquet";
  return stream;
}

void PieceResult::bad(const CorpusPiece& piece, const Line& line, std::string_view what) {
  bad_lines.push_back(format("{}: {}", piece.id(line), what));
}

StageRun run_stage(std::span<const CorpusFile> files, const StageSettings& settings,
                   const PieceWork& work) {
  check_settings(settings, files);
  StageRun total;
  total.tally = Tally(static_cast<size_t>(settings.samples));
  total.file_rows.resize(files.size());
  Progress progress(settings.what, corpus_bytes(files) / settings.shard.count, "B");
  const auto add = [&](size_t i, const JournalEntry& state) {
    total.file_rows[i] = state.row;
    total.input_bytes += state.offset;
    total.tally.add(state.tally);
  };
  const bool waits = settings.shard.ranks && (settings.inner || settings.shard.index == 0);
  std::vector<size_t> unfinished;
  for (size_t i = 0; i < files.size(); ++i) {
    FileRun file(files[i], i, settings, progress);
    const bool ours = static_cast<int64_t>(i) % settings.shard.count == settings.shard.index;
    if (ours) file.run(work);
    // What a journal of another rank calls finished may not have its name yet.
    if (file.finished() && (ours || !waits)) {
      add(i, file.state());
    } else {
      unfinished.push_back(i);
    }
  }
  for (const size_t i : unfinished) {
    if (waits) add(i, wait_for_peer(files[i], settings));
  }
  if (settings.shard.ranks && !settings.inner) meet_ranks(settings);
  // Other ranks must not finish what the first one finishes.
  total.complete = waits || (unfinished.empty() && !settings.shard.ranks);
  return total;
}

void begin_rank(const Path& out, const Shard& shard) {
  if (shard.ranks) fs::remove(mark_of_rank(out, shard.index));
}

void finish_stage(const Path& out) { fs::remove_all(out / kWorkFolder); }

void prepare_output(const Path& out, bool overwrite) {
  make_writable_folder(out);
  const bool finished = fs::exists(out / kReportFile);
  if (finished || overwrite) {  // a kill at the very end may have left them
    for (const char* name : {kWorkFolder, ".dedup", ".mix"}) fs::remove_all(out / name);
  }
  if (overwrite) {
    // Only what stages write, in case the folder holds other things.
    fs::remove(out / kReportFile);
    for (const char* name : {kDocumentsFolder, "values", "dropped", "removed"}) {
      fs::remove_all(out / name);
    }
  }
  require(overwrite || !finished, "{}: holds a finished output; give --overwrite to replace it",
          out.string());
}

}  // namespace tephra
