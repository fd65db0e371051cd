// SPDX-License-Identifier: Apache-2.0
// Text files to tokens: what is read, what is left out, and that neither threads nor a stop in the
// middle changes a byte.
#include <gtest/gtest.h>

#include "tephra/base/parallel.h"
#include "tests/data/token_corpus.h"
#include "tests/support/compress.h"
#include "tests/support/file_limit.h"

namespace tephra {
namespace {

using Texts = std::vector<std::string>;

TEST(Tokenize, TakesTheTextOfJsonLines) {
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
  corpus.put("a.txt", "one\ntwo\n\n \nthree\n");
  corpus.tokenize({"a.txt"});
  EXPECT_EQ(corpus.documents(), Texts{"one\ntwo\n\n \nthree\n"});
  corpus.tokenize({"a.txt"}, {.split = TextSplit::paragraph});
  EXPECT_EQ(corpus.documents(), (Texts{"one\ntwo", "three"}));
  corpus.tokenize({"a.txt"}, {.split = TextSplit::line});
  EXPECT_EQ(corpus.documents(), (Texts{"one", "two", " ", "three"}));
}

TEST(Tokenize, AddsTheTokensThatWereAskedFor) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"}, {.prepend_bos = true, .append_eos = true});
  EXPECT_EQ(corpus.documents(true), Texts{"<bos> one<eos>"}) << "the decoder puts the space";
}

TEST(Tokenize, TakesFoldersByName) {
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
  for (const char* name : {"a.warc", "b.warc"}) corpus.put(name, page("one") + missing_page());
  const TokenizeReport report = corpus.tokenize({"a.warc", "b.warc"});
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.troubles["left_out.status"], 2);
}

TEST(Tokenize, SaysWhereABadDocumentIs) {
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
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
  const TokenCorpus corpus;
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

}  // namespace
}  // namespace tephra
