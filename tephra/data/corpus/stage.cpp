// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/stage.h"

#include <malloc.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

#include "tephra/base/append_file.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/finished_files.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/side_by_side.h"
#include "tephra/data/formats/parquet_writer.h"
#include "tephra/io/lz4_frame.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// Of the memory that a stage may use: two windows (one is read while the other is worked on), what
// comes out of one, and what threads need beside it.
constexpr int64_t kMemoryWindows = 4;
constexpr size_t kMostWindow = size_t{32} << 20, kLeastWindow = size_t{2} << 20;
// Of a file that one thread works on alone: what comes in and goes out stays in its cache.
constexpr size_t kMostOwnWindow = size_t{4} << 20;

// How a file is worked on: by all threads, with the next window read meanwhile, or by one of them.
struct Pace {
  size_t window_bytes;
  bool by_all;
};

size_t memory_of(const StageSettings& settings) {
  return static_cast<size_t>(std::max<int64_t>(0, settings.memory_bytes)) / kMemoryWindows;
}

Pace pace_of(const StageSettings& settings, bool by_all, size_t files_at_once) {
  const size_t most = by_all ? kMostWindow : kMostOwnWindow;
  const size_t bytes = std::clamp(memory_of(settings) / files_at_once, kLeastWindow, most);
  return {settings.window_bytes > 0 ? settings.window_bytes : bytes, by_all};
}

std::vector<std::span<const Line>> pieces_of(const LineWindow& window) {
  std::vector<std::span<const Line>> pieces;
  size_t begin = 0;
  for (const size_t end : window.piece_ends) {
    pieces.push_back(std::span(window.lines).subspan(begin, end - begin));
    begin = end;
  }
  return pieces;
}

Path stream_path(const StageSettings& settings, const StageStream& stream, const CorpusFile& file) {
  return settings.out / stream.folder / (file.title() + stream.ending);
}

// The work of a stage on one file, from where its journal says to its end. A stage that is fed by
// another drives that one: it is asked for its next window when there is nothing left to work on.
class FileRun {
 public:
  FileRun(const CorpusFile& file, size_t index, const StageJob& job, Pace pace, Progress& progress,
          FileRun* before)
      : file_(file),
        index_(index),
        job_(job),
        settings_(job.settings),
        pace_(pace),
        progress_(progress),
        before_(before),
        windows_(before ? Path() : file.path, pace.window_bytes,
                 static_cast<size_t>(settings_.max_line_bytes)),
        journal_(settings_.out / kWorkFolder / (file.title() + ".journal"),
                 static_cast<size_t>(settings_.samples)) {
    state_.tally = Tally(static_cast<size_t>(settings_.samples));
    state_.out_size.resize(settings_.streams.size());
    state_.tables.resize(settings_.streams.size());
  }

  // Of the last stage of a pass: goes on from its journal, if that tells of all stages.
  void load() {
    auto last = journal_.last();
    if (last && (last->finished || can_restore(*last))) restore(std::move(*last));
  }

  bool finished() const { return state_.finished; }

  // The state of this stage and of those before it.
  JournalEntry entry() const {
    JournalEntry entry = state_;
    if (!before_) return entry;
    entry.before = {before_->entry()};
    entry.rest = windows_.rest();
    return entry;
  }

  void run(FinishedFiles& done, FunctionRef<void()> check_in) {
    const bool was_finished = state_.finished;
    if (!was_finished) process(check_in);
    std::vector<FinishedOutput> outputs;
    for (const FileRun* each = this; each != nullptr; each = each->before_) {
      each->list_outputs(outputs);
    }
    if (!was_finished) return done.add({journal_, entry(), std::move(outputs)});
    for (const FinishedOutput& output : outputs) output.name();  // if they did not get it then
  }

 private:
  Path final(size_t s) const { return stream_path(settings_, settings_.streams[s], file_); }
  Path partial(size_t s) const { return final(s).string() + ".partial"; }
  bool is_written(size_t s) const { return s > 0 || job_.keeps_documents; }
  bool is_table(size_t s) const { return is_written(s) && is_parquet(s); }
  bool is_parquet(size_t s) const { return settings_.streams[s].coding == StreamCoding::parquet; }

  bool can_restore(const JournalEntry& entry) const {
    return entry.out_size.size() == settings_.streams.size() &&
           entry.before.size() == (before_ ? 1u : 0u) &&
           (!before_ || before_->can_restore(entry.before[0]));
  }

  void restore(JournalEntry entry) {
    if (before_ && !entry.before.empty()) before_->restore(std::move(entry.before[0]));
    if (!before_) check_input(entry.input);
    entry.before.clear();
    state_ = std::move(entry);
    state_.out_size.resize(settings_.streams.size());
    state_.tables.resize(settings_.streams.size());
  }

  // Whether the file is the one of which the journal tells.
  void check_input(const std::string& before) const {
    const std::string now = mark_of_file(file_.path);
    if (before.empty() || now == before || now == kUnreadableMark) return;
    throw Error(Fault::usage,
                format("{}: was changed since the run that {} holds began", file_.path.string(),
                       settings_.out.string()),
                "--overwrite begins anew");
  }

  void list_outputs(std::vector<FinishedOutput>& outputs) const {
    for (size_t s = 0; s < settings_.streams.size(); ++s) {
      if (is_written(s)) outputs.push_back({partial(s), final(s), state_.out_size[s]});
    }
  }

  void process(FunctionRef<void()> check_in) {
    begin();
    for (step(nullptr); !ended_; step(nullptr)) {
      if (state_.offset - journaled_ >= settings_.journal_bytes) write_journal();
      stop_if_interrupted();
      check_in();
    }
    for (FileRun* each = this; each != nullptr; each = each->before_) each->close();
  }

  void close() {
    for (const auto& output : outputs_) {
      if (output) output->close();
    }
    outputs_.clear();
    state_.finished = true;
    state_.tables.assign(settings_.streams.size(), Json());
  }

  void begin() {
    open_outputs();
    make_writable_folder((settings_.out / kWorkFolder / file_.title()).parent_path());
    if (before_) {
      before_->begin();
      windows_.skip_to(state_.offset, state_.row);
      windows_.given() = state_.rest;
    } else {
      windows_.skip_to(state_.offset, state_.row);
      state_.input = mark_of_file(file_.path);
      read_on();
    }
  }

  // One thread reads when it is asked, more of them read ahead.
  void read_on() {
    const std::launch when = pace_.by_all ? std::launch::async : std::launch::deferred;
    next_ = std::async(when, [this, used = std::exchange(used_, {})]() mutable {
      return windows_.next(std::move(used));
    });
  }

  LineWindow next_window() {
    if (!before_) {
      LineWindow window = next_.get();
      if (!window.last) read_on();
      return window;
    }
    for (;;) {
      if (auto window = windows_.next_given(before_->ended_, used_)) return std::move(*window);
      before_->step(&windows_.given());
    }
  }

  void step(std::string* fed) {
    LineWindow window = next_window();
    take(window, fed);
    ended_ = window.last;
    used_ = std::move(window);
    if (ended_) end_streams();
  }

  void open_outputs() {
    journaled_ = state_.offset;
    for (size_t s = 0; s < settings_.streams.size(); ++s) {
      outputs_.emplace_back();
      tables_.emplace_back(settings_.level, state_.tables[s], journal_.path().string());
      if (!is_written(s)) continue;
      make_writable_folder(partial(s).parent_path());
      const auto there =
          static_cast<int64_t>(fs::exists(partial(s)) ? fs::file_size(partial(s)) : 0);
      require_data(there >= state_.out_size[s],
                   "{}: is shorter than the {} bytes that were written; --overwrite begins anew",
                   partial(s).string(), state_.out_size[s]);
      outputs_.back() =
          std::make_unique<AppendFile>(partial(s), state_.out_size[s], AppendFile::WhenFull::fail);
    }
  }

  void take(const LineWindow& window, std::string* fed) {
    const std::vector<std::span<const Line>> pieces = pieces_of(window);
    std::vector<PieceResult> results(pieces.size());
    parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        work_on({file_, index_, window, pieces[i]}, fed != nullptr, results[i]);
      }
    });
    append_row_groups(results);
    if (fed != nullptr) make_room(*fed, results);
    for (PieceResult& result : results) {
      for (std::string& what : result.bad_lines) {
        bad(std::move(what), counted::kBad, "--on-error skip leaves such documents out");
      }
      if (fed != nullptr) *fed += result.fed;
      for (size_t s = 0; s < outputs_.size(); ++s) {
        if (is_written(s) && !is_parquet(s)) append(s, result.streams[s]);
      }
      state_.tally.add(result.tally);
      result = PieceResult();
    }
    take_troubles(window);
    if (!before_) progress_.add(window.file_bytes - file_bytes_);
    file_bytes_ = window.file_bytes;
    state_.offset = window.end_offset;
    state_.row = window.end_row;
  }

  static void make_room(std::string& fed, std::span<const PieceResult> results) {
    size_t bytes = fed.size() + LineWindow::kPadding;
    for (const PieceResult& result : results) bytes += result.fed.size();
    fed.reserve(bytes);
  }

  void append(size_t s, std::string_view bytes) {
    outputs_[s]->append(bytes);
    state_.out_size[s] += static_cast<int64_t>(bytes.size());
  }

  // What a piece gives is a row group, so that every journal stands between two.
  void append_row_groups(std::span<PieceResult> results) {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (!is_table(s)) continue;
      std::vector<std::string> pieces;
      for (PieceResult& result : results) pieces.push_back(std::move(result.streams[s]));
      std::string bytes;
      tables_[s].add_groups(pieces, bytes);
      append(s, bytes);
    }
  }

  void end_streams() {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (!is_written(s)) continue;
      std::string bytes;
      if (is_parquet(s)) {
        tables_[s].finish(bytes);
      } else if (state_.out_size[s] == 0) {
        store("", settings_.streams[s].coding, bytes);  // without a frame it would be no such file
      }
      append(s, bytes);
    }
  }

  void keep_tables() {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (is_table(s)) state_.tables[s] = tables_[s].state();
    }
  }

  void work_on(const CorpusPiece& piece, bool feeds, PieceResult& result) const {
    result.streams.resize(settings_.streams.size());
    result.tally = Tally(static_cast<size_t>(settings_.samples));
    job_.work(piece, result);
    for (size_t s = 0; s < result.streams.size(); ++s) {
      std::string plain;
      plain.swap(result.streams[s]);
      if (is_written(s) && !plain.empty()) {
        store(plain, settings_.streams[s].coding, result.streams[s]);
      }
      if (s == 0 && feeds) result.fed.swap(plain);
    }
  }

  void store(const std::string& bytes, StreamCoding coding, std::string& out) const {
    switch (coding) {
      case StreamCoding::plain:
      case StreamCoding::parquet:  // rows are made of it later
        out = bytes;
        break;
      case StreamCoding::zstd:
        append_zstd_frame(out, bytes, settings_.level);
        break;
      case StreamCoding::lz4:
        append_lz4_frame(out, bytes);
    }
  }

  void take_troubles(const LineWindow& window) {
    for (const int64_t row : window.long_rows) {
      bad(format("{}:{}: a line is longer than {}", file_.title(), row,
                 human_bytes(settings_.max_line_bytes)),
          counted::kTooLong,
          "--on-error skip leaves such lines out, --max-document takes longer ones");
    }
    // Every run reads a file from its beginning, so what its end tells is of all of it.
    for (const auto& [reason, count] : window.left_out) {
      state_.tally.count(counted::kLeftOut + reason, count);
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

  void flush() const {
    for (const auto& output : outputs_) {
      if (output) output->flush();
    }
    if (before_) before_->flush();
  }

  void write_journal() {
    flush();
    for (FileRun* each = this; each != nullptr; each = each->before_) each->keep_tables();
    journal_.write(entry());
    journaled_ = state_.offset;
  }

  const CorpusFile& file_;
  size_t index_;
  const StageJob& job_;
  const StageSettings& settings_;
  Pace pace_;
  Progress& progress_;
  FileRun* before_;  // by which it is fed, or null
  LineWindows windows_;
  std::future<LineWindow> next_;  // of a stage that reads the file itself
  LineWindow used_;               // done with; the system would have to clear new memory
  bool ended_ = false;
  Journal journal_;
  JournalEntry state_;
  std::vector<std::unique_ptr<AppendFile>> outputs_;  // none for what is not written
  std::vector<ParquetWriter> tables_;                 // used of streams that are Parquet files
  int64_t journaled_ = 0;
  int64_t file_bytes_ = 0;
};

// Until the file's journal says that its rank is done with it.
JournalEntry wait_for_peer(size_t index, const CorpusFile& file, const StageSettings& settings) {
  const Journal journal(settings.out / kWorkFolder / (file.title() + ".journal"),
                        static_cast<size_t>(settings.samples));
  std::optional<JournalEntry> entry;
  const auto is_there = [&] {
    entry = journal.last();
    bool there = entry && entry->finished;  // the files get their names a moment later
    for (const StageStream& stream : settings.streams) {
      there = there && fs::exists(stream_path(settings, stream, file));
    }
    return there;
  };
  settings.ranks->wait_for(static_cast<int64_t>(index) % settings.shard.count,
                           format("{} of {}", file.title(), settings.what), is_there);
  return std::move(*entry);
}

}  // namespace

StageStream documents_stream(const StageSettings& settings) {
  StageStream stream{kDocumentsFolder};
  switch (settings.format) {
    case DocumentFormat::jsonl:
      break;
    case DocumentFormat::parquet:
      stream = {kDocumentsFolder, ".parquet", StreamCoding::parquet};
      break;
    case DocumentFormat::handed:
      stream = {format("{}/{}", kHandedFolder, kDocumentsFolder), ".jsonl.lz4", StreamCoding::lz4};
  }
  return stream;
}

void PieceResult::bad(const CorpusPiece& piece, const Line& line, std::string_view what) {
  bad_lines.push_back(format("{}: {}", piece.id(line), what));
}

StageRun run_stage(std::span<const CorpusFile> files, const StageSettings& settings,
                   const PieceWork& work) {
  const StageJob job{settings, work, {}, true};
  return run_jobs(files, std::span(&job, 1)).front();
}

StageRun run_job(std::span<const CorpusFile> files, const StageJob& job) {
  StageRun run = run_jobs(files, std::span(&job, 1)).front();
  if (run.complete) job.finish(run);
  return run;
}

namespace {

// What a file came to, by job.
void add_entry(std::span<StageRun> runs, size_t file, const JournalEntry& entry) {
  StageRun& run = runs.back();
  run.file_rows[file] = entry.row;
  run.input_bytes += entry.offset;
  run.tally.add(entry.tally);
  if (runs.size() > 1 && !entry.before.empty()) {
    add_entry(runs.first(runs.size() - 1), file, entry.before[0]);
  }
}

// Windows go back to the system when they are done with. glibc would come to keep blocks of their
// size for the thread that had them, and what is kept so counts against --memory.
void give_windows_back() {
#if defined(__GLIBC__)
  static const int kSet = ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  static_cast<void>(kSet);
#endif
}

}  // namespace

std::vector<StageRun> run_jobs(std::span<const CorpusFile> files, std::span<const StageJob> jobs) {
  give_windows_back();
  const StageSettings& settings = jobs.back().settings;
  std::vector<StageRun> runs(jobs.size());
  std::string what;
  for (size_t j = 0; j < jobs.size(); ++j) {
    hold_settings(jobs[j].settings, files);
    runs[j].tally = Tally(static_cast<size_t>(jobs[j].settings.samples));
    runs[j].file_rows.resize(files.size());
    what += (j > 0 ? ", " : "") + jobs[j].settings.what;
  }
  Progress progress(what, corpus_bytes(files) / settings.shard.count, "B");
  const bool waits = settings.ranks && (settings.inner || settings.shard.index == 0);
  std::vector<size_t> unfinished;
  std::mutex mutex;
  FinishedFiles done(settings.journal_bytes);
  const auto visit = [&](size_t i, bool ours, bool by_all, size_t at_once,
                         FunctionRef<void()> check_in) {
    std::vector<std::unique_ptr<FileRun>> chain;
    for (const StageJob& job : jobs) {
      FileRun* before = chain.empty() ? nullptr : chain.back().get();
      const Pace pace = pace_of(job.settings, by_all, at_once);
      chain.push_back(std::make_unique<FileRun>(files[i], i, job, pace, progress, before));
    }
    FileRun& last = *chain.back();
    last.load();
    if (ours) last.run(done, check_in);
    const std::lock_guard lock(mutex);
    // What a journal of another rank calls finished may not have its name yet.
    if (last.finished() && (ours || !waits)) {
      add_entry(runs, i, last.entry());
    } else {
      unfinished.push_back(i);
    }
  };
  std::vector<size_t> ours;
  for (size_t i = 0; i < files.size(); ++i) {
    if (static_cast<int64_t>(i) % settings.shard.count == settings.shard.index) ours.push_back(i);
  }
  const auto threads = static_cast<size_t>(num_threads());
  FileShares shares(files, ours, threads);
  if (threads > 1 && memory_of(settings) / threads < kLeastWindow) shares = FileShares(ours);
  side_by_side(shares.apart, threads, [&](size_t i, FunctionRef<void()> check_in) {
    visit(i, true, false, threads, check_in);
  });
  for (const size_t i : shares.together) visit(i, true, true, 1, [] {});
  done.commit();
  for (size_t i = 0, at = 0; i < files.size(); ++i) {
    if (at < ours.size() && ours[at] == i) {
      ++at;
    } else {
      visit(i, false, false, 1, [] {});
    }
  }
  std::sort(unfinished.begin(), unfinished.end());
  for (const size_t i : unfinished) {
    if (waits) add_entry(runs, i, wait_for_peer(i, files[i], settings));
  }
  // The first rank ends a command and takes away what others may still be reading, so it waits for
  // each: one that has no file of its own, too.
  if (settings.ranks && !settings.inner) settings.ranks->gather("the end of " + what);
  // Other ranks must not finish what the first one finishes; shards are joined by the command
  // without one.
  const bool joins = settings.inner || settings.shard.count == 1;
  for (StageRun& run : runs) {
    run.complete = waits || (unfinished.empty() && joins);
    if (!run.complete && settings.inner) run.awaited = what;
  }
  return runs;
}

void join_ranks(StageSettings& settings) {
  if (!settings.shard.ranks) return;
  settings.ranks = std::make_shared<Ranks>(settings.out / kRanksFolder, settings.shard);
}

}  // namespace tephra
