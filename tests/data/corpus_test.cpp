// SPDX-License-Identifier: Apache-2.0
// The stream of documents: which files, which lines, what becomes of bad ones, and that neither
// threads, nor order, nor a stop in the middle changes a byte.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/side_by_side.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/line_reader.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::vector<std::string> titles(const std::vector<std::string>& inputs) {
  std::vector<std::string> names;
  for (const CorpusFile& file : corpus_files(inputs)) names.push_back(file.title());
  return names;
}

TEST(CorpusFiles, AreNamedBySourceInAnyOrder) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "web" / "2024");
  std::filesystem::create_directories(scratch / "out" / "documents" / "books");
  for (const char* name : {"web/b.jsonl.gz", "web/2024/a.jsonl", "one.jsonl.zst", "web/notes.md",
                           "out/documents/books/c.jsonl.zst"}) {
    write_file(scratch / name, "");
  }
  const std::string web = (scratch / "web").string(), one = (scratch / "one.jsonl.zst").string(),
                    out = (scratch / "out").string();
  const std::vector<std::string> want = {"books/c", "main/one", "web/2024/a", "web/b"};
  EXPECT_EQ(titles({web, one, out}), want);
  EXPECT_EQ(titles({out, one, web + "/"}), want);
  EXPECT_EQ(titles({"crawl=" + web})[1], "crawl/b");
  EXPECT_EQ(error_of([&] { titles({web, web}); }).fault(), Fault::usage);
  EXPECT_EQ(error_of([&] { titles({(scratch / "none").string()}); }).fault(), Fault::usage);
  EXPECT_EQ(error_of([&] { titles({(scratch / "web" / "notes.md").string()}); }).fault(),
            Fault::usage);
  EXPECT_EQ(error_of([&] { titles({"a/b=" + web}); }).fault(), Fault::usage);
}

TEST(CorpusFiles, OfAStageThatHasNotEndedAreRefused) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "out" / "documents" / "books");
  write_file(scratch / "out" / "documents" / "books" / "c.jsonl", "");
  const std::string out = (scratch / "out").string();
  for (const std::string& input : {out, out + "/documents", out + "/documents/"}) {
    EXPECT_EQ(titles({input}).size(), 1u) << input;
    std::filesystem::create_directories(scratch / "out" / ".work");
    const std::string said = error_of([&] { titles({input}); }).what();
    EXPECT_NE(said.find("is not finished"), std::string::npos) << input << ": " << said;
    std::filesystem::remove_all(scratch / "out" / ".work");
  }
}

using Indices = std::vector<size_t>;

TEST(FileShares, LeaveOnlyLargeFilesToAllThreadsTogether) {
  const Scratch scratch;
  const auto shares = [&](const std::vector<size_t>& sizes, size_t threads) {
    std::vector<CorpusFile> files;
    Indices all(sizes.size());
    std::iota(all.begin(), all.end(), size_t{0});
    for (const size_t i : all) {
      const Path path = scratch / std::to_string(i);
      write_file(path, std::string(sizes[i], 'x'));
      files.push_back({"web", std::to_string(i), path});
    }
    return FileShares(files, all, threads);
  };
  EXPECT_EQ(shares({100, 100, 100, 100}, 2).apart, (Indices{0, 1, 2, 3}));
  EXPECT_EQ(shares({100, 100, 100}, 2).apart.size(), 2u);
  EXPECT_EQ(shares({10, 10, 900, 10, 10}, 2).together, (Indices{2}));
  EXPECT_EQ(shares({900}, 2).together, (Indices{0}));
  EXPECT_EQ(shares({900, 10}, 1).apart, (Indices{0, 1}));
  EXPECT_TRUE(shares({}, 4).together.empty());
  EXPECT_EQ(shares({0, 0}, 2).apart, (Indices{0, 1}));
}

TEST(SideBySide, TellsOfTheFirstFileThatFailsWhateverHappensFirst) {
  const int before = num_threads();
  set_num_threads(3);
  const Indices files = {10, 11, 12, 13, 14, 15};
  std::array<std::atomic<int>, 16> done{};
  const Error error = error_of([&] {
    side_by_side(files, 3, [&](size_t file, FunctionRef<void()> check_in) {
      if (file == 12) throw Error(Fault::data, "the later one");
      for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        check_in();
      }
      if (file == 11) throw Error(Fault::data, "the first one");
      ++done[file];
    });
  });
  set_num_threads(before);
  EXPECT_STREQ(error.what(), "the first one");
  EXPECT_EQ(done[10], 1);
  for (const size_t file : {13, 14, 15}) EXPECT_EQ(done[file], 0) << file;
}

// The lines of all windows, with their rows; rows of long lines as "-ROW".
std::vector<std::string> window_lines(LineWindows& windows, std::string* damage = nullptr) {
  std::vector<std::string> lines;
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    for (const Line& line : window.lines) {
      lines.push_back(std::to_string(line.row) + ":" + std::string(window.text(line)));
    }
    for (const int64_t row : window.long_rows) lines.push_back("-" + std::to_string(row));
    if (damage != nullptr) *damage += window.damage;
    last = window.last;
  }
  return lines;
}

TEST(LineWindows, CutAtLinesAndGoOnWhereTheyWere) {
  const Scratch scratch;
  std::string text;
  for (int i = 1; i <= 2000; ++i) text += std::string(static_cast<size_t>(i % 50), 'x') + "\n";
  write_file(scratch / "a.jsonl", text);
  LineWindows whole(scratch / "a.jsonl", 1000, 1 << 20);
  const std::vector<std::string> all = window_lines(whole);
  EXPECT_EQ(all.size(), 2000u - 40u);  // blank ones left out
  LineWindows first(scratch / "a.jsonl", 1000, 1 << 20);
  const LineWindow window = first.next();
  EXPECT_EQ(text[static_cast<size_t>(window.end_offset) - 1], '\n');
  LineWindows rest(scratch / "a.jsonl", 1000, 1 << 20);
  rest.skip_to(window.end_offset, window.end_row);
  EXPECT_EQ(window.lines.size() + window_lines(rest).size(), all.size());
}

TEST(LineWindows, EndAtTheSamePlacesWhereverTheyGoOn) {
  const Scratch scratch;
  std::string text;
  for (size_t i = 0; i < 60000; ++i) {
    const size_t size = i == 9000 ? 3 << 20 : i == 30000 ? 6 << 20 : i * 7919 % 200;
    text.append(size, 'x') += '\n';
  }
  write_file(scratch / "a.jsonl", text);
  write_file(scratch / "b.jsonl.zst", zstd_compressed(text));
  for (const char* name : {"a.jsonl", "b.jsonl.zst"}) {
    for (const size_t bytes : {size_t{1000}, size_t{1} << 20, size_t{5} << 19}) {
      LineWindows whole(scratch / name, bytes, 4 << 20);
      int windows = 0;
      for (LineWindow before = whole.next(); !before.last; ++windows) {
        LineWindows rest(scratch / name, bytes, 4 << 20);
        rest.skip_to(before.end_offset, before.end_row);
        before = whole.next();
        const LineWindow after = rest.next();
        EXPECT_EQ(after.end_offset, before.end_offset);
        EXPECT_EQ(after.end_row, before.end_row);
        EXPECT_EQ(after.long_rows, before.long_rows);
        EXPECT_TRUE(after.bytes == before.bytes) << name << " " << bytes;
      }
      EXPECT_GT(windows, 2);
    }
  }
}

// Pieces as "row-row" by a reading in windows of that size.
std::vector<std::string> pieces_in(const Path& path, size_t window_bytes, size_t max_line) {
  LineWindows windows(path, window_bytes, max_line);
  std::vector<std::string> pieces;
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    size_t begin = 0;
    for (const size_t end : window.piece_ends) {
      pieces.push_back(std::to_string(window.lines[begin].row) + "-" +
                       std::to_string(window.lines[end - 1].row));
      begin = end;
    }
    EXPECT_EQ(begin, window.lines.size());
    last = window.last;
  }
  return pieces;
}

TEST(LineWindows, CutPiecesThatDoNotDependOnTheirSize) {
  const Scratch scratch;
  std::string text;
  for (size_t i = 0; i < 60000; ++i) {
    const size_t size = i == 900 ? 3 << 20 : i % 20011 == 5 ? 5 << 20 : i * 7919 % 300;
    text.append(size, 'x') += '\n';
  }
  text += "an end without a newline";
  write_file(scratch / "a.jsonl", text);
  const std::vector<std::string> want = pieces_in(scratch / "a.jsonl", 1 << 26, 4 << 20);
  EXPECT_GT(want.size(), 8u);
  for (const size_t bytes : {size_t{10}, size_t{1} << 20, size_t{3} << 20, size_t{9} << 20}) {
    EXPECT_EQ(pieces_in(scratch / "a.jsonl", bytes, 4 << 20), want) << bytes;
  }
  // The same of bytes that are given in portions.
  LineWindows given("", 0, 4 << 20);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += 1234567) {
    given.given() += std::string_view(text).substr(at, 1234567);
    const bool end = at + 1234567 >= text.size();
    LineWindow used;
    while (const auto window = given.next_given(end, used)) {
      size_t begin = 0;
      for (const size_t piece : window->piece_ends) {
        pieces.push_back(std::to_string(window->lines[begin].row) + "-" +
                         std::to_string(window->lines[piece - 1].row));
        begin = piece;
      }
      if (window->last) break;
    }
  }
  EXPECT_EQ(pieces, want);
}

TEST(LineWindows, PassOverLinesThatAreTooLong) {
  const Scratch scratch;
  const std::string big(5 << 20, 'x');
  write_file(scratch / "a.jsonl", "one\n" + big + "\ntwo\n" + big + "\n" + big);
  for (const size_t window : {size_t{10}, size_t{1} << 26}) {
    LineWindows windows(scratch / "a.jsonl", window, 1 << 20);
    std::vector<std::string> lines = window_lines(windows);
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines, (std::vector<std::string>{"-2", "-4", "-5", "1:one", "3:two"}));
  }
}

TEST(LineWindows, GiveTheLinesBeforeDamage) {
  const Scratch scratch;
  std::string text;
  for (int64_t i = 0; i < 60000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  for (const char* name : {"a.jsonl.gz", "a.jsonl.zst"}) {
    const std::string whole = name[8] == 'g' ? gzipped(text) : zstd_compressed(text);
    write_file(scratch / name, whole.substr(0, whole.size() / 2));
    std::string damage;
    LineWindows windows(scratch / name, 1 << 16, 1 << 20);
    const std::vector<std::string> lines = window_lines(windows, &damage);
    EXPECT_NE(damage.find("cut off"), std::string::npos) << damage;
    EXPECT_GT(lines.size(), 1000u);
    EXPECT_EQ(lines[5], "6:line 39595");
  }
  std::string damage;
  LineWindows none(scratch / "none.jsonl", 1 << 16, 1 << 20);
  EXPECT_TRUE(window_lines(none, &damage).empty());
  EXPECT_NE(damage, "");
}

TEST(JsonText, ReplacesAndAddsFieldsInPlace) {
  const auto with = [](std::string_view object, std::string_view value) {
    std::string out;
    append_with_string(out, object, "text", value);
    return out;
  };
  EXPECT_EQ(with(R"({"a": {"text": "no"}, "text" : "old\"" , "b": [1, "}"]})", "n\n\"\x01\\"),
            R"({"a": {"text": "no"}, "text" : "n\n\"\u0001\\" , "b": [1, "}"]})");
  EXPECT_EQ(with(R"({"b":1})", "x"), R"({"b":1,"text":"x"})");
  EXPECT_EQ(with("{ }", "x"), R"({"text":"x"})");
  std::string out;
  append_with_field(out, " {\"a\":[]} ", "n", "3");
  EXPECT_EQ(out, R"({"a":[],"n":3})");
}

TEST(JsonText, ReplacesAFieldThatIsThere) {
  std::string out;
  append_with_value(out, R"({"label":"old","text":"a"})", "label", "3");
  append_with_value(out, R"({"text":"a"})", "label", "3");
  EXPECT_EQ(out, R"({"label":3,"text":"a"}{"text":"a","label":3})");
}

TEST(JsonText, EscapesEveryByteAtEveryPlace) {
  for (int c = 0; c < 128; ++c) {
    for (size_t at = 0; at < 20; ++at) {
      std::string text(20, 'x'), got;
      text[at] = static_cast<char>(c);
      append_json_string(got, text);
      EXPECT_EQ(Json::parse(got, "got").string(), text) << c << " at " << at;
      const bool plain = c >= 0x20 && c != '"' && c != '\\';
      EXPECT_EQ(got.size() == text.size() + 2, plain) << c;
    }
  }
}

TEST(Tally, IsTheSameInAnyOrder) {
  Tally a(2), b(2), both(2);
  for (int i = 0; i < 20; ++i) {
    Tally& part = i % 3 == 0 ? a : b;
    const std::string id = "d" + std::to_string(i);
    for (Tally* each : {&part, &both}) {
      each->count("n", i);
      each->sample("kind", id, "text");
      each->error(id);
    }
  }
  Tally ab = a, ba = b;
  ab.add(b);
  ba.add(a);
  EXPECT_EQ(ab.to_json().dump(), both.to_json().dump());
  EXPECT_EQ(ba.to_json().dump(), both.to_json().dump());
  EXPECT_EQ(Tally::from_json(both.to_json(), "t", 2).to_json().dump(), both.to_json().dump());
  EXPECT_EQ(both["n"], 190);
  EXPECT_EQ(both.samples().at("kind").size(), 2u);
}

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
