// SPDX-License-Identifier: Apache-2.0
// What a journal of answers keeps of a run that was killed.
#include "tephra/eval/answer_journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tephra/base/error.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/eval/attempt_journal.h"
#include "tests/support/file_limit.h"
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

TEST(AnswerJournals, LetGoOfWhatIsTaken) {
  const Scratch scratch;
  const Path path = scratch / "j";
  { AnswerJournal(path, kSettings, false).add(Json::Object{{"number", 1}}); }
  {
    AnswerJournal journal(path, kSettings, false);
    std::string taken;
    journal.take_found([&](const Json& line, const std::string&) { taken += line.dump(); });
    EXPECT_EQ(taken, R"({"number":1})");
    EXPECT_TRUE(journal.found().empty());
    EXPECT_EQ(journal.size(), 1);
  }
  EXPECT_EQ(found_in(path).size(), 1u);
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

// The fault and the text of the error; "no error" when all is well.
std::string refused(const Path& path, bool overwrite = false) {
  try {
    AnswerJournal(path, kSettings, overwrite);
  } catch (const Error& error) {
    return format("{}: {}", exit_code(error.fault()), error.what());
  }
  return "no error";
}

TEST(AnswerJournals, NameADamagedLineAndKeepTheOthers) {
  const Scratch scratch;
  const Path path = scratch / "j";
  {
    AnswerJournal journal(path, kSettings, false);
    for (int i = 0; i < 3; ++i) journal.add(Json::Object{{"number", i}});
  }
  const std::string whole = read_file(path);
  std::string damaged = whole;
  damaged[whole.find("\"number\":1") + 9] = '7';
  write_file(path, damaged);
  EXPECT_EQ(refused(path), format("3: {}:3: is damaged: its hash is another", path.string()));
  EXPECT_EQ(read_file(path), damaged);
  // Without that line the others count.
  const size_t begin = whole.find('\n', whole.find("\"number\":0")) + 1;
  write_file(path, whole.substr(0, begin) + whole.substr(whole.find('\n', begin) + 1));
  EXPECT_EQ(found_in(path).size(), 2u);

  damaged = whole;
  damaged[whole.find("\"seed\":1") + 7] = '2';
  write_file(path, damaged);
  EXPECT_EQ(refused(path), format("3: {}:1: is damaged: its hash is another", path.string()));
  EXPECT_EQ(read_file(path), damaged);
  EXPECT_EQ(refused(path, true), "no error");
}

TEST(AnswerJournals, WithoutTheirHeadAreReplacedWhenAsked) {
  const Scratch scratch;
  const Path path = scratch / "j";
  {
    AnswerJournal journal(path, kSettings, false);
    for (int i = 0; i < 3; ++i) journal.add(Json::Object{{"number", i}});
  }
  const std::string whole = read_file(path);
  const size_t head = whole.find('\n') + 1;
  for (const std::string& left :
       {whole.substr(head), "##" + whole.substr(60), std::string(head, '\0') + whole.substr(head),
        std::string(whole.size(), '\0')}) {
    write_file(path, left);
    EXPECT_EQ(refused(path), format("3: {}:1: is not the head of a journal", path.string()));
    EXPECT_EQ(read_file(path), left);
    { AnswerJournal(path, kSettings, true).add(Json::Object{{"number", 7}}); }
    EXPECT_EQ(found_in(path), std::vector<std::string>{R"({"number":7})"});
  }
}

TEST(AnswerJournals, ReplaceNothingBeforeTheFirstAnswer) {
  const Scratch scratch;
  const Path path = scratch / "j";
  const Json other = Json::Object{{"seed", 2}};
  { AnswerJournal(path, kSettings, false).add(Json::Object{{"number", 0}}); }
  const std::string whole = read_file(path);
  { const AnswerJournal refused_later(path, other, true); }
  EXPECT_EQ(read_file(path), whole);
  std::string damaged = whole;
  damaged[whole.find("\"number\":0") + 9] = '7';
  write_file(path, damaged);
  { const AnswerJournal refused_later(path, kSettings, true); }
  EXPECT_EQ(read_file(path), damaged);
  { AnswerJournal(path, other, true).add(Json::Object{{"number", 5}}); }
  { EXPECT_EQ(AnswerJournal(path, other, false).found()[0].dump(), R"({"number":5})"); }
}

TEST(AnswerJournals, SayWhatAFullDiskKeepsInMemory) {
  const Scratch scratch;
  const Path path = scratch / "j";
  {
    AnswerJournal journal(path, kSettings, false);
    EXPECT_EQ(journal.unwritten(), 0);
    journal.add(Json::Object{{"number", 0}});
    {
      const FileLimit limit(std::filesystem::file_size(path) + 10);
      for (int i = 1; i < 4; ++i) journal.add(Json::Object{{"number", i}});
      EXPECT_EQ(journal.unwritten(), 3);  // one of them in part
    }
    EXPECT_EQ(journal.unwritten(), 0);
    EXPECT_EQ(journal.size(), 4);
  }
  EXPECT_EQ(found_in(path).size(), 4u);
}

TEST(AnswerJournals, MustSayTheirSettings) {
  const Scratch scratch;
  const Path path = scratch / "j";
  for (const char* head :
       {R"({"format":"tephra-answers"})", R"({"format":"tephra-answers","settings":[]})"}) {
    write_file(path, hashed_line(head) + hashed_line(R"({"number":0})"));
    EXPECT_EQ(refused(path), format("3: {}:1: has no settings", path.string()));
  }
}

TEST(AnswerJournals, AskForResultsOnlyWhereThereAreNoAnswers) {
  const Scratch scratch;
  const Path path = scratch / "j";
  int asked = 0;
  const auto ended = [&] {
    ++asked;
    EXPECT_NE(refused(path).find("another process writes it"), std::string::npos);
    throw Error(Fault::usage, "results are there");
  };
  for (const std::string& left : {std::string(), hashed_line(R"({"format":"tephra-answers",)"
                                                             R"("settings":{"seed":2}})")}) {
    write_file(path, left);
    EXPECT_EQ(message_of([&] { AnswerJournal(path, kSettings, false, ended); }),
              "results are there");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(asked, 2);
  { AnswerJournal(path, kSettings, true, ended).add(Json::Object{{"number", 0}}); }
  { AnswerJournal(path, kSettings, false, ended); }
  EXPECT_EQ(asked, 2);
}

TEST(AnswerJournals, RefuseAttemptsThatCannotBe) {
  const Scratch scratch;
  const Path path = scratch / "j";
  const auto line = [](int problem, int tokens) {
    return Json::Object{{"group", "g"},        {"problem", problem}, {"sample", 0},
                        {"completion", "yes"}, {"tokens", tokens},   {"finish", "eos"}};
  };
  const auto said = [&](const Json& second, bool overwrite = false) {
    std::filesystem::remove(path);
    {
      AnswerJournal journal(path, kSettings, false);
      journal.add(line(0, 1));
      journal.add(second);
    }
    return message_of([&] {
      const AttemptJournal journal(path, kSettings, overwrite);
      EXPECT_EQ(journal.known("g"), overwrite ? 0 : 2);
      EXPECT_EQ(journal.lines().size(), overwrite ? 0 : 2);
    });
  };
  EXPECT_EQ(said(line(1, 1)), "no error");
  EXPECT_EQ(said(line(1, -1)), path.string() + ":3: expected no negative numbers");
  EXPECT_EQ(said(line(-1, 1)), path.string() + ":3: expected no negative numbers");
  EXPECT_EQ(said(line(0, 1)), path.string() + ":3: this attempt is there already");
  EXPECT_EQ(said(line(0, 1), true), "no error");  // it begins anew
  EXPECT_EQ(found_in(path).size(), 2u);           // with its first answer
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
