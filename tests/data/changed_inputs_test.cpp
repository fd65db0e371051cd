// SPDX-License-Identifier: Apache-2.0
// Files that change between the passes of a stage: never fewer or other documents without a word.
// Sizes and times stay, so that nothing but the passes themselves can notice.
#include <gtest/gtest.h>

#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/dedup/substring_dedup.h"
#include "tephra/data/mix/mix_corpus.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

using RunShard = std::function<StageRun(std::span<const CorpusFile>, const StageSettings&)>;

std::string one_line(int number) {
  return "{\"text\":\"a line of its own words, number " + std::to_string(number) + "\"}\n";
}

// Of the size by which a file is known again: both ends.
const std::string kEnd = std::string(5000, ' ') + "\n";

void replace_unseen(const Path& path, const std::string& text) {
  std::string all = kEnd + text;
  all.resize(std::filesystem::file_size(path) - kEnd.size(), ' ');
  write_file(path, all + kEnd);
}

// The first pass reads both files, then one of them changes, then a later pass reads it.
void expect_noticed(const std::string& later, OnError on_error, const RunShard& run) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  std::string many;
  for (int i = 0; i < 40; ++i) many += one_line(i);
  write_file(scratch / "in" / "a.jsonl", kEnd + many + std::string(4000, ' ') + "\n" + kEnd);
  write_file(scratch / "in" / "b.jsonl", one_line(50));
  const auto files = corpus_files(std::vector<std::string>{(scratch / "in").string()});
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = on_error;
  stage.shard = {0, 2};
  EXPECT_FALSE(run(files, stage).complete);
  stage.shard = {1, 2};
  EXPECT_FALSE(run(files, stage).complete);
  replace_unseen(scratch / "in" / "a.jsonl", later);
  stage.shard = {0, 2};
  const Error error = error_of([&] {
    for (int passes = 0; passes < 3; ++passes) run(files, stage);
    stage.shard = {};
    run(files, stage);
  });
  EXPECT_EQ(error.fault(), Fault::data) << error.what();
  EXPECT_NE(std::string(error.what()).find("changed while"), std::string::npos) << error.what();
  EXPECT_FALSE(std::filesystem::exists(scratch / "out" / "report.json"));
}

TEST(ChangedInputs, EndEveryStageOfTwoPasses) {
  const std::vector<std::pair<std::string, RunShard>> stages = {
      {"documents",
       [](auto files, const auto& stage) {
         DedupOptions options;
         options.preset = signature_preset("native");
         return dedup_corpus(files, options, stage);
       }},
      {"lines", [](auto files, const auto& stage) { return dedup_lines(files, {}, stage); }},
      {"substrings",
       [](auto files, const auto& stage) { return dedup_substrings(files, {}, stage); }},
      {"mix", [](auto files, const auto& stage) {
         MixOptions options;
         options.weights["in"] = 1;
         return mix_corpus(files, options, stage);
       }}};
  std::string longer;
  for (int i = 0; i < 60; ++i) longer += one_line(i);
  for (const auto& [name, run] : stages) {
    for (const OnError on_error : {OnError::stop, OnError::skip}) {
      SCOPED_TRACE(name);
      expect_noticed("", on_error, run);                  // all is gone
      expect_noticed(one_line(7) + "\n", on_error, run);  // most of it
      expect_noticed(longer, on_error, run);              // it has grown
    }
  }
}

}  // namespace
}  // namespace tephra
