// SPDX-License-Identifier: Apache-2.0
// Cuts, cache and heap against one merge after the other, on random vocabularies and texts.
#include "tephra/text/bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tephra/text/byte_alphabet.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

// A model file with random merges over a small alphabet, so that most merges meet.
Json random_model(std::mt19937& random, const std::vector<std::string>& alphabet, size_t merges,
                  bool fallback) {
  std::vector<std::string> tokens = alphabet;
  std::set<std::string> known(tokens.begin(), tokens.end());
  Json list = Json::Array{};
  for (size_t tries = 0; list.array().size() < merges && tries < 20 * merges; ++tries) {
    const std::string a = tokens[random() % tokens.size()], b = tokens[random() % tokens.size()];
    if (a.size() + b.size() > 24) continue;
    list.push_back(Json::Array{a, b});
    if (known.insert(a + b).second) tokens.push_back(a + b);
  }
  Json vocab{Json::Object{}};
  int64_t id = 0;
  if (fallback) {
    for (int b = 0; b < 256; ++b) vocab[byte_token(static_cast<uint8_t>(b))] = id++;
  }
  for (const std::string& token : tokens) vocab[token] = id++;
  Json model;
  model["type"] = "BPE";
  model["byte_fallback"] = fallback;
  model["vocab"] = vocab;
  model["merges"] = list;
  return model;
}

std::string random_text(std::mt19937& random, const std::vector<std::string>& letters,
                        size_t most) {
  std::string text;
  for (auto n = random() % most + 1; n > 0; --n) text += letters[random() % letters.size()];
  return text;
}

void expect_like_plain(const Bpe& bpe, std::mt19937& random,
                       const std::vector<std::string>& letters) {
  BpeScratch scratch;
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random, letters, round % 10 == 0 ? 400 : 12);
    std::vector<int32_t> fast, plain;
    bpe.encode(text, scratch, fast);
    bpe.encode(text, scratch, fast);  // now from the cache
    bpe.encode_plainly(text, plain);
    bpe.encode_plainly(text, plain);
    ASSERT_EQ(fast, plain) << text;
  }
}

TEST(Bpe, CutsAndCacheChangeNothingForCharacters) {
  std::mt19937 random(1);
  const std::vector<std::string> alphabet = {"a", "b", "c", "▁", "é", "物", "🙂"};
  std::vector<std::string> letters = alphabet;
  letters.push_back("ю");  // not in the vocabulary: bytes
  for (int model = 0; model < 40; ++model) {
    const Json json = random_model(random, alphabet, 4 + random() % 60, true);
    expect_like_plain(Bpe(Fields(json, "model"), false), random, letters);
  }
}

TEST(Bpe, CutsAndCacheChangeNothingForBytes) {
  std::mt19937 random(2);
  const std::vector<std::string> letters = {"a", "b", " ", "\n", "é", "物"};
  std::vector<std::string> alphabet;
  for (const uint16_t c : byte_alphabet()) alphabet.push_back(to_utf8(c));
  for (int model = 0; model < 20; ++model) {
    Json json = random_model(
        random, {spelling_of_bytes("a"), spelling_of_bytes("b"), "Ġ", "Ċ", "Ã", "©", "ç", "ī", "©"},
        40, false);
    expect_like_plain(Bpe(Fields(json, "model"), true), random, letters);
  }
}

TEST(Bpe, MergesAMillionEqualLettersInNoTime) {
  std::mt19937 random(3);
  Json json = random_model(random, {"a"}, 8, true);
  const Bpe bpe(Fields(json, "model"), false);
  BpeScratch scratch;
  std::vector<int32_t> ids;
  bpe.encode(std::string(1 << 20, 'a'), scratch, ids);
  EXPECT_LT(ids.size(), size_t{1} << 20);
}

}  // namespace
}  // namespace tephra
