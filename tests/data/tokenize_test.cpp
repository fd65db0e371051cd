// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/base/parallel.h"
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

TEST(Tokenize, CountsWhatReadersLeaveOut) {
  const Corpus corpus;
  const auto record = [](const std::string& type, const std::string& body) {
    return "WARC/1.0\r\nWARC-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body + "\r\n\r\n";
  };
  const std::string page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>one";
  for (const char* name : {"a.warc", "b.warc"}) {
    corpus.put(name, record("response", page) + record("response", "HTTP/1.1 404 No\r\n\r\n"));
  }
  const TokenizeReport report = corpus.tokenize({"a.warc", "b.warc"});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.left_out, (std::map<std::string, int64_t>{{"status", 2}}));
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

}  // namespace
}  // namespace tephra
