// SPDX-License-Identifier: Apache-2.0
// The checkpoint commands on training checkpoints and run folders.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tephra/base/json.h"
#include "tephra/models/checkpoint.h"
#include "tephra/train/checkpoint_writer.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

Ran on_training(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "checkpoint");
  return Program{.path = TEPHRA_BINARY}(arguments);
}

// A run with the golden tiny model at steps 10 and 20.
struct SavedRun {
  Scratch folder;
  std::string run = (folder / "run").string();
  std::string step = run + "/checkpoints/step-20";

  SavedRun() {
    const Path source = TEPHRA_GOLDEN_DIR "/zaya-tiny";
    const RunLock lock(run);
    CheckpointWriter writer(lock, {});
    std::vector<NamedTensor> tensors;
    const TensorFolder stored = TensorFolder::open(source);
    for (const std::string& name : stored.names()) {
      tensors.push_back({name, stored.tensor(name)});
      tensors.push_back({"muon.momentum." + name, stored.tensor(name)});
    }
    Json state;
    state["model_config"] = Json::parse(read_file(source / "config.json"), "config.json");
    for (int64_t at : {10, 20}) writer.save(at, tensors, state);
    writer.wait();
  }

  void damage() const {
    std::fstream file(step + "/tensors-00001.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
};

TEST(TrainingCheckpointInspect, ShowsWhatItHolds) {
  const SavedRun saved;
  const Ran one = on_training({"inspect", saved.step});
  ASSERT_EQ(one.code, 0) << one.err;
  for (const char* part : {"training checkpoint of step 20", "muon.momentum", "model_config"}) {
    EXPECT_NE(one.out.find(part), std::string::npos) << one.out;
  }
  const Json json = Json::parse(on_training({"inspect", saved.step, "--json"}).out, "stdout");
  EXPECT_EQ(json.find("step")->integer(), 20);
  EXPECT_EQ(json.find("groups")->find("model")->find("values")->integer(),
            json.find("groups")->find("muon.momentum")->find("values")->integer());
  const Json all = Json::parse(on_training({"inspect", saved.run, "--json"}).out, "stdout");
  EXPECT_EQ(all.find("checkpoints")->array().size(), 2u);
  EXPECT_NE(on_training({"inspect", saved.run}).out.find("2 checkpoints"), std::string::npos);
}

TEST(TrainingCheckpointVerify, PassesOrNamesTheDamage) {
  const SavedRun saved;
  EXPECT_EQ(on_training({"verify", saved.step}).code, 0);
  EXPECT_NE(on_training({"verify", saved.run}).out.find("every hash is right"), std::string::npos);
  saved.damage();
  const Ran bad = on_training({"verify", saved.step});
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.out.find("expected hash "), std::string::npos) << bad.out;
  const Ran run = on_training({"verify", saved.run, "--json"});
  EXPECT_EQ(run.code, 3);
  const Json json = Json::parse(run.out, "stdout");
  EXPECT_FALSE(json.find("pass")->boolean());
  const Json::Array& each = json.find("checkpoints")->array();
  ASSERT_EQ(each.size(), 2u);
  EXPECT_TRUE(each[0].find("pass")->boolean());
  EXPECT_FALSE(each[1].find("pass")->boolean());
}

TEST(TrainingCheckpointExport, WritesAModelThatVerifiesAndFallsBackOverDamage) {
  const SavedRun saved;
  const std::string out = (saved.folder / "out").string();
  EXPECT_EQ(on_training({"export", "--from", saved.step, "--to", out}).code, 0);
  EXPECT_EQ(on_training({"verify", out}).code, 0);
  saved.damage();
  const std::string older = (saved.folder / "older").string();
  EXPECT_EQ(on_training({"export", "--from", saved.step, "--to", older}).code, 3);
  EXPECT_FALSE(fs::exists(older));
  const Ran ran = on_training({"export", "--from", saved.run, "--to", older});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.err.find("falling back to step 10"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("as the model was after step 10"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace tephra
