// SPDX-License-Identifier: Apache-2.0
// Inputs and disks that are against us: counted, named, skipped or stopped by a setting; never a
// crash, never silently lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>

#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/output_lock.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/line_reader.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// Writes every document that can be read.
StageRun copy_corpus(const Path& in, StageSettings stage) {
  stage.what = "copy";
  stage.settings = "copy";
  stage.streams = {documents_stream(stage)};
  const std::vector<CorpusFile> files = corpus_files(std::vector<std::string>{in.string()});
  return run_reported(files, stage, [](const CorpusPiece& piece, PieceResult& result) {
    each_document(piece, "text", result,
                  [&](const Document& document) { append_document(result.streams[0], document); });
  });
}

std::string good_lines(int count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::string lines;
  for (int i = 0; i < count; ++i) lines += "{\"text\":\"" + std::to_string(random()) + "\"}\n";
  return lines;
}

TEST(Hostile, DamageOfEveryKindIsCountedAndNamed) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const auto put = [&](const char* name, const std::string& bytes) {
    write_file(scratch / "in" / name, bytes);
  };
  const std::string lines = good_lines(40000);
  const std::string gzip = gzipped(lines), zstd = zstd_compressed(lines);
  const std::string parquet = read_file(TEPHRA_GOLDEN_DIR "/parquet/zstd.parquet");
  std::string flipped = gzip;
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 0x10);  // checksum
  put("a-good.jsonl", good_lines(10));
  put("b-cut.jsonl.gz", gzip.substr(0, gzip.size() / 2));
  put("c-flipped.jsonl.gz", flipped);
  put("d-cut.jsonl.zst", zstd.substr(0, zstd.size() / 2));
  put("e-no-zstd.jsonl.zst", "this is plain text");
  put("f-cut.parquet", parquet.substr(0, parquet.size() / 2));
  put("g-bytes.jsonl", "{\"text\":\"\xff\xfe\"}\n{\"text\":\"\xed\xa0\x80\"}\n{\"text\":\"ok\"}\n");
  for (const char* name : {"g1-empty.jsonl.gz", "g2-empty.jsonl.zst", "g3-empty.jsonl.lz4"})
    put(name, "");
  put("h-binary.jsonl", std::string("\0\x01\x02\n\n\r\n", 7));
  put("i-good.jsonl", good_lines(10));
  StageSettings stage;
  stage.out = scratch / "stop";
  EXPECT_EQ(error_of([&] { copy_corpus(scratch / "in", stage); }).fault(), Fault::data);
  stage.out = scratch / "skip";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(scratch / "in", stage);
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.tally[counted::kDamaged], 8);
  EXPECT_EQ(run.tally[counted::kBad], 3);
  EXPECT_GT(run.tally[counted::kDocuments], 21 + 3 * 10000);  // what stood before the damage
  std::string errors;
  for (const std::string& error : run.tally.errors()) errors += error + "\n";
  for (const char* name :
       {"b-cut", "c-flipped", "d-cut", "e-no-zstd", "f-cut", "g-bytes:1", "g-bytes:2",
        "g1-empty.jsonl.gz", "g2-empty.jsonl.zst", "g3-empty.jsonl.lz4", "h-binary:1"}) {
    EXPECT_NE(errors.find(name), std::string::npos) << name << "\n" << errors;
  }
}

TEST(Hostile, TextsThatAreNoneAreCountedAndNamedInEveryFormat) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::string lines =
      "{\"text\":null}\n{\"other\":\"x\"}\n{\"text\":7}\n{\"text\":[\"x\"]}\n"
      "{\"text\":{\"is\":\"x\"}}\n{\"text\":true}\n[\"text\"]\n{\"text\":\"good\"}\n";
  write_file(scratch / "in/a.jsonl", lines);
  // Every 17th text of it is null; the other one has no column of that name.
  std::filesystem::copy(TEPHRA_GOLDEN_DIR "/parquet/zstd.parquet", scratch / "in/b.parquet");
  std::filesystem::copy(TEPHRA_GOLDEN_DIR "/parquet/map.parquet", scratch / "in/c.parquet");
  StageSettings stage;
  stage.out = scratch / "stop";
  const Error error = error_of([&] { copy_corpus(scratch / "in", stage); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(std::string(error.what()), "in/a:1: key 'text': expected a string, got null");
  stage.out = scratch / "skip";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(scratch / "in", stage);
  EXPECT_EQ(run.tally[counted::kDocuments], 1 + 282);
  EXPECT_EQ(run.tally[counted::kBad], 7 + 18 + 1);
  std::string errors;
  for (const std::string& each : run.tally.errors()) errors += each + "\n";
  for (const char* what : {"in/a:2: expected the key 'text', which the object does not have",
                           "in/a:3: key 'text': "
                           "expected a string, got a number",
                           "in/a:4: key 'text': expected a string, got an array",
                           "in/a:5: key 'text': expected a string, got an object",
                           "in/a:6: key 'text': expected a "
                           "string, got a boolean",
                           "in/a:7: expected a JSON object, got [\"text\"]",
                           "in/b:1: key 'text': expected a string, got null"}) {
    EXPECT_NE(errors.find(what), std::string::npos) << what << "\n" << errors;
  }
}

TEST(Hostile, WhatReadersLeaveOutIsCountedOnceHoweverOftenARunStops) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const auto record = [](const std::string& status, const std::string& type, size_t size) {
    const std::string body =
        "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\n\r\n<p>" + std::string(size, 'x');
    return "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body + "\r\n\r\n";
  };
  std::string crawl;
  for (int i = 0; i < 1500; ++i) {
    crawl += record(i % 5 == 0 ? "404 Not Found" : "200 OK", i % 3 == 0 ? "image/png" : "text/html",
                    i % 7 == 0 ? 0 : 9000);
  }
  for (const char* name : {"a.warc", "b.warc"}) write_file(scratch / "in" / name, crawl);
  StageSettings stage;
  stage.window_bytes = 1 << 20;
  stage.journal_bytes = 1;
  stage.what = stage.settings = "copy";
  stage.streams = {documents_stream(stage)};
  const std::vector<CorpusFile> files =
      corpus_files(std::vector<std::string>{(scratch / "in").string()});
  const auto run = [&](const char* out, int stop_after) {
    stage.out = scratch / out;
    std::atomic<int> calls{0};
    return run_reported(files, stage, [&](const CorpusPiece& piece, PieceResult& result) {
      if (++calls > stop_after) throw Error(Fault::interrupted, "stopped");
      each_document(piece, "text", result, [&](const Document& document) {
        append_document(result.streams[0], document);
      });
    });
  };
  const StageRun whole = run("whole", 1000);
  int64_t sum = whole.tally[counted::kDocuments];
  for (const char* reason : {"status", "no_html", "no_text"}) {
    EXPECT_GT(whole.tally[counted::kLeftOut + reason], 0) << reason;
    sum += whole.tally[counted::kLeftOut + reason];
  }
  EXPECT_EQ(sum, 2 * 1500);
  int stops = 0;
  for (bool done = false; !done; ++stops) {
    try {
      run("stopped", 2);
      done = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::interrupted);
    }
  }
  EXPECT_GT(stops, 3);
  EXPECT_EQ(read_file(scratch / "stopped/report.json"), read_file(scratch / "whole/report.json"));
}

TEST(Hostile, AllThatStandsBeforeDamageIsRead) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::string lines = good_lines(20000);
  write_file(scratch / "in/a.jsonl.gz", gzipped(lines) + std::string(512, '\0'));  // as on tapes
  write_file(scratch / "in/b.jsonl.gz", gzipped(lines) + "garbage");
  write_file(scratch / "in/c.jsonl.zst", zstd_compressed(lines) + "garbage");
  write_file(scratch / "in/d.jsonl.lz4", lz4_compressed(lines) + "garbage");
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(scratch / "in", stage);
  EXPECT_EQ(run.tally[counted::kDocuments], 4 * 20000);
  EXPECT_EQ(run.tally[counted::kDamaged], 3);
  EXPECT_EQ(run.tally[counted::kBad], 0);
}

TEST(Hostile, ValidLinesOfOddFormsAreDocumentsAndKeepTheirBytes) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::string large = "\"n\":123456789012345678901234567890,\"x\":-1.5e400,\"s\":\"1e999\"";
  write_file(scratch / "in/a.jsonl", "\xEF\xBB\xBF{\"text\":\"marked\"}\n{\"text\":\"big\"," +
                                         large +
                                         "}\n{\"text\":\"bad\",\"n\":0123456789012345678901}\n"
                                         "{\"text\":\"one\",\"text\":\"two\"}\n"
                                         "{\"text\":\"three\",\"tephra_id\":7}\n");
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(scratch / "in", stage);
  EXPECT_EQ(run.tally[counted::kDocuments], 2);
  EXPECT_EQ(run.tally[counted::kBad], 3);
  const std::string out = read_decompressed(scratch / "out/documents/in/a.jsonl.zst", 1 << 20);
  EXPECT_EQ(out, "{\"text\":\"marked\",\"tephra_id\":\"in/a:1\"}\n{\"text\":\"big\"," + large +
                     ",\"tephra_id\":\"in/a:2\"}\n");
}

TEST(Hostile, WhatIsNoFileOrHasNoNameIsToldNotWaitedFor) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  write_file(scratch / "in/a.jsonl", good_lines(3));
  ASSERT_EQ(::mkfifo((scratch / "in/b.jsonl").c_str(), 0600), 0);
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(scratch / "in", stage);
  EXPECT_EQ(run.tally[counted::kDocuments], 3);
  EXPECT_EQ(run.tally[counted::kDamaged], 1);
  write_file(scratch / "in/c\xff.jsonl", good_lines(3));
  const Error error = error_of([&] { copy_corpus(scratch / "in", stage); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("UTF-8"), std::string::npos) << error.what();
}

TEST(Hostile, FilesWithoutDocumentsAreStillFilesOfTheirKind) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  write_file(scratch / "in/a.jsonl", "");
  for (const DocumentFormat format : {DocumentFormat::jsonl, DocumentFormat::handed}) {
    StageSettings stage;
    stage.format = format;
    stage.out = scratch / (format == DocumentFormat::jsonl ? "out" : "handed");
    copy_corpus(scratch / "in", stage);
  }
  EXPECT_GT(read_file(scratch / "out/documents/in/a.jsonl.zst").size(), 0u);
  EXPECT_EQ(read_decompressed(scratch / "out/documents/in/a.jsonl.zst", 1 << 20), "");
  EXPECT_EQ(read_decompressed(scratch / "handed/handed/documents/in/a.jsonl.lz4", 1 << 20), "");
}

TEST(Hostile, AnInputOrOutputThatChangedIsNoticedWhenARunGoesOn) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  write_file(scratch / "in/a.jsonl", good_lines(3));
  write_file(scratch / "in/b.jsonl", good_lines(3) + "bad\n");
  StageSettings stage;
  stage.out = scratch / "out";
  error_of([&] { copy_corpus(scratch / "in", stage); });  // a is done, b is not
  const std::string done = read_file(scratch / "out/documents/in/a.jsonl.zst");
  write_file(scratch / "in/a.jsonl", good_lines(3, 2));
  const Error changed = error_of([&] { copy_corpus(scratch / "in", stage); });
  EXPECT_EQ(changed.fault(), Fault::usage);
  EXPECT_NE(std::string(changed.what()).find("a.jsonl: was changed"), std::string::npos)
      << changed.what();
  // Nor is what is there taken for the whole.
  EXPECT_EQ(error_of([&] { corpus_files(std::vector{(scratch / "out").string()}); }).fault(),
            Fault::usage);
  write_file(scratch / "in/a.jsonl", good_lines(3));
  write_file(scratch / "out/documents/in/a.jsonl.zst", done.substr(0, done.size() - 1));
  const Error cut = error_of([&] { copy_corpus(scratch / "in", stage); });
  EXPECT_EQ(cut.fault(), Fault::data);
  EXPECT_NE(std::string(cut.what()).find("a.jsonl.zst: expected"), std::string::npos) << cut.what();
}

TEST(Hostile, ARunDoesNotWriteOverItsInputNorOverOthers) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "done/documents/in");
  write_file(scratch / "done/documents/in/a.jsonl", good_lines(3));
  const auto fault = [&](const Path& in, const Path& out) {
    return error_of([&] { check_apart(std::vector<std::string>{in.string()}, out); }).fault();
  };
  EXPECT_EQ(fault(scratch / "done", scratch / "done"), Fault::usage);
  EXPECT_EQ(fault(scratch / "done", scratch / "done/"), Fault::usage);
  EXPECT_EQ(fault("web=" + (scratch / "done").string(), scratch / "done/more"), Fault::usage);
  EXPECT_EQ(fault(scratch / "done/documents/in/a.jsonl", scratch / "done"), Fault::usage);
  check_apart(std::vector<std::string>{(scratch / "done").string()}, scratch / "done-again");
  EXPECT_EQ(error_of([&] { prepare_output(scratch / "done", true); }).fault(), Fault::usage);
  EXPECT_TRUE(std::filesystem::exists(scratch / "done/documents/in/a.jsonl"));
}

TEST(Hostile, TwoProcessesDoNotWriteIntoOneFolder) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "out");
  const int fd = ::open((scratch / "out").c_str(), O_RDONLY | O_DIRECTORY);  // as another would
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const Error error = error_of([&] { lock_output(scratch / "out", {}); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("another process"), std::string::npos) << error.what();
  ASSERT_EQ(::flock(fd, LOCK_UN), 0);
  lock_output(scratch / "out", {});
  EXPECT_NE(::flock(fd, LOCK_SH | LOCK_NB), 0);
  ::close(fd);
}

// The work folder is the sign of an output that is not finished: no rank makes one there, and only
// the first clears up what a kill left.
TEST(Hostile, AFinishedOutputStaysFinishedWhenRanksComeAgain) {
  const Scratch scratch;
  const Path out = scratch / "out", work = out / ".work";
  std::filesystem::create_directories(out);
  write_file(out / "report.json", "{}");
  const auto refusal = [&](const Shard& shard) {
    lock_output(out, shard);
    const Error error = error_of([&] { prepare_output(out, false, shard); });
    EXPECT_EQ(error.fault(), Fault::usage);
    return std::string(error.what());
  };
  EXPECT_NE(refusal({6, 7, true}).find("finished output; remove it"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(work));
  std::filesystem::create_directory(work);
  refusal({6, 7, true});
  refusal({0, 7, false});
  EXPECT_TRUE(std::filesystem::exists(work));
  refusal({0, 7, true});
  EXPECT_FALSE(std::filesystem::exists(work));
}

TEST(Hostile, TextsOfNewlinesTakeTimeByTheirLength) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  std::string text;
  for (int i = 0; i < 400000; ++i) text += "\\n";
  write_file(scratch / "in/a.jsonl",
             "{\"text\":\"" + text + "\"}\n{\"text\":\"\\n\\n kept as it is\\n\"}\n");
  for (const bool paragraphs : {false, true}) {
    StageSettings stage;
    stage.out = scratch / (paragraphs ? "paragraphs" : "lines");
    const std::vector<CorpusFile> files =
        corpus_files(std::vector<std::string>{(scratch / "in").string()});
    dedup_lines(files, {.paragraphs = paragraphs}, stage);
    const std::string out = read_decompressed(stage.out / "documents/in/a.jsonl.zst", 1 << 24);
    EXPECT_NE(out.find("\"\\n\\n kept as it is\\n\""), std::string::npos);
  }
}

TEST(Hostile, AFullDiskEndsTheRunAndLosesNothing) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  for (const char* name : {"a", "b", "c"}) {
    write_file(scratch / "in" / (std::string(name) + ".jsonl"),
               good_lines(name[0] == 'b' ? 60000 : 500, static_cast<uint32_t>(name[0])));
  }
  for (const DocumentFormat format : {DocumentFormat::jsonl, DocumentFormat::parquet}) {
    const std::string kind = format == DocumentFormat::jsonl ? "lines" : "columns";
    StageSettings stage;
    stage.format = format;
    stage.window_bytes = 1 << 20;
    stage.journal_bytes = 1;
    stage.out = scratch / (kind + "-whole");
    copy_corpus(scratch / "in", stage);
    stage.out = scratch / kind;
    {
      const FileLimit disk(200'000);  // the second file needs more
      const Error error = error_of([&] { copy_corpus(scratch / "in", stage); });
      EXPECT_EQ(error.fault(), Fault::data);
      EXPECT_NE(std::string(error.what()).find("b."), std::string::npos) << error.what();
    }
    const std::string ending = format == DocumentFormat::jsonl ? ".jsonl.zst" : ".parquet";
    EXPECT_TRUE(std::filesystem::exists(stage.out / "documents/in" / ("a" + ending)));
    EXPECT_FALSE(std::filesystem::exists(stage.out / "documents/in" / ("b" + ending)));
    EXPECT_FALSE(std::filesystem::exists(stage.out / kReportFile));
    EXPECT_TRUE(copy_corpus(scratch / "in", stage).complete);  // with room again
    for (const char* name : {"a", "b", "c"}) {
      const std::string file = "documents/in/" + (name + ending);
      EXPECT_TRUE(read_file(stage.out / file) == read_file(scratch / (kind + "-whole") / file))
          << file;
    }
  }
}

TEST(Hostile, DocumentsOfAMillionRepeatsAreDeduplicated) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  std::string lines;
  for (const char* part :
       {"a ", "menu\\n", "one line of a certain length\\n", "x", "\xe4\xbd\xa0"}) {
    std::string text;
    for (int i = 0; i < 1'000'000 / 4; ++i) text += part;
    lines += "{\"text\":\"" + text + "\"}\n{\"text\":\"" + text + "\"}\n";
  }
  write_file(scratch / "in" / "a.jsonl", lines);
  const auto files = corpus_files(std::vector<std::string>{(scratch / "in").string()});
  StageSettings stage;
  stage.out = scratch / "documents";
  DedupOptions options;
  options.preset = signature_preset("native");
  EXPECT_EQ(dedup_corpus(files, options, stage).tally["removed"], 5);
  stage.out = scratch / "lines";
  const StageRun run = dedup_lines(files, {}, stage);
  EXPECT_GE(run.tally["removed_pieces"], 499'999);
  EXPECT_EQ(run.tally["emptied_documents"], 4);  // short lines stay
}

TEST(HostileSlow, OneUnreadableFileOfTenThousandIsNamedAndTheRestIsRead) {
  const Scratch scratch;
  const Path in = scratch / "in";
  std::filesystem::create_directory(in);
  for (int i = 0; i < 10000; ++i) {
    const Path file = in / ("part-" + std::to_string(10000 + i) + ".jsonl");
    if (i == 5000) {
      std::filesystem::create_symlink("nowhere", file);  // root may read any file that is there
    } else {
      std::ofstream(file) << "{\"text\":\"document " << i << "\"}\n";
    }
  }
  StageSettings stage;
  stage.out = scratch / "skip";
  stage.on_error = OnError::skip;
  const StageRun run = copy_corpus(in, stage);
  EXPECT_EQ(run.tally[counted::kDocuments], 9999);
  EXPECT_EQ(run.tally[counted::kDamaged], 1);
  ASSERT_EQ(run.tally.errors().size(), 1u);
  EXPECT_NE(run.tally.errors()[0].find("part-15000"), std::string::npos);
}

TEST(HostileSlow, ALineOfAGigabyteIsPassedOverInLittleMemory) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const Path file = scratch / "in" / "a.jsonl";
  std::ofstream(file) << "{\"text\":\"before\"}\n";
  std::filesystem::resize_file(file, int64_t{1} << 30);  // a hole: nothing is stored
  std::ofstream(file, std::ios::app) << "\n{\"text\":\"after\"}\n";
  StageSettings stage;
  stage.out = scratch / "skip";
  stage.on_error = OnError::skip;
  stage.max_line_bytes = 64 << 20;
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const StageRun run = copy_corpus(scratch / "in", stage);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(run.tally[counted::kDocuments], 2);
  EXPECT_EQ(run.tally[counted::kTooLong], 1);
  ASSERT_EQ(run.tally.errors().size(), 1u);
  EXPECT_EQ(run.tally.errors()[0], "in/a:2: a line is longer than 64.0 MiB");
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 512 << 10);  // KiB
}

}  // namespace
}  // namespace tephra
