// SPDX-License-Identifier: Apache-2.0
// What a hub may say, and what is believed. The network is tried in pull_test.py.
#include "tephra/hub/repository.h"

#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/hub/part_file.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

TEST(HubRepository, TakesNamesAndPagesOfRepositories) {
  const std::string hub = "https://huggingface.co";
  EXPECT_EQ(checked_repository("Zyphra/ZAYA1-8B", hub), "Zyphra/ZAYA1-8B");
  EXPECT_EQ(checked_repository("gpt2", hub), "gpt2");
  EXPECT_EQ(checked_repository("https://huggingface.co/Zyphra/ZAYA1-8B/", hub), "Zyphra/ZAYA1-8B");
  for (const char* wrong : {"", "/", "a/b/c", "../x", "a/..", "a b/c", "a/b?x=1", "-x/y", "a//b",
                            "https://elsewhere.org/a/b", "a/b#c", "a/%2e%2e"}) {
    EXPECT_NE(message_of([&] { checked_repository(wrong, hub); }).find("expected a repository"),
              std::string::npos)
        << wrong;
  }
}

TEST(HubRepository, RefusesNamesThatLeaveTheFolder) {
  for (const char* good :
       {"config.json", "a/b/c.txt", ".gitattributes", "a..b", "na me", "\xc3\xa9"}) {
    EXPECT_TRUE(is_safe_name(good)) << good;
  }
  for (const char* bad :
       {"", "/etc/passwd", "../x", "a/../x", "a/..", "..", ".", "./a", "a//b", "a/", "a\\..\\b",
        "a\nb", "a\x1b[31m", "\xff", ".tephra-pull/lock", "a/.tephra-pull/x"}) {
    EXPECT_FALSE(is_safe_name(bad)) << bad;
  }
  EXPECT_FALSE(is_safe_name(std::string("a\0b", 3)));
  EXPECT_FALSE(is_safe_name(std::string(300, 'x')));
}

TEST(HubRepository, ReadsAListing) {
  const std::string sha(64, 'a'), blob(40, 'b');
  const Json json = Json::parse(
      R"({"sha": "0123456789abcdef", "siblings": [
      {"rfilename": "model.safetensors", "size": 7, "blobId": ")" +
          blob + R"(", "lfs": {"sha256": ")" + sha + R"(", "size": 7, "pointerSize": 130}},
      {"rfilename": "config.json", "size": 3, "blobId": ")" +
          blob + R"("}, {"rfilename": "bare"}]})",
      "hub");
  const HubListing listing = read_listing(json, "hub");
  EXPECT_EQ(listing.commit, "0123456789abcdef");
  ASSERT_EQ(listing.files.size(), 3u);
  EXPECT_EQ(listing.files[0].name, "bare");
  EXPECT_EQ(listing.files[0].size, -1);
  EXPECT_FALSE(listing.files[0].hash);
  EXPECT_EQ(listing.files[1].hash->hex, blob);
  EXPECT_EQ(listing.files[1].hash->kind, ShaKind::sha1);
  EXPECT_EQ(listing.files[2].hash->hex, sha) << "not the pointer's";
  EXPECT_EQ(listing.files[2].hash->kind, ShaKind::sha256);
}

TEST(HubRepository, RefusesHostileListings) {
  const auto message = [](const std::string& siblings, const std::string& sha = "abc") {
    const Json json =
        Json::parse(R"({"sha": ")" + sha + R"(", "siblings": )" + siblings + "}", "hub");
    return message_of([&] { read_listing(json, "hub"); });
  };
  EXPECT_NE(message(R"([{"rfilename": "../../.bashrc"}])").find("'../../.bashrc' is no name"),
            std::string::npos);
  EXPECT_NE(message(R"([{"rfilename": "a"}, {"rfilename": "a"}])").find("listed twice"),
            std::string::npos);
  EXPECT_NE(message("[{}]").find("rfilename"), std::string::npos);
  EXPECT_NE(message("[]", "../x").find("name of a commit"), std::string::npos);
}

TEST(HubRepository, ReadsHashesOutOfEtags) {
  const std::string sha(64, '0'), blob(40, 'f');
  EXPECT_EQ(HubHash::read('"' + sha + '"')->kind, ShaKind::sha256);
  EXPECT_EQ(HubHash::read("W/\"" + blob + '"')->hex, blob);
  EXPECT_FALSE(HubHash::read("\"5d41402abc4b2a76b9719d911017c592\"")) << "MD5 of some storage";
  EXPECT_FALSE(HubHash::read(""));
  EXPECT_FALSE(HubHash::read(std::string(64, 'g')));
}

TEST(HubRepository, WritesUrls) {
  const HubPlace place{.endpoint = "http://hub", .repository = "a/b", .revision = "refs/pr/1"};
  EXPECT_EQ(place.listing_url(), "http://hub/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true");
  EXPECT_EQ(place.file_url("abc", "d e/f#?.txt"), "http://hub/a/b/resolve/abc/d%20e/f%23%3F.txt");
}

TEST(HubRepository, MatchesPatterns) {
  EXPECT_TRUE(matches_pattern("a/b/model-1.safetensors", "*.safetensors"));
  EXPECT_TRUE(matches_pattern("docs/a/b.md", "docs/**"));
  EXPECT_TRUE(matches_pattern("docs/a.md", "docs/*.md"));
  EXPECT_FALSE(matches_pattern("docs/a/b.md", "docs/*.md"));
  EXPECT_TRUE(matches_pattern("config.json", "config.jso?"));
  EXPECT_FALSE(matches_pattern("config.json", "config"));
}

TEST(HubRepository, HashesAsTheHubDoes) {
  const Scratch scratch;
  write_file(scratch / "hello", "hello\n");
  // As `git hash-object` and `sha256sum` say.
  EXPECT_EQ(hub_hash_of(scratch / "hello", ShaKind::sha1, {}),
            "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(hub_hash_of(scratch / "hello", ShaKind::sha256, {}),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

TEST(HubRepository, OnePullAtATimeWorksOnAFolder) {
  const Scratch scratch;
  const PullLock first(scratch / "lock");
  EXPECT_NE(message_of([&] { PullLock(scratch / "lock"); }).find("another pull"),
            std::string::npos);
}

}  // namespace
}  // namespace tephra
