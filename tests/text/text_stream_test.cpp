// SPDX-License-Identifier: Apache-2.0
// Streaming: whole characters only, never a part of a stop string, however tokens cut the text.
#include "tephra/text/text_stream.h"

#include <gtest/gtest.h>

#include "tephra/text/tokenizer_check.h"
#include "tephra/text/unicode.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tokenizer golden(const std::string& form) {
  return Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / ("tokenizer-" + form));
}

TEST(StreamDecoder, SaysTheWholeTextInWholeCharacters) {
  for (const std::string form : {"byte-level", "gemma-style", "llama-style"}) {
    const Tokenizer tokenizer = golden(form);
    for (const TokenVector& v :
         read_token_vectors(Path(TEPHRA_GOLDEN_DIR) / ("tokenizer-" + form) / "vectors.json")) {
      StreamDecoder stream(tokenizer);
      std::string text;
      for (const int32_t id : v.ids) {
        const std::string now = stream.add(id);
        EXPECT_EQ(find_invalid_utf8(now), now.npos);
        EXPECT_EQ(now.find("\xef\xbf\xbd"), now.npos);
        text += now;
      }
      EXPECT_EQ(text, *v.decoded) << form;  // nothing is left to finish
      EXPECT_EQ(stream.finish(), "");
    }
  }
}

TEST(StreamDecoder, HoldsACharacterUntilItIsWhole) {
  const Tokenizer tokenizer = golden("gemma-style");
  StreamDecoder stream(tokenizer);
  std::vector<std::string> said;
  for (const int32_t id : tokenizer.encode("a¥b")) said.push_back(stream.add(id));
  EXPECT_EQ(said, (std::vector<std::string>{"a", "", "¥", "b"}));
  const int32_t half = tokenizer.encode("¥")[0];
  EXPECT_EQ(stream.add(half), "");
  EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
}

TEST(StreamDecoder, KeepsWhatItSaidOfARowThatTurnsOutBroken) {
  const Tokenizer tokenizer = golden("gemma-style");
  StreamDecoder stream(tokenizer);
  const std::vector<int32_t> yen = tokenizer.encode("¥");
  std::string said;
  for (const int32_t id : {yen[0], yen[1], yen[0], tokenizer.encode("b")[0]}) {
    said += stream.add(id);
    EXPECT_EQ(find_invalid_utf8(said), said.npos);
  }
  EXPECT_EQ(said + stream.finish(), "¥\uFFFDb");
}

std::string through(std::vector<std::string> stops, const std::vector<std::string>& chunks) {
  StopStrings stop(std::move(stops));
  std::string said;
  for (const std::string& chunk : chunks) {
    const std::string now = stop.add(chunk);
    said += now;
  }
  if (!stop.stopped_by()) said += stop.finish();
  return said + (stop.stopped_by() ? "|" + *stop.stopped_by() : "");
}

TEST(StopStrings, CutBeforeTheFirstOneHoweverTheTextIsChunked) {
  EXPECT_EQ(through({"END"}, {"abcENDdef"}), "abc|END");
  EXPECT_EQ(through({"END"}, {"abcE", "N", "Ddef"}), "abc|END");
  EXPECT_EQ(through({"END"}, {"abcE", "N", "def"}), "abcENdef");
  EXPECT_EQ(through({"END"}, {"abcEN"}), "abcEN");
  EXPECT_EQ(through({"aab"}, {"a", "a", "a", "b"}), "a|aab");
  EXPECT_EQ(through({"xabcd", "bc"}, {"xabcd"}), "xa|bc");
  EXPECT_EQ(through({"xabcd", "bc"}, {"x", "a", "b", "c", "d"}), "xa|bc");
  EXPECT_EQ(through({"c", "bc"}, {"abc"}), "a|bc");
  EXPECT_EQ(through({}, {"abc"}), "abc");
}

TEST(StopStrings, SayNothingThatCouldBecomeOne) {
  StopStrings stop({"\n\nUser:"});
  EXPECT_EQ(stop.add("hi\n"), "hi");
  EXPECT_EQ(stop.add("\nUse"), "");
  EXPECT_EQ(stop.add("d"), "\n\nUsed");
  EXPECT_EQ(message_of([] { StopStrings({""}); }), "stop strings: expected text, got an empty one");
}

TEST(TextStream, StopsAtASpecialTokenByItsName) {
  const Tokenizer tokenizer = golden("byte-level");
  for (const bool keep : {false, true}) {
    TextStream stream(tokenizer, {"<|end|>"}, {.keep_special = keep});
    std::string text;
    for (const int32_t id : tokenizer.encode("hi<think>there<|end|>more")) text += stream.add(id);
    text += stream.finish();
    EXPECT_EQ(text, keep ? "hi<think>there" : "hithere");
    EXPECT_EQ(stream.stopped_by(), "<|end|>");
  }
}

TEST(TextStream, StopsAtTextThatSpansTokens) {
  const Tokenizer tokenizer = golden("llama-style");
  TextStream stream(tokenizer, {"wor"}, {});
  std::string text;
  for (const int32_t id : tokenizer.encode("Hello, world! and more")) text += stream.add(id);
  EXPECT_EQ(text + stream.finish(), "Hello, ");
}

}  // namespace
}  // namespace tephra
