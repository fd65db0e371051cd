// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tephra/base/parallel.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/tokenize.h"
#include "tephra/io/token_shard.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/compress.h"
#include "tests/support/error_of.h"

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
  EXPECT_EQ(report.left_out, (LeftOut{{"status", 2}}));
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
  EXPECT_EQ(corpus.scratch.names(), Texts{"a.jsonl"}) << "nothing is left behind";
  const TokenizeReport report = corpus.tokenize({"a.jsonl"}, {.skip_bad = true});
  EXPECT_EQ(report.bad, 4);
  EXPECT_EQ(report.first_bad,
            corpus.path("a.jsonl") + ":2: key 'text': expected a string, got a number");
  EXPECT_EQ(corpus.documents(), (Texts{"one", "t"}));
  corpus.put("b.txt", "\xff\xfe");
  EXPECT_EQ(std::string(error_of([&] { corpus.tokenize({"b.txt"}); }).what()),
            corpus.path("b.txt") + ":1: expected UTF-8 text, got other bytes");
  corpus.put("c.md", "x");
  EXPECT_EQ(error_of([&] { corpus.tokenize({"c.md"}); }).fault(), Fault::usage);
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

// Journals after every few documents; the work is stopped by a document that is not there yet.
TEST(Tokenize, GoesOnInsideAFileWithTheSameBytes) {
  const Corpus corpus;
  std::string first, second, crawl;
  for (int i = 0; i < 300; ++i) {
    (i % 2 ? first : second) += "{\"text\": \"document " + std::to_string(i * 7919) + "\"}\n\n";
    if (i % 10 == 0) crawl += page("page " + std::to_string(i)) + missing_page();
  }
  for (const char* name : {"0.warc", "bb.warc"}) corpus.put(name, crawl);
  corpus.put("a.jsonl.gz", gzipped(first));
  corpus.put("b.jsonl", second);
  corpus.put("c.txt", "one\n\ntwo\n\nthree\n");
  TokenizeOptions options{.split = TextSplit::paragraph};
  options.window_bytes = 2000;
  options.journal_bytes = 500;
  const std::vector<std::string> inputs = {"0.warc", "a.jsonl.gz", "b.jsonl", "bb.warc", "c.txt"};
  const TokenizeReport whole = corpus.tokenize(inputs, options, "whole");
  EXPECT_EQ(whole.left_out, (LeftOut{{"status", 60}}));
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
    // A limit on the size of files ends the run somewhere, as a full disk would.
    const size_t size = read_file(corpus.scratch / "whole.bin").size();
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit = {600 + size * static_cast<size_t>(stop) / 12, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Error error = error_of([&] { corpus.tokenize(inputs, options, out); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    EXPECT_FALSE(std::filesystem::exists(corpus.scratch / (out + ".idx")));
    const ShardRecord record(files, corpus.scratch / out, options);
    if (std::filesystem::exists(corpus.scratch / (out + ".journal"))) {
      const ShardProgress at = record.begin(vocab);
      EXPECT_GT(at.report.documents, 0);
      went_on += at.report.documents;
    }
    const TokenizeReport rest = corpus.tokenize(inputs, options, out);
    EXPECT_EQ(rest.tokens, whole.tokens) << stop;
    EXPECT_EQ(rest.empty, whole.empty) << stop;
    EXPECT_EQ(rest.left_out, whole.left_out) << stop;
    EXPECT_TRUE(bytes(out) == bytes("whole")) << stop;
  }
  EXPECT_GT(went_on, 600);
  for (const std::string& name : corpus.scratch.names()) {
    EXPECT_EQ(name.find("partial"), std::string::npos) << name;
    EXPECT_EQ(name.find("journal"), std::string::npos) << name;
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
  EXPECT_EQ(record({}).done()->documents, 1);
  EXPECT_FALSE(record({.append_eos = true}).done());
  EXPECT_EQ(error_of([&] { record({.append_eos = true}).check_replaceable(); }).fault(),
            Fault::usage);
  corpus.put("a.txt", "two");
  EXPECT_FALSE(record({}).done());
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  // Killed when the new shard had its name and no record yet.
  corpus.tokenize({"a.txt"});
  std::filesystem::remove(corpus.scratch / "out.made.json");
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  record({}).write_progress({});
  record({}).check_replaceable();
  ShardRecord::check_settings(corpus.scratch / "out", {});
  corpus.tokenize({"a.txt"});
  EXPECT_TRUE(record({}).done());
  EXPECT_FALSE(std::filesystem::exists(corpus.scratch / "out.journal"));
}

}  // namespace
}  // namespace tephra
