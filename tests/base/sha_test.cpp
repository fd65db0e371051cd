// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/sha.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

std::string sha_of(ShaKind kind, std::string_view text, size_t step) {
  Sha sha(kind);
  for (size_t i = 0; i < text.size(); i += step) sha.add(text.substr(i, step));
  return hex_text(sha.finish());
}

// The examples of FIPS 180-4, and a million letters.
TEST(Sha, MeetsThePublishedValues) {
  const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(sha_of(ShaKind::sha256, "", 1),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha_of(ShaKind::sha256, "abc", 1),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha_of(ShaKind::sha256, two_blocks, 99),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha_of(ShaKind::sha256, std::string(1'000'000, 'a'), 4099),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha_of(ShaKind::sha1, "abc", 2), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha_of(ShaKind::sha1, two_blocks, 7), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha_of(ShaKind::sha1, std::string(1'000'000, 'a'), 1000),
            "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Sha, DoesNotDependOnHowTheTextIsCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t length = 0; length < text.size(); ++length) {
    const std::string part = text.substr(0, length);
    EXPECT_EQ(sha_of(ShaKind::sha256, part, 1), sha_of(ShaKind::sha256, part, 300)) << length;
    EXPECT_EQ(sha_of(ShaKind::sha1, part, 13), sha_of(ShaKind::sha1, part, 64)) << length;
  }
}

TEST(Sha, WritesBase64) {  // RFC 4648, section 10
  EXPECT_EQ(base64_text(""), "");
  EXPECT_EQ(base64_text("f"), "Zg==");
  EXPECT_EQ(base64_text("fo"), "Zm8=");
  EXPECT_EQ(base64_text("foo"), "Zm9v");
  EXPECT_EQ(base64_text("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_text("\xff\xfe"), "//4=");
}

}  // namespace
}  // namespace tephra
