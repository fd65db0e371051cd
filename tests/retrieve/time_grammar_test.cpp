// SPDX-License-Identifier: Apache-2.0
// Questions and the chains they become, asked of the sample memory on Sunday 2023-10-22 at 12:01.
#include <gtest/gtest.h>

#include "tests/retrieve/sample_memory.h"

namespace tephra {
namespace {

struct Case {
  const char* question;
  const char* chain;
};

void expect_chains(std::initializer_list<Case> cases) {
  Memory memory = sample_memory();
  for (const Case& c : cases) {
    const MemoryAnswer answer = memory.query({.question = c.question});
    EXPECT_EQ(chain_text(answer), c.chain) << c.question;
  }
}

TEST(TimeGrammar, ReadsDatesInEveryUsualWriting) {
  const char* march = "f_value(date, [2023-03-05])";
  expect_chains({
      {"What did we discuss on March 5?", march},
      {"what did we discuss march 5th", march},
      {"What did we discuss on the 5th of March, 2023?", march},
      {"What did we discuss on the fifth of March?", march},
      {"What did we discuss on March the fifth?", march},
      {"What did we discuss on 5 Mar 2023?", march},
      {"What did we discuss on Mar. 5, 2023?", march},
      {"What did we discuss on Sunday, March 5?", march},
      {"What did we discuss on Sunday the 5th of March?", march},
      {"What did we discuss on 2023-03-05?", march},
      {"What did we discuss on 2023/3/5?", march},
      {"What did we discuss on 3/5/2023?", march},
      {"What did we discuss on 5/3/2023?", march},
      {"What did we discuss on 5.3.2023?", march},
      {"What did we discuss on 5-Mar-2023?", march},
      {"What did we discuss on Mrach 5th?", march},
      {"What did we discuss on Janurary fifth?", "f_value(date, [2023-01-05])"},
      {"What did we discuss on Dec 20?", "f_value(date, [2022-12-20])"},
      {"What did we discuss on the twentieth?", "f_value(date, [2023-10-20])"},
      {"What did we discuss the day before March 6th?", march},
      {"What did we discuss two days after March 3?", march},
      {"What did we discuss in the week of March 3?", "f_between(date, [2023-02-27, 2023-03-05])"},
  });
}

TEST(TimeGrammar, ReadsMonthsAndYears) {
  expect_chains({
      {"What did we discuss in March?", "f_value(month, [2023-03])"},
      {"What did we discuss in December?", "f_value(month, [2022-12])"},
      {"What did we discuss during Sept 2023?", "f_value(month, [2023-09])"},
      {"What did we discuss in 2023-09?", "f_value(month, [2023-09])"},
      {"What did we discuss in Septmber?", "f_value(month, [2023-09])"},
      {"What did we discuss in March and in September?", "f_value(month, [2023-03, 2023-09])"},
      {"What did we discuss in early March?", "f_between(date, [2023-03-01, 2023-03-10])"},
      {"What did we discuss in 2022?", "f_between(date, [2022-01-01, 2022-12-31])"},
      {"What did we discuss last year?", "f_between(date, [2022-01-01, 2022-12-31])"},
      {"What did we discuss last winter?", "f_between(month, [2022-12, 2023-02])"},
      {"What did we discuss in December last year?", "f_value(month, [2022-12])"},
  });
}

TEST(TimeGrammar, ReadsSpans) {
  const char* span = "f_between(date, [2022-12-20, 2023-03-05])";
  expect_chains({
      {"What did we discuss between December 20 and March 5?", span},
      {"What did we discuss from December 20th to March 5th?", span},
      {"What did we discuss from 2022-12-20 until 2023-03-05?", span},
      {"What did we discuss starting December 20 and ending March 5?", span},
      {"What did we discuss from the 1st to the 20th of March?",
       "f_between(date, [2023-03-01, 2023-03-20])"},
      {"What did we discuss March 1-20?", "f_between(date, [2023-03-01, 2023-03-20])"},
      {"What did we discuss from January to March?", "f_between(month, [2023-01, 2023-03])"},
      {"What did we discuss since September 14?", "f_between(date, [2023-09-14, 2023-10-22])"},
      {"What did we discuss after March 5?", "f_between(date, [2023-03-06, 2023-10-22])"},
      {"What did we discuss before March 5?", "f_between(date, [2022-12-20, 2023-03-04])"},
      {"What did we discuss up to March 5?", "f_between(date, [2022-12-20, 2023-03-05])"},
      {"What did we discuss over the last 3 days?", "f_between(date, [2023-10-19, 2023-10-22])"},
      {"What did we discuss in the past week?", "f_between(date, [2023-10-15, 2023-10-22])"},
      {"What did we discuss within the last two months?",
       "f_between(date, [2023-08-22, 2023-10-22])"},
  });
}

TEST(TimeGrammar, CountsBackFromNow) {
  expect_chains({
      {"What did we discuss yesterday?", "f_value(date, [2023-10-21])"},
      {"What did we discuss the day before yesterday?", "f_value(date, [2023-10-20])"},
      {"What did we discuss two days ago?",
       "f_between(timestamp, [2023-10-19T12:01:01, 2023-10-20T12:01:00])"},
      {"What did we discuss today?", "f_value(date, [2023-10-22])"},
      {"What did we discuss earlier today?",
       "f_between(timestamp, [2023-10-22T00:00:00, 2023-10-22T11:59:59])"},
      {"What did we discuss this morning?",
       "f_between(timestamp, [2023-10-22T04:00:00, 2023-10-22T11:59:59])"},
      {"What did we say the last time we spoke today?",
       "f_between(timestamp, [2023-10-22T00:00:00, 2023-10-22T11:59:59])"},
      {"What did we discuss last month?", "f_value(month, [2023-09])"},
      {"What did we discuss a month ago?", "f_value(month, [2023-09])"},
      {"What did we discuss seven months ago?", "f_value(month, [2023-03])"},
      {"What did we discuss the month before last?", "f_value(month, [2023-08])"},
      {"What did we discuss this month?", "f_value(month, [2023-10])"},
      {"What did we discuss last Friday?", "f_value(date, [2023-10-20])"},
      {"What did we discuss on Thursday?", "f_value(date, [2023-09-14])"},
      {"What did we discuss the Thursday before last?", "f_value(date, [2023-01-05])"},
      {"What did we discuss on Fridays?", "f_value(weekday, [Friday])"},
      {"What did we discuss during this very month?", "f_value(month, [2023-10])"},
      {"What about room 40 last month?", "f_value(month, [2023-09])"},
      {"What did we discuss since the month began?", "f_between(date, [2023-10-01, 2023-10-31])"},
      {"What did we discuss the month that just ended?", "f_value(month, [2023-09])"},
      {"What did we discuss in the 3 most recent days?",
       "f_between(date, [2023-10-19, 2023-10-22])"},
      {"What did we discuss in today's first conversation?",
       "f_between(timestamp, [2023-10-22T00:00:00, 2023-10-22T11:59:59])"},
      {"What did we discuss last weekend?", "f_between(date, [2023-10-21, 2023-10-22])"},
  });
}

TEST(TimeGrammar, ReadsSessions) {
  expect_chains({
      {"What did we discuss in session 3?", "f_value(session, [3])"},
      {"What did we discuss in our third conversation?", "f_value(session, [3])"},
      {"What did we discuss the 3rd time we spoke?", "f_value(session, [3])"},
      {"What did we discuss in chat number three?", "f_value(session, [3])"},
      {"What did we discuss in sessions 2, 3 and 5?", "f_value(session, [2, 3, 5])"},
      {"What did we discuss in sessions 2 through 4?", "f_between(session, [2, 4])"},
      {"What did we discuss from the second to the fourth session?", "f_between(session, [2, 4])"},
      {"What did we discuss from our second talk to our fourth?", "f_between(session, [2, 4])"},
      {"What did we discuss in the first three sessions?", "f_between(session, [1, 3])"},
      {"What did we discuss in our last three chats?", "f_between(session, [5, 7])"},
      {"What did we discuss when we first met?", "f_value(session, [1])"},
      {"What did we discuss three sessions ago?", "f_value(session, [5])"},
      {"What did we discuss last time?", "f_value(session, [7])"},
      {"What did we discuss in the session before last?", "f_value(session, [6])"},
      {"What did we talk about, not the last discussion, but the one before that?",
       "f_value(session, [6])"},
      {"What did we discuss in the penultimate session?", "f_value(session, [6])"},
      {"What did we discuss in the third to last session?", "f_value(session, [5])"},
      {"What did we discuss in meeting nr. 3?", "f_value(session, [3])"},
      {"What did we discuss three meetings ago?", "f_value(session, [5])"},
      {"What did we discuss when we met for the very first time?", "f_value(session, [1])"},
      {"Wasn't it three chats prior that we spoke?", "f_value(session, [5])"},
      {"Our talk across sessions 2 to 4 crossed my mind.", "f_between(session, [2, 4])"},
      {"Between sessions 2 and 4: what was it?", "f_between(session, [2, 4])"},
      {"How was our talk 7 full months ago?", "f_value(month, [2023-03])"},
      {"What did we discuss after session 5?", "f_between(session, [6, 7])"},
      {"What was response number 4?", "f_value(response, [4])"},
      {"What did we discuss on March 5 in session 3?",
       "f_value(date, [2023-03-05]); "
       "f_value(session, [3])"},
  });
}

// However it is asked, the answer is all of the time that is named: these words are no subject.
TEST(TimeGrammar, TellsAskingFromWhatIsAskedAbout) {
  Memory memory = sample_memory();
  for (const char* asked :
       {"Walk me through our talk on March 5.", "Could I get a digest of March 5?",
        "Please abridge our talk of March 5.", "Let's unpack March 5.",
        "I would like to savour what we said on March 5.", "A pastiche of what we said on March 5!",
        "Print every message sent within the dates 2023-03-04 and 2023-03-06.",
        "Anything noteworthy on March 5?", "March 5: what were the subjects?"}) {
    EXPECT_EQ(rows_of(memory.query({.question = asked})), (std::vector<int64_t>{4, 5, 6})) << asked;
  }
  for (const char* asked :
       {"On March 5, what about a seal?", "What did Ann say about the seal on March 5?"}) {
    const MemoryAnswer answer = memory.query({.question = asked});
    EXPECT_TRUE(answer.ranked) << asked;
    EXPECT_EQ(answer.rows.at(0).row, 6) << asked;
  }
}

TEST(TimeGrammar, LeavesAloneWhatIsNoTime) {
  expect_chains({
      {"May I ask what Ann thinks of tulips?", ""},
      {"Did Ben march to the lighthouse for the first time?", ""},
      {"Do you remember the violin?", ""},
      {"What will Ann do next month with the telescope?", ""},
      {"Who was the second person on the ferry?", ""},
      {"What bread takes 3 hours to rise?", ""},
  });
}

}  // namespace
}  // namespace tephra
