// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/checkpoint_export.h"

#include <gtest/gtest.h>

#include "tephra/optim/master.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"
#include "tests/train/checkpoint_fixture.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// A small random model, written once.
const Path& source_model() {
  static const Scratch folder;
  static const Path path = [] {
    write_random_checkpoint(preset_config("tiny"), "tiny", folder / "source", 1, RandomInit::lively,
                            {.dtype = DType::bf16});
    return folder / "source";
  }();
  return path;
}

// A run whose checkpoint of step 5 holds that model and some optimizer state.
struct ExportedRun {
  Scratch folder;
  Path source = source_model();
  Path run = folder / "run";
  Json state;
  std::vector<NamedTensor> tensors;

  ExportedRun() {
    const Path config = source / "config.json";
    state["model_config"] = Json::parse(read_file(config), config.string());
    const TensorFolder stored = TensorFolder::open(source);
    for (const std::string& name : stored.names()) {
      const Tensor value = stored.tensor(name);
      tensors.push_back({name, value});
      tensors.push_back({"adamw.m." + name, zeros(value.shape(), DType::f32)});
      tensors.push_back({"master_remainder." + name, numbered(value.shape(), DType::i16, 3)});
    }
    fs::create_directories(run / "model");
    write_file(run / "model/tokenizer.json", R"({"model": {"vocab": {}}})");
    write_file(run / "model/chat_template.jinja", "{{ messages }}");
  }

  void save() {
    const RunLock lock(run);
    CheckpointWriter writer(lock, {});
    writer.save(5, tensors, state);
    writer.wait();
  }
};

TEST(CheckpointExport, GivesTheModelByteForByte) {
  ExportedRun r;
  r.save();
  for (const Path& from : {r.run, r.run / "checkpoints/step-5", r.run / "checkpoints/step-5/"}) {
    const Path out = r.folder / "out";
    fs::remove_all(out);
    EXPECT_EQ(export_training_checkpoint(from, out, {}), 5);
    EXPECT_EQ(read_file(out / "model.safetensors"), read_file(r.source / "model.safetensors"));
    EXPECT_EQ(read_file(out / "config.json"), read_file(r.source / "config.json"));
    EXPECT_EQ(read_file(out / "chat_template.jinja"), "{{ messages }}");
    EXPECT_TRUE(fs::exists(out / "tokenizer.json"));
    EXPECT_EQ(verify_checkpoint(out).problems, std::vector<std::string>{});
  }
}

TEST(CheckpointExport, GivesTheExactMastersInF32) {
  ExportedRun r;
  r.save();
  export_training_checkpoint(r.run, r.folder / "out", {.dtype = DType::f32});
  const TensorFolder source = TensorFolder::open(r.source);
  const TensorFolder out = TensorFolder::open(r.folder / "out");
  for (const std::string& name : source.names()) {
    const Tensor weight = source.tensor(name), master = out.tensor(name);
    ASSERT_EQ(master.dtype(), DType::f32);
    for (int64_t i = 0; i < weight.numel(); ++i) {
      const auto remainder = static_cast<int16_t>((3 * 31 + i) % 251);
      ASSERT_EQ(master.data<float>()[i], join_master({weight.data<bf16>()[i], remainder}));
    }
  }
}

TEST(CheckpointExport, TakesTheConfigOfTheRunWhereTheStateHasNone) {
  ExportedRun r;
  r.state = {};
  r.save();
  const Error none = error_of([&] { export_training_checkpoint(r.run, r.folder / "out", {}); });
  EXPECT_EQ(none.fault(), Fault::data);
  EXPECT_NE(std::string(none.what()).find("its state has no model_config, and there is no "),
            std::string::npos);
  fs::copy(r.source / "config.json", r.run / "model/config.json");
  EXPECT_EQ(export_training_checkpoint(r.run, r.folder / "out", {}), 5);
}

TEST(CheckpointExport, AccountsForEveryTensor) {
  ExportedRun missing;
  missing.tensors.erase(missing.tensors.begin());
  missing.save();
  const Error absent =
      error_of([&] { export_training_checkpoint(missing.run, missing.folder / "out", {}); });
  EXPECT_NE(std::string(absent.what()).find("has no tensor '"), std::string::npos);
  ExportedRun extra;
  extra.tensors.push_back({"model.extra", zeros({2}, DType::f32)});
  extra.save();
  const Error unknown =
      error_of([&] { export_training_checkpoint(extra.run, extra.folder / "out", {}); });
  EXPECT_EQ(unknown.what(),
            (extra.run / "checkpoints/step-5").string() +
                ": tensor 'model.extra' is neither a parameter of the model nor state of an "
                "optimizer");
  EXPECT_FALSE(fs::exists(extra.folder / "out")) << "said before anything is written";
}

TEST(CheckpointExport, SaysWhereThereIsNone) {
  const Scratch run;
  fs::create_directories(run / "checkpoints");
  const Error error = error_of([&] { export_training_checkpoint(run.path(), run / "out", {}); });
  EXPECT_EQ(
      error.what(),
      run.path().string() +
          ": expected a checkpoint (a folder step-N with a manifest.json) or a run folder that "
          "has some, found neither");
  EXPECT_EQ(error.fault(), Fault::usage);
}

}  // namespace
}  // namespace tephra
