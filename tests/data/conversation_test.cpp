// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "tephra/data/conversation_source.h"
#include "tephra/data/packing.h"
#include "tephra/text/chatml.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

TEST(Packing, PutsEveryExampleOnceWhereItFitsBest) {
  const std::vector<int64_t> lengths = {3, 7, 2, 5, 5, 8, 1};
  const auto packs = pack_best_fit(lengths, 10);
  EXPECT_EQ(packs, (std::vector<std::vector<int64_t>>{{5, 2}, {1, 0}, {3, 4}, {6}}));
}

TEST(Packing, LeavesLittleRoom) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 5000; ++i) lengths.push_back(1 + i * 7919 % 1000);
  const auto packs = pack_best_fit(lengths, 1024);
  std::vector<int64_t> times(lengths.size(), 0);
  for (const auto& pack : packs) {
    int64_t used = 0;
    for (const int64_t i : pack) {
      used += lengths[static_cast<size_t>(i)];
      ++times[static_cast<size_t>(i)];
    }
    EXPECT_LE(used, 1024);
  }
  EXPECT_EQ(times, std::vector<int64_t>(lengths.size(), 1));
  const auto total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  EXPECT_LE(static_cast<double>(packs.size()), 1.01 * static_cast<double>(total) / 1024 + 1);
}

TEST(Conversations, AreReadStrictly) {
  const Scratch scratch;
  const Path path = scratch / "a.jsonl";
  write_file(path, R"({"messages": [{"role": "user", "content": "hi"},)"
                   R"({"role": "assistant", "content": "yes", "reasoning": "hm"}], "id": 3})"
                   "\n\n");
  const auto all = read_conversations(path);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].messages[1].reasoning, "hm");
  const auto message = [&](const std::string& line) {
    write_file(path, "\n" + line);
    const Error error = error_of([&] { read_conversations(path); });
    EXPECT_EQ(error.fault(), Fault::data);
    const std::string where = path.string() + ":2: ";
    EXPECT_EQ(std::string(error.what()).rfind(where, 0), 0u) << error.what();
    return std::string(error.what()).substr(where.size());
  };
  EXPECT_EQ(message(R"({"messages": [{"role": "bot", "content": ""}]})"),
            "message 0: expected the role system, user, assistant or tool, got 'bot'");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": "", "weight": 1}]})"),
            "message 0: unknown key 'weight'; expected role, content and reasoning");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": "x"}]})"),
            "expected a turn of the assistant; there is nothing to learn");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": "", "reasoning": "x"}]})"),
            "message 0: only the assistant has reasoning, not the role user");
}

Conversation chat_of(std::vector<ChatMessage> messages) {
  Conversation conversation;
  conversation.messages = std::move(messages);
  return conversation;
}

Conversation long_chat() {
  std::string first, last;
  for (int i = 0; i < 150; ++i) first += "early " + std::to_string(i) + " ";
  for (int i = 0; i < 80; ++i) last += "late " + std::to_string(i) + " ";
  return chat_of({{"user", "one?", ""},
                  {"assistant", "first answer", first},
                  {"user", "two?", ""},
                  {"assistant", "second answer", last}});
}

std::shared_ptr<const ChatRenderer> chatml() {
  return std::make_shared<const ChatRenderer>(ChatTemplate::parse(kChatmlTemplate, "chatml"),
                                              test_tokenizer());
}

int64_t length_of(const Conversation& conversation) {
  Encoder encoder(*test_tokenizer());
  return static_cast<int64_t>(encode_chat((*chatml())(conversation), encoder).tokens.size());
}

Conversation trimmed(int64_t context, bool kept = true) {
  Conversation conversation = long_chat();
  EXPECT_EQ(trim_conversation(conversation, context, length_of, *test_tokenizer()), kept);
  return conversation;
}

TEST(Trimming, KeepsWhatFits) {
  const Conversation whole = long_chat();
  const Conversation same = trimmed(length_of(whole));
  EXPECT_EQ(same.messages[3].reasoning, whole.messages[3].reasoning);
}

TEST(Trimming, NeverEndsWithinACharacter) {
  std::string thoughts;
  for (int i = 0; i < 40; ++i) thoughts += "火山灰";
  const Conversation whole = chat_of({{"user", "one?", ""}, {"assistant", "ash", thoughts}});
  for (const int64_t less : {20, 21, 22, 23}) {
    Conversation cut = whole;
    EXPECT_TRUE(trim_conversation(cut, length_of(whole) - less, length_of, *test_tokenizer()));
    const std::string& left = cut.messages[1].reasoning;
    EXPECT_FALSE(left.empty());
    EXPECT_EQ(thoughts.substr(0, left.size()), left) << less;
  }
}

TEST(Trimming, CutsTheTailOfTheLastReasoningToWhatFits) {
  const Conversation whole = long_chat();
  const int64_t context = length_of(whole) - 40;
  const Conversation cut = trimmed(context);
  EXPECT_EQ(cut.messages[1].reasoning, whole.messages[1].reasoning);
  EXPECT_EQ(cut.messages[3].content, "second answer");
  EXPECT_TRUE(whole.messages[3].reasoning.starts_with(cut.messages[3].reasoning));
  EXPECT_LT(cut.messages[3].reasoning.size(), whole.messages[3].reasoning.size());
  EXPECT_LE(length_of(cut), context);
  EXPECT_GE(length_of(cut), context - 2) << "no more is cut than must be";
}

TEST(Trimming, DropsEarlierReasoningWhenTheLastIsNotEnough) {
  Conversation bare = long_chat();
  bare.messages[1].reasoning.clear();
  const int64_t context = length_of(bare) - 30;
  Conversation without_last = long_chat();
  without_last.messages[3].reasoning.clear();
  ASSERT_GT(length_of(without_last), context) << "the earlier reasoning must go";
  const Conversation cut = trimmed(context);
  EXPECT_EQ(cut.messages[1].reasoning, "");
  EXPECT_EQ(cut.messages[1].content, "first answer");
  EXPECT_FALSE(cut.messages[3].reasoning.empty());
  EXPECT_LE(length_of(cut), context);
}

TEST(Trimming, RefusesWhenTheAnswersAloneAreTooLong) { trimmed(10, false); }

TEST(ConversationSource, LearnsOnlyWhatTheAssistantSays) {
  const Conversation chat = chat_of({{"user", "what?", ""}, {"assistant", "this", "because"}});
  const ConversationSource source("chats", {chat}, chatml(), test_tokenizer(), 1);
  const int64_t context = 200;
  const Sample sample = source.sample(0, context);
  ASSERT_EQ(static_cast<int64_t>(sample.inputs.size()), context);
  EXPECT_EQ(sample.lengths, (std::vector<int64_t>{length_of(chat), context - length_of(chat)}));
  EXPECT_EQ(sample.padding, context - length_of(chat));
  std::vector<int32_t> learnt;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    if (sample.targets[i] == kNoTarget) continue;
    EXPECT_EQ(sample.targets[i], sample.inputs[i + 1]);
    learnt.push_back(sample.targets[i]);
  }
  std::string text = test_tokenizer()->decode(learnt);
  std::erase(text, ' ');  // which this tokenizer puts before a text and after special tokens
  EXPECT_EQ(text, "<think>\nbecause\n</think>\n\nthis<|im_end|>");
}

TEST(ConversationSource, PacksWholeConversationsAndReadsEachOncePerEpoch) {
  std::vector<Conversation> chats;
  for (int i = 0; i < 40; ++i) {
    chats.push_back(chat_of({{"user", "q" + std::to_string(i), ""},
                             {"assistant", std::string(static_cast<size_t>(1 + i % 9), 'x'), ""}}));
  }
  chats.push_back(chat_of({{"user", "q", ""}, {"assistant", std::string(5000, 'y'), ""}}));
  const ConversationSource source("chats", chats, chatml(), test_tokenizer(), 1);
  EXPECT_EQ(source.dropped(256), 1);
  const int64_t count = source.samples_per_epoch(256);
  EXPECT_LT(count, 40);
  int64_t documents = 0;
  std::vector<int32_t> first, second;
  for (int64_t i = 0; i < count; ++i) {
    const Sample sample = source.sample(i, 256);
    documents += static_cast<int64_t>(sample.lengths.size()) - (sample.padding > 0 ? 1 : 0);
    EXPECT_EQ(std::accumulate(sample.lengths.begin(), sample.lengths.end(), int64_t{0}), 256);
    first.insert(first.end(), sample.inputs.begin(), sample.inputs.end());
    const Sample later = source.sample(count + i, 256);
    second.insert(second.end(), later.inputs.begin(), later.inputs.end());
  }
  EXPECT_EQ(documents, 40);
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
  EXPECT_EQ(error_of([&] { source.check(8); }).fault(), Fault::usage);
}

}  // namespace
}  // namespace tephra
