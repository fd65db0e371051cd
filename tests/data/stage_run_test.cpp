// SPDX-License-Identifier: Apache-2.0
// A stage as it runs over its files: neither threads, nor order, nor shards, nor a stop in the
// middle changes a byte.
#include "tephra/data/corpus/stage.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/line_reader.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// Copies lines in capitals and counts them; lines that begin with '!' are bad.
void shout(const CorpusPiece& piece, PieceResult& result) {
  for (const Line& line : piece.lines) {
    const std::string_view text = piece.window.text(line);
    if (text[0] == '!') {
      result.bad(piece, line, "shouts already");
      continue;
    }
    std::string loud(text);
    for (size_t i = 0; i < loud.size() && loud[i] != '.'; ++i) {  // dots are most of a long line
      if ('a' <= loud[i] && loud[i] <= 'z') loud[i] = static_cast<char>(loud[i] - 'a' + 'A');
    }
    result.streams[0] += loud + '\n';
    result.streams[1] += piece.id(line) + "\n";
    result.tally.count(counted::kDocuments);
    result.tally.sample("all", piece.id(line), text);
  }
}

StageSettings shout_settings(const Path& out) {
  StageSettings settings;
  settings.what = "shout";
  settings.out = out;
  settings.streams = {{kDocumentsFolder}, {"ids", ".txt", StreamCoding::plain}};
  settings.settings = "shout";
  settings.window_bytes = 1 << 20;
  settings.journal_bytes = 2 << 20;
  return settings;
}

// All files below a folder with their bytes.
std::string snapshot(const Path& folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const Path& file : files) {
    all += file.lexically_relative(folder).string() + "\n" + read_file(file);
  }
  return all;
}

// Five files of one to five pieces.
struct MadeCorpus {
  static constexpr int kLines = 2000;  // of the first; each next one has as many more
  Scratch scratch;
  std::vector<CorpusFile> files;

  MadeCorpus() {
    std::filesystem::create_directory(scratch / "in");
    for (int f = 0; f < 5; ++f) {
      std::string text;
      for (int i = 0; i < kLines * (f + 1); ++i) {
        text += "line " + std::to_string(i * 7919 % 10007) + " of file " + std::to_string(f) +
                std::string(static_cast<size_t>(i % 900), '.') + "\n";
      }
      const std::string name = "f" + std::to_string(f) + ".jsonl";
      write_file(scratch / "in" / (f % 2 == 0 ? name : name + ".zst"),
                 f % 2 == 0 ? text : zstd_compressed(text));
    }
    files = corpus_files(std::vector<std::string>{(scratch / "in").string()});
  }

  StageRun run(const std::string& out, const PieceWork& work = shout) {
    StageRun run = run_stage(files, shout_settings(scratch / out), work);
    if (run.complete) finish_stage(scratch / out);
    return run;
  }
};

// Its journal calls a file finished a moment before it gets its name: other shards that go on from
// all files must not take it then.
TEST(Stage, AFileOfAnotherShardIsFinishedOnceItHasItsName) {
  MadeCorpus corpus;
  const auto run = [&](int64_t index) {
    StageSettings settings = shout_settings(corpus.scratch / "out");
    settings.inner = true;
    settings.shard = {index, 2};
    return run_stage(corpus.files, settings, shout);
  };
  EXPECT_FALSE(run(1).complete);
  const Path named = corpus.scratch / "out/ids/in/f3.txt";
  const Path unnamed = named.string() + ".partial";
  std::filesystem::rename(named, unnamed);
  const StageRun early = run(0);
  EXPECT_FALSE(early.complete);
  EXPECT_EQ(early.awaited, "shout");
  EXPECT_FALSE(std::filesystem::exists(named)) << "the other shard's to do";
  EXPECT_TRUE(run(1).complete);
  EXPECT_TRUE(run(0).complete);
}

TEST(Stage, WritesTheSameBytesOnAnyNumberOfThreads) {
  MadeCorpus corpus;
  const int before = num_threads();
  std::string first;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    const std::string out = "out" + std::to_string(threads);
    const StageRun run = corpus.run(out);
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.tally[counted::kDocuments], MadeCorpus::kLines * 15);
    const std::string bytes = snapshot(corpus.scratch / out);
    if (first.empty()) first = bytes + run.tally.to_json().dump();
    EXPECT_TRUE(bytes + run.tally.to_json().dump() == first) << threads;
  }
  set_num_threads(before);
  const Path made = corpus.scratch / "out1" / "documents" / "in" / "f1.jsonl.zst";
  EXPECT_EQ(read_decompressed(made, 1 << 30).rfind("LINE 0 OF FILE 1\nLINE 7919", 0), 0u);
}

TEST(Stage, GoesOnAfterAStopAnywhere) {
  MadeCorpus corpus;
  const StageRun whole = corpus.run("whole");
  const std::string want = snapshot(corpus.scratch / "whole");
  for (const int stop_after : {1, 4, 9, 13}) {
    const std::string out = "stopped" + std::to_string(stop_after);
    std::atomic<int> calls{0};
    const auto stopping = [&](const CorpusPiece& piece, PieceResult& result) {
      if (++calls > stop_after) throw Error(Fault::interrupted, "stopped");
      shout(piece, result);
    };
    EXPECT_EQ(error_of([&] { corpus.run(out, stopping); }).fault(), Fault::interrupted);
    const StageRun rest = corpus.run(out);
    // Not EXPECT_EQ, which takes gigabytes to compare so many lines when they differ.
    EXPECT_TRUE(snapshot(corpus.scratch / out) == want) << stop_after;
    EXPECT_EQ(rest.tally.to_json().dump(), whole.tally.to_json().dump());
  }
}

// Many files are marked as done together; what was done before a stop is not done again.
TEST(Stage, SmallFilesThatAreDoneStayDone) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  for (int f = 0; f < 40; ++f) {
    write_file(scratch / "in" / ("f" + std::to_string(10 + f) + ".jsonl"),
               f == 30 ? "!\n" : "line " + std::to_string(f) + "\n");
  }
  const std::vector<CorpusFile> files =
      corpus_files(std::vector<std::string>{(scratch / "in").string()});
  std::atomic<int> calls{0};
  const auto counting = [&](const CorpusPiece& piece, PieceResult& result) {
    ++calls;
    shout(piece, result);
  };
  const StageSettings settings = shout_settings(scratch / "out");
  EXPECT_EQ(error_of([&] { run_stage(files, settings, counting); }).fault(), Fault::data);
  EXPECT_GE(calls, 31);
  const auto named = [&](int f) {
    return std::filesystem::exists(scratch / "out/documents/in" /
                                   ("f" + std::to_string(10 + f) + ".jsonl.zst"));
  };
  for (int f = 0; f < 30; ++f) EXPECT_TRUE(named(f)) << f;
  EXPECT_FALSE(named(30));
  write_file(scratch / "in" / "f40.jsonl", "good\n");
  const int before = calls;
  EXPECT_EQ(run_stage(files, settings, counting).tally[counted::kDocuments], 40);
  EXPECT_LE(calls - before, 10);
}

// As when a process is killed before a group of files is marked: their outputs have no names.
TEST(Stage, FilesThatWereWrittenAndNotMarkedAreDoneAgain) {
  MadeCorpus corpus;
  corpus.run("whole");
  std::filesystem::copy(corpus.scratch / "whole", corpus.scratch / "killed",
                        std::filesystem::copy_options::recursive);
  const Path document = corpus.scratch / "killed/documents/in/f0.jsonl.zst",
             ids = corpus.scratch / "killed/ids/in/f2.txt";
  std::filesystem::rename(document, document.string() + ".partial");
  write_file(ids.string() + ".partial", "rubbish that a power cut left");
  EXPECT_TRUE(corpus.run("killed").complete);
  EXPECT_TRUE(snapshot(corpus.scratch / "killed") == snapshot(corpus.scratch / "whole"));
}

// Leaves out lines with a 7 and writes the others backwards.
void turn(const CorpusPiece& piece, PieceResult& result) {
  for (const Line& line : piece.lines) {
    const std::string_view text = piece.window.text(line);
    if (text.find('7') != std::string_view::npos) {
      result.streams[1] += piece.id(line) + "\n";
      continue;
    }
    result.streams[0].append(text.rbegin(), text.rend());
    result.streams[0] += '\n';
    result.tally.count(counted::kDocuments);
  }
}

StageSettings turn_settings(const Path& out) {
  StageSettings settings = shout_settings(out);
  settings.what = "turn";
  settings.settings = "turn";
  return settings;
}

// Turned, then shouted, in one pass.
std::vector<StageRun> run_both(const MadeCorpus& corpus, const std::string& out,
                               const PieceWork& second = shout) {
  const std::vector<StageJob> jobs = {
      {.settings = turn_settings(corpus.scratch / out / "turned"),
       .work = turn,
       .keeps_documents = false},
      {.settings = shout_settings(corpus.scratch / out / "shouted"), .work = second}};
  std::vector<StageRun> runs = run_jobs(corpus.files, jobs);
  for (const StageJob& job : jobs) finish_stage(job.settings.out);
  return runs;
}

TEST(Stage, JobsOfOnePassLeaveWhatStagesLeaveOneAfterAnother) {
  const MadeCorpus corpus;
  const Path turned = corpus.scratch / "alone" / "turned",
             shouted = corpus.scratch / "alone" / "shouted";
  const StageRun first = run_stage(corpus.files, turn_settings(turned), turn);
  finish_stage(turned);
  const StageRun second = run_stage(corpus_files(std::vector<std::string>{turned.string()}),
                                    shout_settings(shouted), shout);
  finish_stage(shouted);
  std::filesystem::remove_all(turned / kDocumentsFolder);  // one pass does not write these
  const std::string want = snapshot(corpus.scratch / "alone");
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const std::string out = "both" + std::to_string(threads);
    const std::vector<StageRun> runs = run_both(corpus, out);
    EXPECT_TRUE(snapshot(corpus.scratch / out) == want) << threads;
    EXPECT_EQ(runs[0].tally.to_json().dump(), first.tally.to_json().dump());
    EXPECT_EQ(runs[1].tally.to_json().dump(), second.tally.to_json().dump());
  }
  set_num_threads(before);
  for (const int stop_after : {1, 4, 8}) {
    const std::string out = "stopped" + std::to_string(stop_after);
    std::atomic<int> calls{0};
    const auto stopping = [&](const CorpusPiece& piece, PieceResult& result) {
      if (++calls > stop_after) throw Error(Fault::interrupted, "stopped");
      shout(piece, result);
    };
    EXPECT_EQ(error_of([&] { run_both(corpus, out, stopping); }).fault(), Fault::interrupted);
    const std::vector<StageRun> rest = run_both(corpus, out);
    EXPECT_TRUE(snapshot(corpus.scratch / out) == want) << stop_after;
    EXPECT_EQ(rest[0].tally.to_json().dump(), first.tally.to_json().dump());
    EXPECT_EQ(rest[1].tally.to_json().dump(), second.tally.to_json().dump());
  }
}

TEST(Stage, ShardsJoinToTheSameBytes) {
  MadeCorpus corpus;
  const StageRun whole = corpus.run("whole");
  StageSettings settings = shout_settings(corpus.scratch / "shards");
  for (const int64_t index : {2, 0, 1}) {
    settings.shard = {index, 3};
    const StageRun run = run_stage(corpus.files, settings, shout);
    EXPECT_FALSE(run.complete) << "the command without --shard joins them";
    EXPECT_EQ(run.awaited, "");
  }
  const StageRun joined = corpus.run("shards", [](const CorpusPiece&, PieceResult&) { FAIL(); });
  EXPECT_EQ(joined.tally.to_json().dump(), whole.tally.to_json().dump());
  EXPECT_TRUE(snapshot(corpus.scratch / "shards") == snapshot(corpus.scratch / "whole"));
}

TEST(Stage, ShardsGoOnWhenAllHaveDoneAnInnerStage) {
  MadeCorpus corpus;
  StageSettings settings = shout_settings(corpus.scratch / "shards");
  settings.inner = true;
  for (const int64_t index : {2, 0, 1}) {
    settings.shard = {index, 3};
    const StageRun run = run_stage(corpus.files, settings, shout);
    EXPECT_EQ(run.complete, index == 1);
    EXPECT_EQ(run.awaited, index == 1 ? "" : settings.what);
  }
}

TEST(Stage, RefusesToGoOnWithOtherSettings) {
  MadeCorpus corpus;
  StageSettings settings = shout_settings(corpus.scratch / "out");
  settings.shard = {0, 2};
  run_stage(corpus.files, settings, shout);
  settings.settings = "whisper";
  const Error error = error_of([&] { run_stage(corpus.files, settings, shout); });
  EXPECT_NE(std::string(error.what()).find("other inputs or settings"), std::string::npos);
  EXPECT_EQ(error.fault(), Fault::usage);
}

TEST(Stage, CountsWhatIsBadOrStopsByASetting) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::string text(100, 'x');
  const std::string good = zstd_compressed(text + "\n" + text + "\n");
  write_file(scratch / "in" / "a.jsonl", "good\n!bad\n" + std::string(5000, 'y') + "\nfine\n");
  write_file(scratch / "in" / "b.jsonl.zst", good.substr(0, good.size() / 2));
  write_file(scratch / "in" / "c.jsonl.zst", good);
  const auto files = corpus_files(std::vector<std::string>{(scratch / "in").string()});
  StageSettings settings = shout_settings(scratch / "out");
  settings.max_line_bytes = 1000;
  const Error error = error_of([&] { run_stage(files, settings, shout); });
  EXPECT_STREQ(error.what(), "in/a:2: shouts already");
  EXPECT_EQ(error.fault(), Fault::data);
  settings.on_error = OnError::skip;
  const StageRun run = run_stage(files, settings, shout);
  EXPECT_EQ(run.tally[counted::kDocuments], 4);
  EXPECT_EQ(run.tally[counted::kBad], 1);
  EXPECT_EQ(run.tally[counted::kTooLong], 1);
  EXPECT_EQ(run.tally[counted::kDamaged], 1);
  EXPECT_EQ(run.tally.errors().size(), 3u);
  EXPECT_TRUE(run.complete);
}

TEST(Stage, TakesShardsAsPeopleWriteThem) {
  EXPECT_EQ(parse_shard("2/8").index, 2);
  for (const char* wrong : {"", "1", "8/8", "-1/2", "1/2x", "a/b", "1/"}) {
    EXPECT_EQ(error_of([&] { parse_shard(wrong); }).fault(), Fault::usage) << wrong;
  }
}

}  // namespace
}  // namespace tephra
