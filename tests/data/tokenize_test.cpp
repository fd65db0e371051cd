// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <latch>

#include "tephra/base/parallel.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/tokenize.h"
#include "tephra/io/token_shard.h"
#include "tests/data/quick_ranks.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"
#include "tests/support/file_limit.h"

namespace tephra {
namespace {

struct Corpus {
  Scratch scratch;

  std::string path(const std::string& name) const { return (scratch / name).string(); }
  void put(const std::string& name, const std::string& bytes) const {
    write_file(scratch / name, bytes);
  }
  TokenizeReport tokenize(const std::vector<std::string>& names,
                          const TokenizeOptions& options = {},
                          const std::string& out = "out") const {
    std::vector<std::string> inputs;
    for (const std::string& name : names) inputs.push_back(path(name));
    return tokenize_files(text_files(inputs), *test_tokenizer(), scratch / out, options);
  }
  NamedShard make(const std::string& name, const TokenizeOptions& options = {},
                  bool overwrite = false, const std::string& out = "out") const {
    const std::vector<Path> files = {scratch / name};
    return make_shard(files, *test_tokenizer(), scratch / out, options, overwrite);
  }
  // What make() says when it refuses, with its hint.
  std::string refused(const std::string& name, const TokenizeOptions& options = {}) const {
    const Error error = error_of([&] { make(name, options); });
    EXPECT_EQ(error.fault(), Fault::usage) << error.what();
    return std::string(error.what()) + " | " + error.hint();
  }
  ShardRecord record(const std::string& name, const TokenizeOptions& options = {}) const {
    const std::vector<Path> files = {scratch / name};
    return ShardRecord(files, scratch / "out", options);
  }
  bool has(const std::string& name) const { return std::filesystem::exists(scratch / name); }
  // The documents of the shard as text.
  std::vector<std::string> documents(bool keep_special = false) const {
    const auto shard = TokenShard::open(scratch / "out");
    std::vector<std::string> texts;
    for (int64_t d = 0; d < shard->documents(); ++d) {
      std::vector<int32_t> ids(
          static_cast<size_t>(shard->document_begin(d + 1) - shard->document_begin(d)));
      shard->read(shard->document_begin(d), ids, test_tokenizer()->vocab_size());
      texts.push_back(test_tokenizer()->decode(ids, {.keep_special = keep_special}));
    }
    return texts;
  }
};

using Texts = std::vector<std::string>;

TEST(Tokenize, TakesTheTextOfJsonLines) {
  const Corpus corpus;
  corpus.put("a.jsonl",
             "{\"text\": \"one\\n\\u00e9\", \"n\": 1}\n\n{\"n\": {}, \"text\": \"two\"}\n");
  corpus.put("b.jsonl.gz", gzipped("{\"text\": \"three\"}\n{\"text\": \"\"}"));
  corpus.put("c.jsonl.zst", zstd_compressed("{\"text\": \"four\"}\n"));
  const TokenizeReport report = corpus.tokenize({"a.jsonl", "b.jsonl.gz", "c.jsonl.zst"});
  EXPECT_EQ(corpus.documents(), (Texts{"one\né", "two", "three", "four"}));
  EXPECT_EQ(report.documents, 4);
  EXPECT_EQ(report.files, 3);
  EXPECT_EQ(report.empty, 2);
  EXPECT_EQ(report.text_bytes, 6 + 3 + 5 + 4);
  EXPECT_EQ(report.tokens, TokenShard::open(corpus.scratch / "out")->tokens());
}

TEST(Tokenize, SplitsTextFilesAsAsked) {
  const Corpus corpus;
  corpus.put("a.txt", "one\ntwo\n\n \nthree\n");
  corpus.tokenize({"a.txt"});
  EXPECT_EQ(corpus.documents(), Texts{"one\ntwo\n\n \nthree\n"});
  corpus.tokenize({"a.txt"}, {.split = TextSplit::paragraph});
  EXPECT_EQ(corpus.documents(), (Texts{"one\ntwo", "three"}));
  corpus.tokenize({"a.txt"}, {.split = TextSplit::line});
  EXPECT_EQ(corpus.documents(), (Texts{"one", "two", " ", "three"}));
}

TEST(Tokenize, AddsTheTokensThatWereAskedFor) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"}, {.prepend_bos = true, .append_eos = true});
  EXPECT_EQ(corpus.documents(true), Texts{"<bos> one<eos>"}) << "the decoder puts the space";
}

TEST(Tokenize, TakesFoldersByName) {
  const Corpus corpus;
  make_writable_folder(corpus.scratch / "in" / "deep");
  corpus.put("in/b.txt", "b");
  corpus.put("in/a.jsonl", "{\"text\": \"a\"}");
  corpus.put("in/deep/c.txt.gz", gzipped("c"));
  corpus.put("in/readme.md", "no");
  corpus.tokenize({"in"});
  EXPECT_EQ(corpus.documents(), (Texts{"a", "b", "c"}));
}

std::string response(const std::string& body) {
  return "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body + "\r\n\r\n";
}

std::string page(const std::string& text) {
  return response("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + text);
}

std::string missing_page() { return response("HTTP/1.1 404 No\r\n\r\n"); }

TEST(Tokenize, CountsWhatReadersLeaveOut) {
  const Corpus corpus;
  for (const char* name : {"a.warc", "b.warc"}) corpus.put(name, page("one") + missing_page());
  const TokenizeReport report = corpus.tokenize({"a.warc", "b.warc"});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.troubles["left_out.status"], 2);
}

TEST(Tokenize, SaysWhereABadDocumentIs) {
  const Corpus corpus;
  corpus.put(
      "a.jsonl",
      "{\"text\": \"one\"}\n{\"text\": 2}\n{\"txt\": \"x\"}\n[1]\nnonsense\n{\"text\": \"t\"}");
  const Error error = error_of([&] { corpus.tokenize({"a.jsonl"}); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(),
            corpus.path("a.jsonl") + ":2: key 'text': expected a string, got a number");
  EXPECT_EQ(corpus.scratch.names(), (Texts{".out.lock", "a.jsonl"})) << "nothing is left behind";
  const TokenizeReport report = corpus.tokenize({"a.jsonl"}, {.on_error = OnError::skip});
  EXPECT_EQ(report.troubles[counted::kBad], 4);
  EXPECT_EQ(report.troubles.errors()[0],
            corpus.path("a.jsonl") + ":2: key 'text': expected a string, got a number");
  EXPECT_EQ(corpus.documents(), (Texts{"one", "t"}));
  corpus.put("b.txt", "\xff\xfe");
  EXPECT_EQ(std::string(error_of([&] { corpus.tokenize({"b.txt"}); }).what()),
            corpus.path("b.txt") + ":1: expected UTF-8 text, got other bytes");
  corpus.put("c.md", "x");
  EXPECT_EQ(error_of([&] { corpus.tokenize({"c.md"}); }).fault(), Fault::usage);
}

// Of one that is cut off, what comes before that is used, as in other stages.
TEST(Tokenize, StopsAtADamagedFileOrGoesOnAfterIt) {
  const Corpus corpus;
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "{\"text\": \"" + std::to_string(i * 7919) + "\"}\n";
  corpus.put("a.jsonl.gz", gzipped(lines).substr(0, 30000));
  corpus.put("b.jsonl.zst", zstd_compressed(lines).substr(0, 10));
  corpus.put("c.parquet", "PAR1 and no more");
  corpus.put("d.txt.gz", gzipped(lines).substr(0, 30000));
  corpus.put("e.jsonl", "{\"text\": \"the end\"}");
  corpus.put("f.jsonl", "");
  std::filesystem::remove(corpus.scratch / "f.jsonl");
  std::filesystem::create_directory(corpus.scratch / "f.jsonl");  // no regular file
  std::vector<Path> files;
  for (const char* name :
       {"a.jsonl.gz", "b.jsonl.zst", "c.parquet", "d.txt.gz", "e.jsonl", "f.jsonl"}) {
    files.push_back(corpus.scratch / name);
  }
  const auto tokenize = [&](std::span<const Path> some, OnError on_error) {
    return tokenize_files(some, *test_tokenizer(), corpus.scratch / "out", {.on_error = on_error});
  };
  for (const size_t i : {0, 1, 2, 3, 5}) {
    const Error error = error_of([&] { tokenize(std::span(files).subspan(i, 1), OnError::stop); });
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    EXPECT_NE(std::string(error.what()).find(files[i].string()), std::string::npos);
    EXPECT_EQ(error.hint(), "--on-error skip goes on with the next file");
  }
  const TokenizeReport report = tokenize(files, OnError::skip);
  EXPECT_EQ(report.troubles[counted::kDamaged], 5);
  EXPECT_EQ(report.troubles[counted::kBad], 0);
  EXPECT_EQ(std::ssize(report.troubles.errors()), 5);
  EXPECT_GT(report.documents, 1000);
  const std::string read = format("; {} lines before it were read", report.documents - 1);
  EXPECT_NE(report.troubles.errors()[0].find(read), std::string::npos) << read;
  EXPECT_EQ(corpus.documents().back(), "the end");
  const Json record = Json::parse(read_file(corpus.scratch / "out.made.json"), "");
  EXPECT_EQ(record.find("report")->find("counts")->find(counted::kDamaged)->integer(), 5);
}

TEST(Tokenize, LeavesOutWhatIsTooLong) {
  const Corpus corpus;
  const std::string large(200, 'x');
  corpus.put("a.jsonl",
             "{\"text\": \"one\"}\n{\"text\": \"" + large + "\"}\n{\"text\": \"two\"}\n");
  corpus.put("b.txt", "three\n\n" + large + "\nand more\n\nfour\n" + large.substr(0, 90) + "\n" +
                          large.substr(0, 90) + "\n\nfive\n");
  TokenizeOptions options{.split = TextSplit::paragraph, .max_document_bytes = 100};
  const Error error = error_of([&] { corpus.tokenize({"a.jsonl"}, options); });
  EXPECT_EQ(error.what(), corpus.path("a.jsonl") + ":2: a document is longer than 100 B");
  EXPECT_NE(error.hint().find("--max-document"), std::string::npos);
  options.on_error = OnError::skip;
  const TokenizeReport report = corpus.tokenize({"a.jsonl", "b.txt"}, options);
  EXPECT_EQ(corpus.documents(), (Texts{"one", "two", "three", "five"}));
  EXPECT_EQ(report.troubles[counted::kTooLong], 3);
}

TEST(Tokenize, WritesTheSameBytesOnAnyNumberOfThreads) {
  const Corpus corpus;
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines += "{\"text\": \"line " + std::to_string(i * 7919) + std::string(i % 50, 'x') + "\"}\n";
  }
  corpus.put("a.jsonl", lines);
  const int before = num_threads();
  std::string first;
  for (const int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    corpus.tokenize({"a.jsonl"}, {.append_eos = true});
    const std::string bytes =
        read_file(corpus.scratch / "out.bin") + read_file(corpus.scratch / "out.idx");
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
  }
  set_num_threads(before);
}

std::string cut_off(const std::string& bytes) { return bytes.substr(0, bytes.size() * 2 / 3); }

// Journals after every few documents; the work is stopped by a document that is not there yet.
TEST(Tokenize, GoesOnInsideAFileWithTheSameBytes) {
  const Corpus corpus;
  std::string first, second, crawl;
  for (int i = 0; i < 300; ++i) {
    (i % 2 ? first : second) += "{\"text\": \"document " + std::to_string(i * 7919) + "\"}\n\n";
    if (i % 50 == 0) second += "nonsense\n";
    if (i % 10 == 0) crawl += page("page " + std::to_string(i)) + missing_page();
  }
  for (const char* name : {"0.warc", "bb.warc"}) corpus.put(name, crawl);
  corpus.put("a.jsonl.gz", gzipped(first));
  corpus.put("b.jsonl", second);
  corpus.put("b2.jsonl.gz", cut_off(gzipped(first)));
  corpus.put("c.txt", "one\n\ntwo\n\nthree\n");
  TokenizeOptions options{.split = TextSplit::paragraph, .on_error = OnError::skip};
  options.window_bytes = 2000;
  options.journal_bytes = 500;
  const std::vector<std::string> inputs = {"0.warc",      "a.jsonl.gz", "b.jsonl",
                                           "b2.jsonl.gz", "bb.warc",    "c.txt"};
  const TokenizeReport whole = corpus.tokenize(inputs, options, "whole");
  EXPECT_EQ(whole.troubles["left_out.status"], 60);
  EXPECT_EQ(whole.troubles[counted::kBad], 6);
  EXPECT_EQ(whole.troubles[counted::kDamaged], 1);
  const auto bytes = [&](const std::string& out) {
    return read_file(corpus.scratch / (out + ".bin")) + read_file(corpus.scratch / (out + ".idx")) +
           read_file(corpus.scratch / (out + ".made.json"));
  };
  std::vector<Path> files;
  for (const std::string& input : inputs) files.emplace_back(corpus.path(input));
  const int64_t vocab = test_tokenizer()->vocab_size();
  int64_t went_on = 0;
  for (int stop = 1; stop < 10; ++stop) {
    const std::string out = "stopped" + std::to_string(stop);
    const size_t size = read_file(corpus.scratch / "whole.bin").size();
    const Error error = error_of([&] {
      const FileLimit limit(600 + size * static_cast<size_t>(stop) / 12);
      corpus.tokenize(inputs, options, out);
    });
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    EXPECT_FALSE(std::filesystem::exists(corpus.scratch / (out + ".idx")));
    const ShardRecord record(files, corpus.scratch / out, options);
    if (std::filesystem::exists(corpus.scratch / (out + ".journal"))) {
      const ShardProgress at = record.begin(vocab).at;
      EXPECT_GT(at.report.documents, 0);
      went_on += at.report.documents;
    }
    const TokenizeReport rest = corpus.tokenize(inputs, options, out);
    EXPECT_EQ(rest.tokens, whole.tokens) << stop;
    EXPECT_EQ(rest.empty, whole.empty) << stop;
    EXPECT_EQ(rest.troubles.counts(), whole.troubles.counts()) << stop;
    EXPECT_TRUE(bytes(out) == bytes("whole")) << stop;
  }
  EXPECT_GT(went_on, 600);
  for (const std::string& name : corpus.scratch.names()) {
    EXPECT_EQ(name.find("partial"), std::string::npos) << name;
    EXPECT_EQ(name.find("journal"), std::string::npos) << name;
  }
}

TEST(Tokenize, BeginsAnewWhenWhatItWroteWasDamaged) {
  const Corpus corpus;
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "{\"text\": \"" + std::to_string(i * 7919) + "\"}\n";
  corpus.put("a.jsonl", lines);
  const TokenizeOptions options{.window_bytes = 2000, .journal_bytes = 500};
  corpus.tokenize({"a.jsonl"}, options, "whole");
  const std::string whole = read_file(corpus.scratch / "whole.bin");
  error_of([&] {
    const FileLimit limit(whole.size() / 2);
    corpus.tokenize({"a.jsonl"}, options);
  });
  std::string partial = read_file(corpus.scratch / "out.bin.partial");
  partial[100] ^= 4;
  write_file(corpus.scratch / "out.bin.partial", partial);
  const TokenizeReport report = corpus.tokenize({"a.jsonl"}, options);
  EXPECT_EQ(report.earlier_bytes, 0);
  EXPECT_TRUE(read_file(corpus.scratch / "out.bin") == whole);
}

// Files of very different sizes, one that is damaged, and a whole shard to compare with.
struct SharedCorpus : Corpus {
  std::vector<Path> files;
  TokenizeOptions options{.append_eos = true, .on_error = OnError::skip};
  TokenizeReport whole;

  SharedCorpus() {
    for (int f = 0; f < 9; ++f) {
      std::string lines;
      for (int i = 0; i < 40 * f * f; ++i) {
        lines +=
            i % 100 == 5 ? "nonsense\n" : "{\"text\": \"" + std::to_string(i * 7919 + f) + "\"}\n";
      }
      const std::string name = format("{}.jsonl.gz", f);
      put(name, f == 6 ? cut_off(gzipped(lines)) : gzipped(lines));
      files.push_back(scratch / name);
    }
    options.window_bytes = 2000;
    options.journal_bytes = 500;
    whole = make({}, "whole").report;
    EXPECT_EQ(whole.troubles[counted::kDamaged], 1);
  }
  NamedShard make(const Shard& shard, const std::string& out, bool overwrite = false,
                  const std::shared_ptr<Ranks>& ranks = nullptr) const {
    TokenizeOptions own = options;
    own.shard = shard;
    own.ranks = ranks;
    return make_shard(files, *test_tokenizer(), scratch / out, own, overwrite);
  }
  std::string bytes(const std::string& out) const {
    return read_file(scratch / (out + ".bin")) + read_file(scratch / (out + ".idx")) +
           read_file(scratch / (out + ".made.json"));
  }
  void expect_whole(const std::string& out) const {
    EXPECT_TRUE(bytes(out) == bytes("whole")) << out;
    EXPECT_FALSE(has(out + ".parts") || has(out + ".journal")) << out;
  }
};

TEST(Tokenize, ShardsAreJoinedToTheBytesOfOneProcess) {
  const SharedCorpus corpus;
  for (const int64_t count : {1, 2, 3, 7, 20}) {
    const std::string out = format("of{}", count);
    for (int64_t index = count; index-- > 0;) {
      EXPECT_EQ(corpus.make({index, count}, out).complete, count == 1);
    }
    EXPECT_TRUE(corpus.make({}, out).complete);
    corpus.expect_whole(out);
  }
}

TEST(Tokenize, WhatShardsHaveNotDoneIsMadeByWhoJoins) {
  const SharedCorpus corpus;
  corpus.make({2, 4}, "out");
  const Error error = error_of([&] { corpus.make({1, 3}, "out"); });
  EXPECT_NE(std::string(error.what()).find("holds the work of 4 shards, not of 3"),
            std::string::npos)
      << error.what();
  // What a shard made was damaged since: it is not taken, and made anew.
  for (const char* name : {"2.bin", "2.idx"}) {
    corpus.make({2, 4}, "out");
    const Path part = corpus.scratch / "out.parts" / name;
    std::string bytes = read_file(part);
    bytes[7] ^= 1;
    write_file(part, bytes);
    EXPECT_EQ(error_of([&] { corpus.make({}, "out"); }).fault(), Fault::data) << name;
  }
  EXPECT_TRUE(corpus.make({}, "out").complete);
  corpus.expect_whole("out");
}

// So many threads at once; what each throws, or nothing.
std::vector<std::string> in_threads(int64_t count, const std::function<void(int64_t)>& work) {
  std::latch begin(count);
  std::vector<std::future<std::string>> all;
  for (int64_t index = 0; index < count; ++index) {
    all.push_back(std::async(std::launch::async, [&, index] {
      begin.arrive_and_wait();
      try {
        work(index);
        return std::string();
      } catch (const std::exception& error) {
        return std::string(error.what());
      }
    }));
  }
  std::vector<std::string> said;
  for (auto& each : all) said.push_back(each.get());
  return said;
}

std::vector<std::string> start_shards(const SharedCorpus& corpus, int64_t count,
                                      const std::string& out) {
  return in_threads(count, [&](int64_t index) { corpus.make({index, count}, out); });
}

TEST(Tokenize, ShardsMayBeginAtTheSameTime) {
  const SharedCorpus corpus;
  for (int round = 0; round < 8; ++round) {
    const std::string out = format("round{}", round);
    EXPECT_EQ(start_shards(corpus, 4, out), Texts(4));
    for (const int part : {1, 2, 3}) EXPECT_TRUE(corpus.has(format("{}.parts/{}.idx", out, part)));
    EXPECT_TRUE(corpus.make({}, out).complete);
    corpus.expect_whole(out);
  }
}

TEST(Tokenize, LeavesThePartsOfAnotherCommandAlone) {
  SharedCorpus corpus;
  corpus.make({2, 4}, "out");
  const std::vector<std::string> names = corpus.scratch.names();
  const std::string part = read_file(corpus.scratch / "out.parts/2.bin");
  corpus.options.append_eos = false;
  for (const Shard& shard : {Shard{0, 4}, Shard{2, 4}, Shard{1, 2}, Shard{}}) {
    const Error error = error_of([&] { corpus.make(shard, "out"); });
    EXPECT_EQ(error.fault(), Fault::usage) << error.what();
    EXPECT_NE(std::string(error.what()).find("out.parts: holds the work"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(error_of([&] {
              ShardRecord::check_settings(corpus.scratch / "out", corpus.options);
            }).fault(),
            Fault::usage);
  EXPECT_EQ(corpus.scratch.names(), names);
  EXPECT_EQ(read_file(corpus.scratch / "out.parts/2.bin"), part);
  corpus.options.append_eos = true;
  EXPECT_TRUE(corpus.make({}, "out").complete);
  corpus.expect_whole("out");
  // Nor are they lost where the shard that they would replace is asked for.
  corpus.options.append_eos = false;
  corpus.make({2, 4}, "other");
  std::filesystem::rename(corpus.scratch / "other.parts", corpus.scratch / "out.parts");
  corpus.options.append_eos = true;
  EXPECT_FALSE(corpus.make({}, "out").made);
  EXPECT_TRUE(corpus.has("out.parts/2.bin"));
  EXPECT_TRUE(corpus.make({}, "out", true).made);
  corpus.expect_whole("out");
}

std::string with_more_text(std::string record) {
  const std::string key = "\"text_bytes\": ";
  return record.insert(record.find(key) + key.size(), "1");
}

TEST(Tokenize, TakesNoCountsThatWereEdited) {
  const SharedCorpus corpus;
  for (const Shard& next : {Shard{2, 4}, Shard{}}) {  // who makes the part anew
    corpus.make({2, 4}, "out");
    const Path record = corpus.scratch / "out.parts/2.made.json";
    write_file(record, with_more_text(read_file(record)));
    corpus.make(next, "out");
  }
  corpus.expect_whole("out");
  const Path record = corpus.scratch / "out.made.json";
  write_file(record, with_more_text(read_file(record)));
  EXPECT_EQ(error_of([&] { corpus.make({}, "out"); }).fault(), Fault::usage);
}

std::vector<std::string> run_ranks(const SharedCorpus& corpus, int64_t count,
                                   const std::string& out, bool overwrite = false) {
  return in_threads(count, [&](int64_t index) {
    const Shard shard{index, count, true};
    const auto ranks =
        std::make_shared<Ranks>(corpus.scratch / (out + ".ranks"), shard, "", kQuickRanks);
    corpus.make(shard, out, overwrite, ranks);
    ranks->gather("the end");
  });
}

TEST(Tokenize, RanksLeaveTheBytesOfOneProcess) {
  const SharedCorpus corpus;
  for (const int64_t count : {2, 4, 12}) {
    const std::string out = format("by{}", count);
    for (const bool overwrite : {false, false, true}) {
      EXPECT_EQ(run_ranks(corpus, count, out, overwrite), Texts(static_cast<size_t>(count)));
      corpus.expect_whole(out);
    }
  }
}

// Stopped by a full disk again and again, with other numbers of ranks, and alone.
TEST(Tokenize, RanksGoOnWhereOthersWereStopped) {
  const SharedCorpus corpus;
  const size_t size = read_file(corpus.scratch / "whole.bin").size();
  for (const size_t percent : {10, 20, 35, 60, 90}) {
    const std::string out = format("stopped{}", percent);
    for (const int64_t count : {3, 3, 1, 2}) {
      const FileLimit limit(1500 + size * percent / 100);
      if (count == 1) {
        error_of([&] { corpus.make({}, out); });
      } else {
        EXPECT_NE(run_ranks(corpus, count, out), Texts(static_cast<size_t>(count)));
      }
    }
    EXPECT_EQ(run_ranks(corpus, 2, out), Texts(2));
    corpus.expect_whole(out);
  }
}

TEST(Tokenize, KnowsAShardThatItMade) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"});
  const std::vector<Path> files = {corpus.scratch / "a.txt"};
  const auto record = [&](const TokenizeOptions& options) {
    return ShardRecord(files, corpus.scratch / "out", options);
  };
  const int64_t vocab = test_tokenizer()->vocab_size();
  EXPECT_EQ(record({}).done(vocab)->report.documents, 1);
  EXPECT_FALSE(record({.append_eos = true}).done(vocab));
  EXPECT_EQ(error_of([&] { record({.append_eos = true}).check_replaceable(); }).fault(),
            Fault::usage);
  corpus.put("a.txt", "two");
  EXPECT_FALSE(record({}).done(vocab));
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  // Killed when the new shard had its name and no record yet.
  corpus.tokenize({"a.txt"});
  std::filesystem::remove(corpus.scratch / "out.made.json");
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  record({}).write_progress({});
  record({}).check_replaceable();
  ShardRecord::check_settings(corpus.scratch / "out", {});
  corpus.tokenize({"a.txt"});
  EXPECT_TRUE(record({}).done(vocab));
  EXPECT_FALSE(std::filesystem::exists(corpus.scratch / "out.journal"));
}

// A second process neither calls it done nor touches what the first one writes.
TEST(Tokenize, AsksWhoseAShardIsWhenNobodyWritesIt) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"});
  for (const char* suffix : {".bin", ".idx", ".made.json"}) {
    std::filesystem::rename(corpus.path(std::string("out") + suffix),
                            corpus.path(std::string("b") + suffix));
  }
  for (const char* suffix : {".bin.partial", ".journal"})
    corpus.put(std::string("b") + suffix, "x");
  const int other = ::open(corpus.path(".b.lock").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  for (const bool overwrite : {false, true}) {
    const Error error = error_of([&] { corpus.make("a.txt", {}, overwrite, "b"); });
    EXPECT_NE(std::string(error.what()).find("another process writes"), std::string::npos);
    EXPECT_TRUE(corpus.has("b.bin.partial") && corpus.has("b.journal"));
  }
  ::close(other);
  EXPECT_FALSE(corpus.make("a.txt", {}, false, "b").made);
  EXPECT_FALSE(corpus.has("b.bin.partial") || corpus.has("b.journal"));
}

TEST(Tokenize, MakesADamagedShardAnew) {
  const Corpus corpus;
  corpus.put("a.txt", "one and two");
  EXPECT_TRUE(corpus.make("a.txt").made);
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  for (const char* name : {"out.bin", "out.idx"}) {
    std::filesystem::resize_file(corpus.scratch / name, 1);
    EXPECT_TRUE(corpus.make("a.txt").made) << name;
    EXPECT_EQ(corpus.documents(), Texts{"one and two"});
  }
  for (const char* record : {"{\"sta", "{}\n", ""}) {
    corpus.put("out.made.json", record);
    EXPECT_NE(corpus.refused("a.txt").find("--overwrite"), std::string::npos);
    EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  }
}

TEST(Tokenize, LeavesTokensOfOthersAlone) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.put("out.bin", "not ours");
  EXPECT_NE(corpus.refused("a.txt").find("out.bin: exists"), std::string::npos);
  EXPECT_EQ(read_file(corpus.scratch / "out.bin"), "not ours");
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
}

TEST(Tokenize, LeavesAnotherCommandsProgressAlone) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.record("a.txt", {.append_eos = true}).write_progress({});
  const std::string journal = read_file(corpus.scratch / "out.journal");
  const std::string said = corpus.refused("a.txt");
  EXPECT_NE(said.find("did not end | repeat the command"), std::string::npos) << said;
  EXPECT_EQ(error_of([&] { ShardRecord::check_settings(corpus.scratch / "out", {}); }).fault(),
            Fault::usage);
  EXPECT_EQ(read_file(corpus.scratch / "out.journal"), journal);
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  // Nor is it lost where the shard that it would replace is asked for.
  corpus.record("a.txt", {.append_eos = true}).write_progress({});
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_EQ(read_file(corpus.scratch / "out.journal"), journal);
}

// Killed when the tokens had their name, then again before the first new journal.
TEST(Tokenize, KeepsItsNameThroughTwoKills) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  corpus.put("out.bin", "tokens");
  ShardProgress at;
  at.report.documents = at.report.tokens = 1;
  const ShardRecord record = corpus.record("a.txt");
  record.write_progress(at);
  EXPECT_EQ(record.begin(test_tokenizer()->vocab_size()).at.report.documents, 0);
  record.check_replaceable();
  EXPECT_TRUE(corpus.make("a.txt").made);
  EXPECT_EQ(corpus.documents(), Texts{"one"});
}

TEST(Tokenize, AFullDiskLeavesTheShardThatWasThereAndItsRecord) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a\n";
  corpus.put("b.txt", lines);
  corpus.make("a.txt");
  const Error error = error_of([&] {
    const FileLimit limit(10'000);  // enough for the tokens, not for their index
    corpus.make("b.txt", {.split = TextSplit::line}, true);
  });
  EXPECT_EQ(error.fault(), Fault::data) << error.what();
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_EQ(corpus.documents(), Texts{"one"});
}

TEST(Tokenize, TakesAwayFilesThatAKillLeftUnnamed) {
  const Corpus corpus;
  corpus.put("a.txt", "one");
  for (const char* name : {".out.idx.12-0.tmp", ".out.made.json.7-1.tmp", ".out.journal.7-2.tmp",
                           ".out2.idx.1-0.tmp", ".out.idx.mine.tmp"}) {
    corpus.put(name, "x");
  }
  corpus.make("a.txt");
  EXPECT_EQ(corpus.scratch.names(), (Texts{".out.idx.mine.tmp", ".out.lock", ".out2.idx.1-0.tmp",
                                           "a.txt", "out.bin", "out.idx", "out.made.json"}));
}

}  // namespace
}  // namespace tephra
