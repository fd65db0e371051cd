// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/hash.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

// Given by `xxhsum -H3` of Debian's xxhash package.
TEST(Hash, GivesThePublishedValues) {
  EXPECT_EQ(hash_text(xxh3("")), "2d06800538d394c2");
  EXPECT_EQ(hash_text(xxh3("tephra")), "741db12e57e0ef7e");
  EXPECT_EQ(hash_text(xxh3(std::string(1000, 'a'))), "b3e7af627147db7c");
}

TEST(Hash, OfPartsIsTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7 % 251);
  for (size_t part : {1u, 63u, 64u, 1024u, 4999u}) {
    Xxh3 hash;
    for (size_t at = 0; at < text.size(); at += part) {
      hash.add(std::as_bytes(std::span(text).subspan(at, std::min(part, text.size() - at))));
    }
    EXPECT_EQ(hash.value(), xxh3(text)) << part;
    EXPECT_EQ(hash.value(), xxh3(text)) << "asking does not change it";
  }
}

TEST(Hash, ReadsItsOwnTextOnly) {
  EXPECT_EQ(parse_hash(hash_text(0x0123456789abcdef)), 0x0123456789abcdefu);
  for (const char* text :
       {"", "123", "0123456789abcdeg", "0123456789abcdef0", "-123456789abcdef"}) {
    EXPECT_EQ(parse_hash(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tephra
