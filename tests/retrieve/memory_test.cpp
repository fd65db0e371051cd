// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/memory.h"

#include <gtest/gtest.h>

#include <random>

#include "tephra/retrieve/memory/memory_tool.h"
#include "tephra/retrieve/memory/stem.h"
#include "tests/retrieve/sample_memory.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

TEST(Memory, BeginsASessionAfterTwentyMinutesOfSilence) {
  Memory memory;
  memory.add({said("2023-01-01T10:00:00", 0, "Ann", "a"),
              said("2023-01-01T10:20:00", 0, "Ben", "b"),
              said("2023-01-01T10:40:01", 0, "Ann", "c")});
  EXPECT_EQ(memory.table().session(0), 1);
  EXPECT_EQ(memory.table().session(1), 1);
  EXPECT_EQ(memory.table().session(2), 2);
}

TEST(Memory, AClockThatRunsBackwardsIsRefusedOrHeld) {
  const Scratch scratch;
  Memory memory = Memory::open_to_add(scratch / "a.tmem");
  memory.add({said("2023-01-02T10:00:00", 0, "Ann", "a")});
  const Turn early = said("2023-01-01T10:00:00", 0, "Ben", "b");
  const Error error = error_of([&] { memory.add({early}); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_STREQ(error.what(),
               "time: the clock runs backwards: the turn before is from 2023-01-02T10:00:00, this "
               "one from 2023-01-01T10:00:00");
  EXPECT_EQ(memory.table().rows(), 1);
  memory.add({early}, BackwardsClock::clamp);
  EXPECT_EQ(time_text(memory.table().time(1)), "2023-01-02T10:00:00");
  EXPECT_EQ(Memory::open_to_read(scratch / "a.tmem").table().rows(), 2);
}

TEST(Memory, RefusesTurnsItCannotKeepAndKeepsNoneOfThem) {
  Memory memory;
  const auto problem = [&](Turn turn) {
    return std::string(error_of([&] {
                         memory.add({said("2023-01-01", 0, "Ann", "fine"), std::move(turn)});
                       }).what());
  };
  EXPECT_EQ(problem(said("2023-01-01", 0, "Ann", "")),
            "turn 2: text: expected some text, got none");
  EXPECT_EQ(problem(said("2023-01-01", 0, "Ann", "caf\xe9")),
            "turn 2: text: expected UTF-8, byte 3 is not; convert it first");
  EXPECT_EQ(problem({0, 0, "Ann", "x"}),
            "turn 2: time: the clock runs backwards: the turn before is from 2023-01-01T00:00:00, "
            "this one from 1970-01-01T00:00:00");
  Turn giant = said("2023-01-01", 0, "Ann", "");
  giant.text.assign(TurnTable::kMaxTextBytes + 1, 'a');
  EXPECT_EQ(problem(giant),
            "turn 2: text: expected at most 4194304 bytes, got 4194305; cut it into several turns");
  EXPECT_EQ(memory.table().rows(), 0);
}

TEST(Memory, AnEmptyOneSaysSo) {
  Memory memory;
  EXPECT_STREQ(error_of([&] { memory.query({.question = "What did we say?"}); }).what(),
               "memory: it holds no turns yet; add some first");
}

TEST(Memory, SaysThatThereIsNoSuchDate) {
  Memory memory = sample_memory();
  const MemoryAnswer answer = memory.query({.question = "What did we discuss on February 30th?"});
  EXPECT_TRUE(answer.rows.empty());
  ASSERT_EQ(answer.explanation.size(), 1u);
  EXPECT_EQ(answer.explanation[0], "'February 30th': there is no such date");
  for (const std::string& date :
       std::vector<std::string>{"2023-13-45", "2023-02-30", "2023-00-10", "2023-10-00"}) {
    const MemoryAnswer none = memory.query({.question = "What did we discuss on " + date + "?"});
    EXPECT_EQ(none.explanation[0], "'" + date + "': there is no such date");
    EXPECT_TRUE(none.rows.empty());
  }
  const MemoryAnswer seal = memory.query({.question = "What about the seal on February 30th?"});
  EXPECT_EQ(seal.rows.at(0).row, 6) << "the subject is looked for all the same";
}

TEST(Memory, TakesTheTimeFromTheTurnsBefore) {
  Memory memory = sample_memory();
  MemoryQuery query{.question = "Yes, please do.",
                    .before = {{"Ann", "I was thinking of our third session."},
                               {"Ben", "I remember it. Shall I summarize it?"}}};
  EXPECT_EQ(chain_text(memory.query(query)), "f_value(session, [3])");
  query.question = "And the session after that?";
  EXPECT_EQ(chain_text(memory.query(query)), "f_value(session, [4])");
  query.before = {{"Ann", "We spoke on March 5th."}, {"Ben", "We did."}};
  query.question = "What did Ann say about the lighthouse then?";
  const MemoryAnswer answer = memory.query(query);
  EXPECT_EQ(chain_text(answer), "f_value(date, [2023-03-05])");
  EXPECT_TRUE(answer.ranked);
  query.question = "What about the tulips?";  // a subject of its own, and nothing points back
  EXPECT_EQ(chain_text(memory.query(query)), "");
  query.before = {{"Ann", "I miss the telescope."}, {"Ben", "Me too."}};
  query.question = "What did we say about it?";
  EXPECT_EQ(rows_of(memory.query(query)).at(0), 7);
}

TEST(Memory, SearchesContentAmongTheRowsThatTimeLeaves) {
  Memory memory = sample_memory();
  const MemoryAnswer everywhere = memory.query({.question = "Who baked bread with walnuts?"});
  EXPECT_TRUE(everywhere.ranked);
  EXPECT_EQ(rows_of(everywhere).at(0), 3);
  const MemoryAnswer recent =
      memory.query({.question = "What did Ben say about bread two days ago?"});
  EXPECT_EQ(rows_of(recent).at(0), 10);
  EXPECT_EQ(recent.explanation.at(0),
            "'two days ago' is f_between(timestamp, [2023-10-19T12:01:01, 2023-10-20T12:01:00]): 2 "
            "of 15 turns");
}

TEST(Memory, LetsADateGoBeforeWhatItIsToldAbout) {
  Memory memory = sample_memory();
  const MemoryAnswer answer = memory.query(
      {.question =
           "What instrument did Ann begin to play a year ago, as told on January 5, 2023?"});
  EXPECT_EQ(chain_text(answer), "f_value(date, [2023-01-05])");
}

TEST(Memory, SaysWhenNothingWasSaidThen) {
  Memory memory = sample_memory();
  const MemoryAnswer answer = memory.query({.question = "What did we talk about on June 1?"});
  EXPECT_TRUE(answer.rows.empty());
  EXPECT_EQ(
      answer.explanation.at(0),
      "'June 1' is f_value(date, [2023-06-01]): no turns; the day before it is 2023-03-05, the "
      "day after it 2023-09-14");
}

TEST(Memory, KnowsTheSessionItIsAskedIn) {
  Memory memory = sample_memory();
  const MemoryAnswer stored =
      memory.query({.question = "What did we say last time?", .session = 7});
  EXPECT_EQ(chain_text(stored), "f_value(session, [6])");
}

TEST(Memory, FindsTheSameWithAndWithoutTheIndex) {
  std::mt19937 random(3);
  Memory memory;
  std::vector<Turn> turns;
  for (int64_t i = 0; i < 3 * TurnIndex::kReadRows; ++i) {
    std::string text;
    for (int w = 0; w < 8; ++w) text += format("w{} ", random() % (1u << (random() % 12)));
    turns.push_back(
        {i * 5, static_cast<int32_t>(1 + i / 50), random() % 2 == 0 ? "Ann" : "Ben", text});
  }
  memory.add(turns);
  TurnIndex index;
  const TurnTable& table = memory.table();
  for (int round = 0; round < 20; ++round) {
    const auto begin = static_cast<int64_t>(random() % 1000);
    const RowSet few = {{begin, begin + 300}, {begin + 400, begin + 1200}};
    const TurnSearch search{{"w1", format("w{}", random() % 50), "w500"}, "Ann", 12};
    const std::vector<ScoredRow> read = index.search(table, few, search);
    ASSERT_FALSE(read.empty());
    ASSERT_EQ(read, index.search(table, few, search, /*read_rows=*/0));
  }
}

TEST(Memory, ModelsMayCallTheOperators) {
  Memory memory = sample_memory();
  const Json definition = memory_tool_definition();
  EXPECT_EQ(definition.find("function")->find("name")->string(), kMemoryToolName);
  const Json result =
      call_memory_tool(memory, Json::parse(R"({"chain": [{"op": "f_between", "column": "date",
                                         "values": ["2023-03-01", "2023-03-31"]},
                                        {"op": "f_value", "column": "speaker", "values": ["Ann"]}]})",
                                           "call"));
  ASSERT_EQ(result.find("error"), nullptr);
  EXPECT_EQ(result.find("turns")->array().size(), 2u);
  const Json asked =
      call_memory_tool(memory, Json::parse(R"({"question": "in session 4?"})", "call"));
  EXPECT_EQ(asked.find("found")->integer(), 2);
  const Json wrong = call_memory_tool(memory, Json::parse(R"({"chain": 3})", "call"));
  EXPECT_EQ(wrong.find("error")->string(),
            "arguments: chain: expected a list of operators, got an integer");
}

TEST(Stem, TakesEndingsOff) {
  EXPECT_EQ(stem("adopted"), stem("adopting"));
  EXPECT_EQ(stem("hiking"), stem("hike"));
  EXPECT_EQ(stem("running"), stem("run"));
  EXPECT_EQ(stem("stories"), stem("story"));
  EXPECT_EQ(stem("dress"), stem("dresses"));
  EXPECT_NE(stem("sing"), stem("s"));
  EXPECT_EQ(stem("caf\xc3\xa9"), "caf\xc3\xa9");
}

}  // namespace
}  // namespace tephra
