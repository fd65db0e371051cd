// SPDX-License-Identifier: Apache-2.0
// What tokenizer.json may hold, and what happens when it holds something else.
#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/text/tokenizer.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// A small file; `with` replaces or adds top-level keys.
std::string file_with(const std::string& with) {
  Json file = Json::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3}, "merges": ["a b"]}})",
                          "test");
  const Json changes = Json::parse(with, "with");
  for (const auto& [key, value] : changes.object()) file[key] = value;
  return file.dump();
}

std::vector<int32_t> encoded(const std::string& with, std::string_view text) {
  return Tokenizer::parse(file_with(with), "t").encode(text);
}

std::string error_in(const std::string& file) {
  const Error error = error_of([&] { Tokenizer::parse(file, "t"); });
  EXPECT_EQ(error.fault(), Fault::data);
  return error.what();
}

using Ids = std::vector<int32_t>;

TEST(TokenizerFile, NamesWhatItDoesNotSupport) {
  EXPECT_EQ(error_in(file_with(R"({"normalizer": {"type": "Precompiled"}})")),
            "t: normalizer: the normalizer 'Precompiled' is not supported");
  EXPECT_NE(error_in(file_with(R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers":
                [{"type": "BertPreTokenizer"}]}})"))
                .find("BertPreTokenizer"),
            std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"decoder": {"type": "CTC"}})")).find("decoder 'CTC'"),
            std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"post_processor": {"type": "Odd"}})")).find("'Odd'"),
            std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"padding": {"strategy": "x"}})")).find("padding"),
            std::string::npos);
  for (const char* model :
       {R"({"type": "Unigram", "vocab": []})",
        R"({"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []})",
        R"({"type": "BPE", "continuing_subword_prefix": "##", "vocab": {}, "merges": []})",
        R"({"type": "BPE", "end_of_word_suffix": "</w>", "vocab": {}, "merges": []})"}) {
    EXPECT_NE(error_in(file_with(std::string("{\"model\": ") + model + "}")).find("not supported"),
              std::string::npos);
  }
}

TEST(TokenizerFile, RefusesHostileFiles) {
  const auto model = [](const std::string& m) { return file_with("{\"model\": " + m + "}"); };
  EXPECT_NE(error_in("").find("empty"), std::string::npos);
  EXPECT_NE(error_in("[1]").find("expected an object"), std::string::npos);
  EXPECT_NE(error_in("{}").find("model"), std::string::npos);
  EXPECT_NE(
      error_in(model(R"({"vocab": {"a": 99999999999}, "merges": []})")).find("expected ids below"),
      std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": -1}, "merges": []})")).find("got -1"),
            std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": 1, "b": 1}, "merges": []})")).find("two tokens"),
            std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": "x"}, "merges": []})")).find("expected an integer"),
            std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": 0}, "merges": ["a c"]})")).find("'c' is not in"),
            std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": 0}, "merges": ["a a"]})")).find("'aa' is not in"),
            std::string::npos);
  EXPECT_NE(error_in(model(R"({"vocab": {"a": 0}, "merges": ["aa"]})")).find("merges[0]"),
            std::string::npos);
  EXPECT_NE(
      error_in(model(R"({"vocab": {"a": 0}, "merges": [], "unk_token": "u"})")).find("unk_token"),
      std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                "pattern": {"Regex": "(a"}}})"))
                .find("expected a regular expression"),
            std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"added_tokens": [{"id": 1, "content": "x"}]})"))
                .find("which is 'b' in the vocabulary"),
            std::string::npos);
  EXPECT_NE(error_in(file_with(R"({"added_tokens": [{"id": 7, "content": "a"}]})"))
                .find("but 0 in the vocabulary"),
            std::string::npos);
}

// Cycles need a token that is shorter than its parts, which concatenation cannot make; the empty
// token is as near as it gets.
TEST(TokenizerFile, EndsWithMergesOfTheEmptyToken) {
  const std::string with =
      R"({"model": {"vocab": {"": 0, "a": 1}, "merges": [["", "a"], ["a", ""], ["", ""]]}})";
  EXPECT_EQ(encoded(with, "aaa"), (Ids{1, 1, 1}));
}

TEST(TokenizerFile, GivesUpOnAPatternThatBacktracksWithoutEnd) {
  const Tokenizer tokenizer =
      Tokenizer::parse(file_with(R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                   "pattern": {"Regex": "(?:a|aa)+[cd]"}}})"),
                       "t");
  const Error error = error_of([&] { tokenizer.encode(std::string(90, 'a') + "b"); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_NE(std::string(error.what()).find("cannot be matched"), std::string::npos);
}

TEST(TokenizerFile, FindsAddedTokensAsTheirFlagsSay) {
  const auto with = [](const std::string& flags, const std::string& more = "") {
    return R"({"added_tokens": [{"id": 9, "content": "X"})" + std::string(", ") +
           R"({"id": 8, "content": "XX")" + flags + "}]" + more + "}";
  };
  EXPECT_EQ(encoded(with(""), "aXXXb"), (Ids{0, 8, 9, 1}));  // leftmost, longest
  EXPECT_EQ(encoded(with(R"(, "single_word": true)"), "aXX XX"), (Ids{0, 8}));
  EXPECT_EQ(encoded(with(R"(, "lstrip": true)"), "a \n XXb"), (Ids{0, 8, 1}));
  EXPECT_EQ(encoded(with(R"(, "rstrip": true)"), "aXX \n b"), (Ids{0, 8, 1}));
  const std::string replace = R"(, "normalizer": {"type": "Replace", "pattern": {"String": "Y"},
      "content": "X"})";
  EXPECT_EQ(encoded(with(R"(, "normalized": false)", replace), "YYXX"), (Ids{9, 9, 8}));
}

TEST(TokenizerFile, FindsOneOfAddedTokensThatReadAlike) {
  const std::string twice = R"({"normalizer": {"type": "NFC"}, "added_tokens": [
      {"id": 7, "content": "<a_token_that_is_long>"}, {"id": 6, "content": "<a_token_that_is_long>"},
      {"id": 9, "content": "\u00e9"}, {"id": 8, "content": "e\u0301", "normalized": true}]})";
  EXPECT_EQ(encoded(twice, std::string_view("<a_token_that_is_long>\0\0\0\0a", 27)), (Ids{6, 0}));
  EXPECT_EQ(encoded(twice, "aé"), (Ids{0, 8}));
}

TEST(TokenizerFile, GivesUpOnATextThatReplacementsBlowUp) {
  std::string steps;
  for (int i = 0; i < 60; ++i) {
    steps += std::string(i == 0 ? "" : ",") +
             R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  }
  const std::string file =
      file_with(R"({"normalizer": {"type": "Sequence", "normalizers": [)" + steps + "]}}");
  const Tokenizer tokenizer = Tokenizer::parse(file, "t");
  EXPECT_EQ(error_of([&] { tokenizer.encode("a"); }).fault(), Fault::data);
}

TEST(TokenizerFile, SplitsAsEachBehaviorSays) {
  const auto split = [](const char* behavior, const char* more = "") {
    std::string pieces;
    const std::string json = format(
        R"({{"type": "Split", "pattern": {{"String": "-"}}, "behavior": "{}"{}}})", behavior, more);
    const Json step = Json::parse(json, "t");
    PreTokenizer(Fields(step, "t")).split("-ab--c-", true, [&](std::string_view piece) {
      pieces += std::string(piece) + "|";
    });
    return pieces;
  };
  EXPECT_EQ(split("Removed"), "ab|c|");
  EXPECT_EQ(split("Isolated"), "-|ab|-|-|c|-|");
  EXPECT_EQ(split("MergedWithPrevious"), "-|ab-|-|c-|");
  EXPECT_EQ(split("MergedWithNext"), "-ab|-|-c|-|");
  EXPECT_EQ(split("Contiguous"), "-|ab|--|c|-|");
  EXPECT_EQ(split("Removed", R"(, "invert": true)"), "-|-|-|-|");
}

TEST(TokenizerFile, AddsWhatPostProcessorsAdd) {
  const Tokenizer tokenizer = Tokenizer::parse(
      file_with(R"({"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "e", "type_id": 0}}],
         "pair": [],
         "special_tokens": {"s": {"id": "s", "ids": [3], "tokens": ["s"]},
                            "e": {"id": "e", "ids": [1, 0], "tokens": ["e"]}}}]}})"),
      "t");
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{2}));
  EXPECT_EQ(tokenizer.encode("ab", AddSpecial::before), (Ids{3, 2}));
  EXPECT_EQ(tokenizer.encode("ab", AddSpecial::all), (Ids{3, 2, 1, 0}));
}

TEST(TokenizerFile, TreatsUnknownCharactersAsTheModelSays) {
  const auto model = [](const std::string& more) {
    return R"({"model": {"vocab": {"a": 0, "u": 1, "<0xC3>": 2, "<0xA9>": 3}, "merges": [])" +
           more + "}}";
  };
  EXPECT_EQ(encoded(model(""), "axxa"), (Ids{0, 0}));
  EXPECT_EQ(encoded(model(R"(, "unk_token": "u")"), "axxa"), (Ids{0, 1, 1, 0}));
  EXPECT_EQ(encoded(model(R"(, "unk_token": "u", "fuse_unk": true)"), "axxa"), (Ids{0, 1, 0}));
  EXPECT_EQ(encoded(model(R"(, "unk_token": "u", "byte_fallback": true)"), "éx"), (Ids{2, 3, 1}));
  // As in the reference, an unknown waits behind the bytes that follow it.
  EXPECT_EQ(encoded(model(R"(, "unk_token": "u", "byte_fallback": true)"), "xéa"),
            (Ids{2, 3, 1, 0}));
}

TEST(TokenizerFile, TakesTheWholePieceWhenMergesAreIgnored) {
  const std::string with = R"({"model": {"vocab": {"a": 0, "b": 1, "aba": 2}, "merges": [],
      "ignore_merges": true}})";
  EXPECT_EQ(encoded(with, "aba"), (Ids{2}));
  EXPECT_EQ(encoded(with, "abab"), (Ids{0, 1, 0, 1}));
}

TEST(TokenizerFile, ReadsSpecialTokensOfTheFilesBesideIt) {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", file_with("{}"));
  EXPECT_EQ(Tokenizer::load(scratch.path()).eos(), Ids{});
  write_file(scratch / "tokenizer_config.json",
             R"({"bos_token": "a", "eos_token": {"content": "b"}, "pad_token": null})");
  EXPECT_EQ(Tokenizer::load(scratch.path()).bos(), 0);
  EXPECT_EQ(Tokenizer::load(scratch.path()).eos(), Ids{1});
  write_file(scratch / "generation_config.json", R"({"eos_token_id": [2, 3]})");
  EXPECT_EQ(Tokenizer::load(scratch / "tokenizer.json").eos(), (Ids{2, 3}));
}

TEST(TokenizerFile, EncodesBytesThatAreNotUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level");
  EXPECT_EQ(tokenizer.encode("a\xff"), tokenizer.encode("a\xef\xbf\xbd"));
}

TEST(TokenizerFile, MarksSpacesAsMetaspaceSays) {
  const auto pieces = [](const std::string& scheme, std::string_view text, bool first) {
    const Json step = Json::parse(
        format(R"({{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "{}"}})", scheme),
        "t");
    std::string all;
    PreTokenizer(Fields(step, "t")).split(text, first, [&](std::string_view piece) {
      all += std::string(piece) + "|";
    });
    return all;
  };
  EXPECT_EQ(pieces("always", "a b", false), "▁a|▁b|");
  EXPECT_EQ(pieces("always", " a", false), "▁a|");
  EXPECT_EQ(pieces("first", "a b", true), "▁a|▁b|");
  EXPECT_EQ(pieces("first", "a b", false), "a|▁b|");
  EXPECT_EQ(pieces("never", "a  b", true), "a|▁|▁b|");
}

}  // namespace
}  // namespace tephra
