// SPDX-License-Identifier: Apache-2.0
// The files of a corpus and how threads share them; the text of a line; counts.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/side_by_side.h"
#include "tephra/data/corpus/stage.h"
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

}  // namespace
}  // namespace tephra
