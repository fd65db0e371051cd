// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/chunker.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/error_of.h"

namespace tephra {
namespace {

std::vector<std::string> chunks_of(std::string_view text, const ChunkOptions& options = {}) {
  std::vector<std::string> result;
  cut_chunks(text, options, "test", [&](std::string_view chunk) { result.emplace_back(chunk); });
  return result;
}

using Chunks = std::vector<std::string>;
constexpr ChunkOptions kSentences{.kind = ChunkKind::sentences};

TEST(RetrieveChunks, SentencesEndAtMarksAndNotAtAbbreviations) {
  EXPECT_EQ(chunks_of("It rains. Does it? Yes!  Go.", kSentences),
            (Chunks{"It rains.", "Does it?", "Yes!", "Go."}));
  EXPECT_EQ(
      chunks_of("Dr. J. R. Smith of the U.S. Senate paid 3.50 for it. Then left.", kSentences),
      (Chunks{"Dr. J. R. Smith of the U.S. Senate paid 3.50 for it.", "Then left."}));
  EXPECT_EQ(chunks_of("\"Stop!\" he said. (So he did.) End", kSentences),
            (Chunks{"\"Stop!\"", "he said.", "(So he did.)", "End"}));
}

TEST(RetrieveChunks, HeadingsAndNumbersOfItemsStayWithTheirText) {
  EXPECT_EQ(
      chunks_of("# Title\n\n1. First do this.\n 2. Then that. It was 1999. Done.", kSentences),
      (Chunks{"# Title\n\n1. First do this.", "2. Then that.", "It was 1999.", "Done."}));
  EXPECT_EQ(chunks_of("## One\n\nText\n\nMore", kSentences), (Chunks{"## One\n\nText", "More"}));
}

TEST(RetrieveChunks, SentencesGoOnOverWrappedLinesAndEndAtOthers) {
  EXPECT_EQ(chunks_of("A long sentence\nthat was wrapped.\nNext", kSentences),
            (Chunks{"A long sentence\nthat was wrapped.", "Next"}));
  EXPECT_EQ(chunks_of("A heading\n\nText here.", kSentences), (Chunks{"A heading", "Text here."}));
}

TEST(RetrieveChunks, ASentenceWithoutEndIsCutBetweenWordsOrCharacters) {
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "abcd ";
  for (const std::string& chunk : chunks_of(words, kSentences)) {
    EXPECT_LE(chunk.size(), kMaxSentenceBytes);
    EXPECT_EQ(chunk.size() % 5, 4u) << chunk;
  }
  std::string letters;
  for (int i = 0; i < 3000; ++i) letters += "é";
  size_t total = 0;
  for (const std::string& chunk : chunks_of(letters, kSentences)) {
    EXPECT_EQ(chunk.size() % 2, 0u);
    total += chunk.size();
  }
  EXPECT_EQ(total, letters.size());
}

// Each mark once: by the square of their number this would take hours.
TEST(RetrieveChunks, RunsOfMarksCostTheirLength) {
  for (const char* mark : {".", "!?", ".\"", "a."}) {
    std::string text;
    while (text.size() < 4'000'000) text += mark;
    text += "x";
    size_t bytes = 0;
    for (const ChunkKind kind : {ChunkKind::sentences, ChunkKind::automatic}) {
      cut_chunks(text, {.kind = kind}, "test",
                 [&](std::string_view chunk) { bytes += chunk.size(); });
    }
    EXPECT_EQ(bytes, 2 * text.size()) << mark;
  }
}

TEST(RetrieveChunks, LinesAreKeptWholeAndGiantOnesRefused) {
  const ChunkOptions lines{.kind = ChunkKind::lines};
  EXPECT_EQ(chunks_of("a. b.\n\n  c \r\nd", lines), (Chunks{"a. b.", "c", "d"}));
  const std::string giant = "short\n" + std::string(kMaxLineBytes + 1, 'x');
  const Error error = error_of([&] { chunks_of(giant, lines); });
  EXPECT_STREQ(error.what(), "test: line 2: expected at most 1.0 MiB, got 1.0 MiB");
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_NE(error.hint().find("--chunk sentences"), std::string::npos);
  // Unless it is left to us how to cut: then it is no list.
  EXPECT_GT(chunks_of("short\n" + giant).size(), kMaxLineBytes / kMaxSentenceBytes);
}

TEST(RetrieveChunks, FixedOnesHaveThatManyWords) {
  EXPECT_EQ(chunks_of("one, two three; four five", {.kind = ChunkKind::fixed, .words = 2}),
            (Chunks{"one, two", "three; four", "five"}));
  EXPECT_EQ(chunks_of(" .. ", {.kind = ChunkKind::fixed, .words = 2}), Chunks{});
}

TEST(RetrieveChunks, AutomaticTellsListsFromProse) {
  EXPECT_EQ(chunks_of("abc => def\nghi => jkl\n"), (Chunks{"abc => def", "ghi => jkl"}));
  EXPECT_EQ(chunks_of("One is here. Two is there.\nThree goes\non."),
            (Chunks{"One is here.", "Two is there.", "Three goes\non."}));
  EXPECT_EQ(chunks_of("a b", {.kind = ChunkKind::whole}), (Chunks{"a b"}));
  EXPECT_EQ(chunks_of(" \n "), Chunks{});
}

TEST(RetrieveChunks, KindsHaveNames) {
  for (const char* name : {"auto", "sentences", "lines", "fixed", "whole"}) {
    EXPECT_EQ(to_text(parse_chunk_kind(name)), name);
  }
  EXPECT_STREQ(error_of([] { parse_chunk_kind("words"); }).what(),
               "chunks: expected auto, sentences, lines, fixed or whole, got 'words'");
}

}  // namespace
}  // namespace tephra
