// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/base/json.h"
#include "tephra/io/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

using FolderNames = std::vector<std::string>;

const std::vector<TensorEntry>& folder_entries() {
  static const std::vector<TensorEntry> entries = {{"b", DType::f32, {4, 5}},    // 80 bytes
                                                   {"a", DType::bf16, {10}},     // 20
                                                   {"huge", DType::f32, {100}},  // 400
                                                   {"empty", DType::f32, {0, 3}},
                                                   {"c", DType::i64, {2}}};  // 16
  return entries;
}

Tensor produced(const TensorEntry& entry, double offset) {
  const Tensor x(entry.shape, entry.dtype);
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, offset + static_cast<double>(i));
  return x;
}

void write_folder(const Path& folder, int64_t max_shard_bytes, double offset = 0) {
  write_tensor_folder(folder, folder_entries(), max_shard_bytes,
                      [&](const TensorEntry& entry) { return produced(entry, offset); });
}

// The same, but it fails in the middle.
void fail_to_write_folder(const Path& folder, int64_t max_shard_bytes) {
  const Error error = error_of([&] {
    write_tensor_folder(folder, folder_entries(), max_shard_bytes, [](const TensorEntry& entry) {
      require_data(entry.name != "huge", "stop");
      return produced(entry, 1);
    });
  });
  EXPECT_STREQ(error.what(), "stop");
}

void expect_holds_all(const Path& path, size_t files, double offset = 0) {
  const TensorFolder folder = TensorFolder::open(path);
  EXPECT_EQ(folder.files().size(), files);
  FolderNames names;
  for (const TensorEntry& entry : folder_entries()) {
    names.push_back(entry.name);
    EXPECT_TRUE(folder.contains(entry.name));
    EXPECT_TRUE(same_bits(folder.tensor(entry.name), produced(entry, offset))) << entry.name;
    EXPECT_EQ(folder.entry(entry.name).shape, entry.shape);
  }
  EXPECT_EQ(folder.names(), names);
}

// What opening the folder says, after its path.
std::string folder_error(const Scratch& folder, Fault fault = Fault::data) {
  const Error error = error_of([&] { TensorFolder::open(folder.path()); });
  EXPECT_EQ(error.fault(), fault);
  const std::string what = error.what(), path = folder.path().string();
  EXPECT_TRUE(what.starts_with(path)) << what;
  return what.substr(path.size());
}

void write_index_text(const Scratch& folder, const std::string& weight_map) {
  write_file(folder / "model.safetensors.index.json", "{\"weight_map\": " + weight_map + "}");
}

void write_holding(const Path& path, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : names) tensors.emplace_back(name, Tensor(Shape{0}, DType::f32));
  write_safetensors(path, tensors);
}

TEST(TensorFolder, IsOneFileOrShards) {
  const Scratch folder;
  write_folder(folder.path(), 1 << 20);
  EXPECT_EQ(folder.names(), FolderNames{"model.safetensors"});
  expect_holds_all(folder.path(), 1);
  // Readers of other libraries ask for it.
  EXPECT_EQ(SafetensorsFile::open(folder / "model.safetensors").metadata(),
            (Metadata{{"format", "pt"}}));

  write_folder(folder.path(), 100, 1);
  EXPECT_EQ(folder.names(),
            (FolderNames{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                         "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expect_holds_all(folder.path(), 3, 1);
  EXPECT_EQ(TensorFolder::open(folder.path()).path_of("huge"),
            folder / "model-00002-of-00003.safetensors");
  const Json index = Json::parse(read_file(folder / "model.safetensors.index.json"), "index");
  EXPECT_EQ(Fields(index, "index").object("metadata").integer("total_size"), 80 + 20 + 400 + 16);
}

TEST(TensorFolder, FilesOfTheModelBeforeAreRemovedAndOthersAreNot) {
  const Scratch folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "model-backup.safetensors", "mine");
  write_folder(folder.path(), 1);
  expect_holds_all(folder.path(), 5);
  EXPECT_EQ(folder.names().size(), 2u + 5 + 1);
  write_folder(folder.path(), 100);
  expect_holds_all(folder.path(), 3);
  EXPECT_EQ(folder.names().size(), 2u + 3 + 1);
  write_folder(folder.path(), 1 << 20);
  EXPECT_EQ(folder.names(),
            (FolderNames{"config.json", "model-backup.safetensors", "model.safetensors"}));
}

TEST(TensorFolder, TheSameTensorsGiveTheSameBytes) {
  const Scratch one, two;
  write_folder(one.path(), 100);
  write_folder(two.path(), 100);
  for (const std::string& name : one.names()) {
    EXPECT_EQ(read_file(one / name), read_file(two / name)) << name;
  }
}

TEST(TensorFolder, AnInterruptedRewriteLeavesTheOldModel) {
  const Scratch folder;
  write_folder(folder.path(), 100);
  const FolderNames before = folder.names();
  for (const int64_t bytes : {100, 1}) {  // shards of the same names, and of others
    fail_to_write_folder(folder.path(), bytes);
    expect_holds_all(folder.path(), 3);
    EXPECT_EQ(folder.names(), before);
  }
}

TEST(TensorFolder, AWriteThatFailsLeavesNoShards) {
  const Scratch folder;
  fail_to_write_folder(folder.path(), 100);
  EXPECT_EQ(folder.names(), FolderNames{});
}

TEST(TensorFolder, SaysWhatIsNotThere) {
  const Scratch folder;
  EXPECT_EQ(
      folder_error(folder, Fault::usage),
      ": holds no model: neither model.safetensors nor model.safetensors.index.json is there");
  EXPECT_EQ(error_of([&] { TensorFolder::open(folder / "no"); }).what(),
            (folder / "no").string() + ": does not exist; expected a model folder");
  write_holding(folder / "model.safetensors", {"model.weight"});
  const TensorFolder model = TensorFolder::open(folder.path());
  EXPECT_EQ(
      error_of([&] { model.tensor("model.wieght"); }).what(),
      folder.path().string() + ": has no tensor 'model.wieght'; did you mean 'model.weight'?");
  write_index_text(folder, "{}");
  EXPECT_EQ(folder_error(folder),
            ": holds both model.safetensors and model.safetensors.index.json; remove the one that "
            "is not this model");
}

TEST(TensorFolder, IndexAndFilesMustAgree) {
  const Scratch folder;
  const std::string index = "/model.safetensors.index.json: ";
  write_holding(folder / "1.safetensors", {"a"});
  write_index_text(folder, R"({"a": "1.safetensors", "b": "2.safetensors"})");
  EXPECT_EQ(folder_error(folder),
            "/2.safetensors: does not exist, but model.safetensors.index.json says that it holds "
            "tensor 'b'");
  write_holding(folder / "2.safetensors", {"c"});
  EXPECT_EQ(folder_error(folder),
            index + "says that tensor 'b' is in 2.safetensors, but it is not there");
  write_index_text(folder, R"({"a": "2.safetensors", "c": "1.safetensors"})");
  EXPECT_EQ(folder_error(folder),
            index + "says that tensor 'a' is in 2.safetensors, but it is not there");
  write_holding(folder / "1.safetensors", {"a", "d"});
  write_index_text(folder, R"({"a": "1.safetensors", "c": "2.safetensors"})");
  EXPECT_EQ(folder_error(folder),
            "/1.safetensors: holds tensor 'd', which model.safetensors.index.json does not list");
  write_holding(folder / "2.safetensors", {"a"});
  EXPECT_EQ(folder_error(folder), "/2.safetensors: tensor 'a' is also in 1.safetensors");
}

TEST(TensorFolder, AnIndexCannotReachOutOfItsFolder) {
  const Scratch model;
  for (const std::string name :
       {"../secret.safetensors", "/secret.safetensors", "sub/1.safetensors", "..", "", "notes.txt",
        R"(..\\secret.safetensors)", R"(1\u0000.safetensors)"}) {
    write_index_text(model, "{\"a\": \"" + name + "\"}");
    const std::string what = folder_error(model);
    EXPECT_NE(what.find("is not the name of a .safetensors file of this folder"), what.npos)
        << what;
  }
  write_index_text(model, R"({"a": 1})");
  EXPECT_EQ(folder_error(model),
            "/model.safetensors.index.json: weight_map: key 'a': expected a string, got an integer "
            "(1)");
  write_index_text(model, "[]");
  EXPECT_EQ(folder_error(model),
            "/model.safetensors.index.json: key 'weight_map': expected an object, got an array");
}

}  // namespace
}  // namespace tephra
