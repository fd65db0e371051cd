// SPDX-License-Identifier: Apache-2.0
// Manifests that somebody else wrote, or wrote wrong.
#include "tephra/io/manifest.h"

#include <gtest/gtest.h>

#include "tephra/base/hash.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.step = 12;
  manifest.state["seed"] = 7;
  manifest.files = {{"a.safetensors", 1000, 100, 0xfeed}};
  manifest.tensors = {
      {"x", DType::f32, {4, 5}, {{0, 3, "a.safetensors", 100, 1}, {3, 4, "a.safetensors", 160, 2}}},
      {"empty", DType::bf16, {0, 5}, {}}};
  return manifest;
}

std::string message_for(const Manifest& manifest) {
  const Error error = error_of([&] { parse_manifest(manifest_text(manifest), "m"); });
  EXPECT_EQ(error.fault(), Fault::data);
  return error.what();
}

// A right hash before any text.
std::string sealed(const std::string& body) {
  return "{\"xxh3\": \"" + hash_text(xxh3(body)) + "\",\n" + body;
}

TEST(Manifest, ReadsWhatItWrote) {
  const std::string text = manifest_text(sample());
  const Manifest read = parse_manifest(text, "m");
  EXPECT_EQ(manifest_text(read), text);
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.tensors[0].pieces[1].offset, 160);
  EXPECT_EQ(read.tensors[0].shape, (Shape{4, 5}));
  Json::parse(text, "the whole file is JSON");
}

TEST(Manifest, RefusesPiecesThatDoNotMakeTheTensor) {
  Manifest gap = sample();
  gap.tensors[0].pieces[1].first_row = 2;
  EXPECT_EQ(message_for(gap),
            "m: tensor 'x': expected a piece that begins with row 3, got rows [2, 4)");
  Manifest missing = sample();
  missing.tensors[0].pieces.pop_back();
  EXPECT_EQ(message_for(missing), "m: tensor 'x': the pieces hold 3 of 4 rows");
  Manifest surplus = sample();
  surplus.tensors[0].pieces[1].last_row = 5;
  EXPECT_EQ(message_for(surplus), "m: tensor 'x': has 4 rows, a piece ends at row 5");
  Manifest outside = sample();
  outside.tensors[0].pieces[1].offset = 981;
  EXPECT_EQ(message_for(outside),
            "m: tensor 'x': 20 bytes at byte 981 do not fit into a.safetensors, which has 1000");
  Manifest unlisted = sample();
  unlisted.tensors[0].pieces[0].file = "b.safetensors";
  EXPECT_EQ(message_for(unlisted), "m: tensor 'x': the file 'b.safetensors' is not listed");
}

TEST(Manifest, RefusesNamesThatLeaveTheFolderOrComeTwice) {
  Manifest outside = sample();
  outside.files[0].name = "../a";
  EXPECT_EQ(message_for(outside),
            "m: files: name: '../a' is not the name of a file in this folder");
  Manifest twice = sample();
  twice.tensors.push_back(twice.tensors[0]);
  EXPECT_EQ(message_for(twice), "m: lists the tensor 'x' twice");
  Manifest files = sample();
  files.files.push_back(files.files[0]);
  EXPECT_EQ(message_for(files), "m: lists the file 'a.safetensors' twice");
}

TEST(Manifest, RefusesOtherTexts) {
  const auto message = [](const std::string& text) {
    return std::string(error_of([&] { parse_manifest(text, "m"); }).what());
  };
  EXPECT_EQ(message(""), "m: is no manifest: its first line holds no hash");
  EXPECT_EQ(message("{}"), "m: is no manifest: its first line holds no hash");
  std::string cut = manifest_text(sample());
  cut.resize(cut.size() - 3);
  EXPECT_NE(message(cut).find("m: was damaged: expected hash "), std::string::npos);
  EXPECT_EQ(message(sealed("\"format\": \"tephra-training-checkpoint\", \"version\": 9}")),
            "m: has version 9, this program reads version 1");
  EXPECT_EQ(message(sealed("\"format\": \"else\"}")), "m: is no manifest of a training checkpoint");
}

}  // namespace
}  // namespace tephra
