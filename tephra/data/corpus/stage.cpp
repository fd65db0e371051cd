// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/stage.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
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
#include "tephra/data/corpus/relay.h"
#include "tephra/data/corpus/side_by_side.h"
#include "tephra/data/formats/parquet_writer.h"
#include "tephra/io/lz4_frame.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// Of the memory that a stage may use: what is read ahead, what is worked on, what comes out of it,
// and what threads need beside it.
constexpr int64_t kMemoryParts = 4;

// How a file is worked on: by how many threads, and how many pieces are read ahead for them.
struct Pace {
  size_t threads;
  size_t ahead;
};

size_t memory_of(const StageSettings& settings) {
  return static_cast<size_t>(std::max<int64_t>(0, settings.memory_bytes)) / kMemoryParts;
}

// The tasks of a relay hold its input, a piece each, so their number bounds it (Relay::most_tasks);
// one that is worked on takes more than it holds, so a third of them may be.
Pace pace_of(const StageSettings& settings, size_t threads, size_t files_at_once) {
  const size_t tasks = memory_of(settings) / files_at_once / LineWindows::kPieceBytes;
  const size_t workers = std::clamp<size_t>(tasks / 3, 1, threads);
  if (workers == 1) return {1, 0};
  const size_t spare = tasks - std::min(tasks, Relay::most_tasks(0));
  return {workers, std::min(2 * workers, spare / 4)};
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
// another drives that one.
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
        line_(before ? before->line_ + kLines : 0),
        windows_(before ? Path() : file.path, settings_.window_bytes,
                 static_cast<size_t>(settings_.max_line_bytes)),
        journal_(settings_.out / kWorkFolder / (file.title() + ".journal"),
                 static_cast<size_t>(settings_.samples)) {
    state_.tally = Tally(static_cast<size_t>(settings_.samples));
    state_.out_size.resize(settings_.streams.size());
    state_.tables.resize(settings_.streams.size());
    if (before) before->next_ = this;
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
    for (work_to_journal(check_in); !ended_; work_to_journal(check_in)) write_journal();
    for (FileRun* each = this; each != nullptr; each = each->before_) each->close();
  }

  // Reads as much as may lie between two journals, until all stages are done with it.
  void work_to_journal(FunctionRef<void()> check_in) {
    FileRun* first = this;
    while (first->before_) first = first->before_;
    const int64_t until = first->state_.offset + settings_.journal_bytes;
    bool last = false;
    Relay relay(line_ + kLines, [&] {
      if (last) return false;
      stop_if_interrupted();
      check_in();
      LineWindow window = first->windows_.next(first->take_used());
      last = window.last || window.end_offset >= until;
      first->add_window(relay, std::move(window));
      return true;
    });
    relay.run(pace_.threads, pace_.ahead);
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
    }
  }

  LineWindow take_used() {
    const std::lock_guard lock(used_mutex_);
    if (used_.empty()) return {};
    LineWindow window = std::move(used_.back());
    used_.pop_back();
    return window;
  }
  void give_used(LineWindow window) {
    const std::lock_guard lock(used_mutex_);
    used_.push_back(std::move(window));
  }

  // Its pieces, and then what is told of it as a whole.
  void add_window(Relay& relay, LineWindow given) {
    const auto window = std::make_shared<LineWindow>(std::move(given));
    for (const std::span<const Line> lines : pieces_of(*window)) {
      const auto result = std::make_shared<PieceResult>();
      relay.add(line_, {[=, this] {
                          work_on({file_, index_, *window, lines}, *result);
                        },
                        [=, this, &relay] { take(relay, *result); }});
    }
    relay.add(line_, {{}, [=, this, &relay] { end_window(relay, *window); }});
  }

  // What the stage before has left since.
  void add_given(Relay& relay, bool end) {
    for (bool last = false; !last;) {
      LineWindow used = take_used();
      auto window = windows_.next_given(end, used);
      if (!window) return give_used(std::move(used));
      last = window->last;
      add_window(relay, std::move(*window));
    }
  }

  void open_outputs() {
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

  void take(Relay& relay, PieceResult& result) {
    for (std::string& what : result.bad_lines) {
      bad(std::move(what), counted::kBad, "--on-error skip leaves such documents out");
    }
    state_.tally.add(result.tally);
    if (next_ != nullptr) {
      next_->windows_.given() += result.fed;
      next_->add_given(relay, false);
    }
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (is_table(s)) {
        add_row_group(relay, s, std::move(result.streams[s]));
      } else if (is_written(s)) {
        append(s, result.streams[s]);
      }
    }
  }

  void end_window(Relay& relay, LineWindow& window) {
    take_troubles(window);
    if (!before_) progress_.add(window.file_bytes - file_bytes_);
    file_bytes_ = window.file_bytes;
    state_.offset = window.end_offset;
    state_.row = window.end_row;
    ended_ = window.last;
    give_used(std::move(window));
    if (next_ != nullptr) next_->add_given(relay, ended_);
    if (ended_) end_streams(relay);
  }

  void append(size_t s, std::string_view bytes) {
    outputs_[s]->append(bytes);
    state_.out_size[s] += static_cast<int64_t>(bytes.size());
  }

  // What a piece gives is a row group, so that every journal stands between two.
  void add_row_group(Relay& relay, size_t s, std::string lines) {
    if (lines.empty()) return;
    ParquetWriter& table = tables_[s];
    table.choose_columns(lines);
    const auto piece = std::make_shared<std::string>(std::move(lines));
    const auto pages = std::make_shared<DocumentPages>();
    relay.add(line_ + 1, {[=, &table] { *pages = table.pages_of(*piece); },
                          [=, this, &table] {
                            std::string bytes;
                            table.add_group(*pages, bytes);
                            append(s, bytes);
                          }});
  }

  void end_streams(Relay& relay) {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (is_table(s)) {
        relay.add(line_ + 1, {{}, [=, this] {
                                std::string bytes;
                                tables_[s].finish(bytes);
                                append(s, bytes);
                              }});
      } else if (is_written(s) && state_.out_size[s] == 0) {
        std::string bytes;  // without a frame it would be no such file
        store("", settings_.streams[s].coding, bytes);
        append(s, bytes);
      }
    }
  }

  void keep_tables() {
    for (size_t s = 0; s < outputs_.size(); ++s) {
      if (is_table(s)) state_.tables[s] = tables_[s].state();
    }
  }

  void work_on(const CorpusPiece& piece, PieceResult& result) const {
    result.streams.resize(settings_.streams.size());
    result.tally = Tally(static_cast<size_t>(settings_.samples));
    job_.work(piece, result);
    for (size_t s = 0; s < result.streams.size(); ++s) {
      std::string plain;
      plain.swap(result.streams[s]);
      if (is_written(s) && !plain.empty()) {
        store(plain, settings_.streams[s].coding, result.streams[s]);
      }
      if (s == 0 && next_ != nullptr) result.fed.swap(plain);
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
  }

  const CorpusFile& file_;
  size_t index_;
  const StageJob& job_;
  const StageSettings& settings_;
  Pace pace_;
  Progress& progress_;
  FileRun* before_;                    // by which it is fed, or null
  FileRun* next_ = nullptr;            // which it feeds
  static constexpr size_t kLines = 2;  // of the relay: of pieces, and of row groups
  size_t line_;                        // the first of them
  LineWindows windows_;
  std::mutex used_mutex_;
  std::vector<LineWindow> used_;  // done with; the system would have to clear new memory
  bool ended_ = false;
  Journal journal_;
  JournalEntry state_;
  std::vector<std::unique_ptr<AppendFile>> outputs_;  // none for what is not written
  std::vector<ParquetWriter> tables_;                 // used of streams that are Parquet files
  int64_t file_bytes_ = 0;
};

// Files get their names a moment after their journal calls them finished: of another shard or rank
// that moment may be now.
bool is_named(const CorpusFile& file, std::span<const StageJob> jobs) {
  for (const StageJob& job : jobs) {
    const std::span streams(job.settings.streams);
    for (const StageStream& stream : streams.subspan(job.keeps_documents ? 0 : 1)) {
      if (!fs::exists(stream_path(job.settings, stream, file))) return false;
    }
  }
  return true;
}

// Until the file's journal says that its rank is done with it.
JournalEntry wait_for_peer(size_t index, const CorpusFile& file, std::span<const StageJob> jobs) {
  const StageSettings& settings = jobs.back().settings;
  const Journal journal(settings.out / kWorkFolder / (file.title() + ".journal"),
                        static_cast<size_t>(settings.samples));
  std::optional<JournalEntry> entry;
  const auto is_there = [&] {
    entry = journal.last();
    return entry && entry->finished && is_named(file, jobs);
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
  const auto visit = [&](size_t i, bool ours, size_t by, size_t at_once,
                         FunctionRef<void()> check_in) {
    std::vector<std::unique_ptr<FileRun>> chain;
    for (const StageJob& job : jobs) {
      FileRun* before = chain.empty() ? nullptr : chain.back().get();
      const Pace pace = pace_of(job.settings, by, at_once);
      chain.push_back(std::make_unique<FileRun>(files[i], i, job, pace, progress, before));
    }
    FileRun& last = *chain.back();
    last.load();
    if (ours) last.run(done, check_in);
    const std::lock_guard lock(mutex);
    if (last.finished() && (ours || (!waits && is_named(files[i], jobs)))) {
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
  if (threads > 1 && memory_of(settings) / threads < settings.window_bytes)
    shares = FileShares(ours);
  side_by_side(shares.apart, threads, [&](size_t i, FunctionRef<void()> check_in) {
    visit(i, true, 1, threads, check_in);
  });
  for (const size_t i : shares.together) visit(i, true, threads, 1, [] {});
  done.commit();
  for (size_t i = 0, at = 0; i < files.size(); ++i) {
    if (at < ours.size() && ours[at] == i) {
      ++at;
    } else {
      visit(i, false, 1, 1, [] {});
    }
  }
  std::sort(unfinished.begin(), unfinished.end());
  for (const size_t i : unfinished) {
    if (waits) add_entry(runs, i, wait_for_peer(i, files[i], jobs));
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
