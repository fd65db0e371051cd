// SPDX-License-Identifier: Apache-2.0
// What a journal of answers keeps of a run that was killed.
#include "tephra/eval/answer_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const Json kSettings = Json::Object{{"seed", 1}, {"model", "a"}};

std::vector<std::string> found_in(const Path& path) {
  const AnswerJournal journal(path, kSettings, false);
  std::vector<std::string> all;
  for (const Json& line : journal.found()) all.push_back(line.dump());
  return all;
}

TEST(AnswerJournals, KeepWholeLinesWhereverTheFileWasCut) {
  const Scratch scratch;
  const Path path = scratch / "j";
  {
    AnswerJournal journal(path, kSettings, false);
    for (int i = 0; i < 3; ++i) journal.add(Json::Object{{"text", "a\nb"}, {"number", i}});
  }
  const std::string whole = read_file(path);
  size_t lines = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    lines += size > 0 && whole[size - 1] == '\n' ? 1 : 0;
    const auto found = found_in(path);
    ASSERT_EQ(found.size(), lines > 0 ? lines - 1 : 0) << size;
    for (const std::string& line : found) {
      EXPECT_TRUE(line.starts_with(R"({"text":"a\nb","number":)")) << line;
    }
  }
  EXPECT_EQ(lines, 4u);
  // And it goes on there.
  write_file(path, whole.substr(0, whole.size() - 5));
  { AnswerJournal(path, kSettings, false).add(Json::Object{{"text", "a\nb"}, {"number", 2}}); }
  EXPECT_EQ(read_file(path), whole);
}

TEST(AnswerJournals, AreOfOneRunAlone) {
  const Scratch scratch;
  const Path path = scratch / "j";
  const Json other = Json::Object{{"seed", 2}, {"model", "a"}, {"n", 3}};
  {
    AnswerJournal journal(path, kSettings, false);
    EXPECT_NE(message_of([&] {
                AnswerJournal(path, kSettings, false);
              }).find("another process writes it"),
              std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(path));  // it had no answers
  { AnswerJournal(path, kSettings, false).add(Json::Object{{"number", 0}}); }
  EXPECT_NE(message_of([&] {
              AnswerJournal(path, other, false);
            }).find("has not ended: seed was 1 and is 2, n was not given and is 3"),
            std::string::npos);
  EXPECT_EQ(found_in(path).size(), 1u);
  { EXPECT_EQ(AnswerJournal(path, kSettings, true).found().size(), 1u); }  // nothing to replace
  { EXPECT_TRUE(AnswerJournal(path, other, true).found().empty()); }
  write_file(path, "a diary\n");
  for (const bool overwrite : {false, true}) {
    EXPECT_NE(message_of([&] {
                AnswerJournal(path, kSettings, overwrite);
              }).find("was not written by this command"),
              std::string::npos);
  }
  EXPECT_EQ(read_file(path), "a diary\n");
}

TEST(AnswerJournals, KnowAModelByItsFiles) {
  const Scratch scratch;
  write_file(scratch / "config.json", "{}");
  const std::string before = mark_of_model(scratch / ".");
  write_file(scratch / "notes.txt", "mine");
  EXPECT_EQ(mark_of_model(scratch / "."), before);
  write_file(scratch / "model.safetensors", "weights");
  EXPECT_NE(mark_of_model(scratch / "."), before);
}

TEST(AnswerJournals, KnowOtherWeightsOfTheSameSize) {
  const Scratch scratch;
  for (const size_t size : {size_t{100'000}, size_t{9} << 20}) {
    std::string weights(size, 'a');
    write_file(scratch / "model.safetensors", weights);
    const std::string before = mark_of_model(scratch / ".");
    EXPECT_EQ(mark_of_model(scratch / "."), before);
    std::fill(weights.begin() + 20'000, weights.end() - 20'000, 'b');
    write_file(scratch / "model.safetensors", weights);
    EXPECT_NE(mark_of_model(scratch / "."), before) << size;
  }
}

}  // namespace
}  // namespace tephra
