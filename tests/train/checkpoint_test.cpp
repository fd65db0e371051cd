// SPDX-License-Identifier: Apache-2.0
// What is saved is what is loaded, whatever happened on disk in between.
#include "tephra/train/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/io/safetensors.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"
#include "tests/train/checkpoint_fixture.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

void flip_bit(const Path& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 4));
}

// What was logged while it lives.
struct Log {
  std::string text;
  LogCapture capture{[this](LogLevel, std::string_view line) { text += std::string(line) + "\n"; }};
};

TEST(Checkpoint, HoldsWhatWasSaved) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  save_and_wait(writer, 7);
  const auto newest = open_newest(run.path());
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(holds_step(*newest, 7));
  EXPECT_EQ(newest->tensors().size(), 6u);
  EXPECT_EQ(newest->tensor("adamw.count").shape, Shape{});
  EXPECT_EQ(writer.stats().saved, 1);
  EXPECT_GT(writer.stats().bytes, newest->bytes());
}

TEST(Checkpoint, IsSafetensorsFilesThatAnyProgramReads) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.max_file_bytes = 1000, .max_piece_bytes = 512});
  save_and_wait(writer, 1);
  const Path folder = run / "checkpoints/step-1";
  const auto file = SafetensorsFile::open(folder / "tensors-00001.safetensors");
  EXPECT_TRUE(same_bits(file.tensor("model.embed_tokens.weight"), tensors_at(1)[0].value));
  EXPECT_TRUE(fs::exists(folder / "tensors-00002.safetensors"));
  const Checkpoint checkpoint = Checkpoint::open(folder);
  EXPECT_EQ(checkpoint.tensor("model.embed_tokens.weight").pieces.size(), 5u);
  EXPECT_TRUE(holds_step(checkpoint, 1));
}

TEST(Checkpoint, IsACopyOfTheMomentAndOfStridedTensors) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  const Tensor wide = numbered({6, 10}, DType::f32, 3);
  const Tensor view = wide.column_view(2, 7);
  const Tensor expected = clone(view);
  const std::vector<NamedTensor> tensors = {{"x", view}};
  writer.save(1, tensors, {});
  fill(wide, 0);  // training goes on
  writer.wait();
  const Checkpoint checkpoint = Checkpoint::open(run / "checkpoints/step-1");
  EXPECT_TRUE(same_bits(checkpoint.load("x"), expected));
  const Tensor again = zeros({6, 10}, DType::f32);
  checkpoint.load_into("x", again.column_view(1, 6));
  EXPECT_TRUE(same_bits(clone(again.column_view(1, 6)), expected));
}

TEST(Checkpoint, GivesAnyRows) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.max_piece_bytes = 7 * 16 * 4});
  save_and_wait(writer, 2);
  const Tensor whole = tensors_at(2)[0].value;
  for (const bool verified : {false, true}) {
    const Checkpoint checkpoint = Checkpoint::open(run / "checkpoints/step-2");
    if (verified) {
      EXPECT_TRUE(checkpoint.problems().empty());
    }
    for (int64_t first : {0, 3, 7, 20, 39}) {
      for (int64_t count : {0, 1, 7, 15, 40}) {
        if (first + count > 40) continue;
        const Tensor rows({count, 16}, DType::f32);
        checkpoint.load_rows("model.embed_tokens.weight", first, rows);
        EXPECT_TRUE(same_bits(rows, clone(whole.slice_rows(first, first + count))));
      }
    }
  }
}

TEST(Checkpoint, HasTheSameBytesOnAnyNumberOfThreads) {
  const int before = num_threads();
  std::string first;
  for (int threads : {1, 2, 8}) {
    set_num_threads(threads);
    const Scratch run;
    const RunLock lock(run.path());
    CheckpointWriter writer(lock, {});
    save_and_wait(writer, 5, 100'000);
    const Path folder = run / "checkpoints/step-5";
    const std::string bytes =
        read_file(folder / kManifestName) + read_file(folder / "tensors-00001.safetensors");
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes == first, true) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(Checkpoint, SaysWhatDoesNotFit) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  save_and_wait(writer, 1);
  const Path folder = run / "checkpoints/step-1";
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const Error name = error_of([&] { checkpoint.load("model.norm.weigth"); });
  EXPECT_EQ(name.what(), folder.string() +
                             ": has no tensor 'model.norm.weigth'; did you mean "
                             "'model.norm.weight'?");
  EXPECT_EQ(name.fault(), Fault::data);
  const Error shape =
      error_of([&] { checkpoint.load_into("model.norm.weight", Tensor({17}, DType::bf16)); });
  EXPECT_EQ(shape.what(),
            folder.string() + ": tensor 'model.norm.weight': expected bf16 [17], got bf16 [16]");
  const Error none = error_of([&] { Checkpoint::open(run.path()); });
  EXPECT_EQ(none.what(), run.path().string() + ": is no checkpoint: there is no manifest.json");
  EXPECT_EQ(none.fault(), Fault::usage);
}

TEST(CheckpointKeep, KeepsTheLastAndEveryMth) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.keep = {.last_n = 2, .every_m = 30}});
  for (int64_t step = 10; step <= 80; step += 10) save_and_wait(writer, step);
  EXPECT_EQ(steps_in(run.path()), (Steps{30, 60, 70, 80}));
  EXPECT_TRUE(holds_step(Checkpoint::open(run / "checkpoints/step-30"), 30));
}

TEST(CheckpointKeep, ReplacesOneOfTheSameStep) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  save_and_wait(writer, 4);
  const std::vector<NamedTensor> other = {{"x", full({3}, DType::f32, 2)}};
  writer.save(4, other, {});
  writer.wait();
  EXPECT_EQ(open_newest(run.path())->tensors().size(), 1u);
  EXPECT_EQ(std::distance(fs::directory_iterator(run / "checkpoints"), fs::directory_iterator()),
            1);
}

TEST(CheckpointKeep, CannotKeepNothing) {
  const Scratch run;
  const RunLock lock(run.path());
  const Error error = error_of([&] { CheckpointWriter(lock, {.keep = {.last_n = 0}}); });
  EXPECT_STREQ(error.what(), "checkpoints: at least the last one is kept, got last_n = 0");
}

TEST(CheckpointDamage, AnyFlippedBitIsFound) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {.max_piece_bytes = 200});
  save_and_wait(writer, 1, 4);
  const Path folder = run / "checkpoints/step-1";
  for (const char* name : {"tensors-00001.safetensors", kManifestName}) {
    const auto bytes = static_cast<int64_t>(fs::file_size(folder / name));
    for (int64_t at = 0; at < bytes; ++at) {
      flip_bit(folder / name, at);
      std::string found;
      try {
        for (const std::string& problem : Checkpoint::open(folder).problems()) found += problem;
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::data);
        found = error.what();
      }
      ASSERT_NE(found.find(name), std::string::npos) << name << " byte " << at << ": " << found;
      flip_bit(folder / name, at);
    }
  }
  EXPECT_TRUE(Checkpoint::open(folder).problems().empty());
}

TEST(CheckpointDamage, IsNamedAndTheOneBeforeIsTaken) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  for (int64_t step : {1, 2, 3}) save_and_wait(writer, step);
  const Path file = run / "checkpoints/step-3/tensors-00001.safetensors";
  const auto piece = Checkpoint::open(file.parent_path()).tensor("model.experts").pieces[0];
  flip_bit(file, piece.offset + 17);
  fs::remove(run / "checkpoints/step-2/tensors-00001.safetensors");
  Log log;
  const auto newest = open_newest(run.path());
  ASSERT_TRUE(newest.has_value());
  EXPECT_TRUE(holds_step(*newest, 1));
  EXPECT_NE(log.text.find(file.string() + ": tensor 'model.experts', rows [0, 15): expected hash "),
            std::string::npos)
      << log.text;
  EXPECT_NE(log.text.find("falling back to step 2"), std::string::npos) << log.text;
  EXPECT_NE(log.text.find("step-2/tensors-00001.safetensors: is missing"), std::string::npos);
  // The bad one does not come through any other way either.
  const Checkpoint bad = Checkpoint::open(file.parent_path());
  EXPECT_EQ(error_of([&] { bad.load("model.experts"); }).fault(), Fault::data);
  EXPECT_TRUE(same_bits(bad.load("model.norm.weight"), tensors_at(3)[1].value));
}

TEST(CheckpointDamage, ALostManifestIsNamed) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  for (int64_t step : {1, 2}) save_and_wait(writer, step);
  fs::remove(run / "checkpoints/step-2/manifest.json");
  Log log;
  const auto newest = open_newest(run.path());
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step(), 1);
  EXPECT_NE(log.text.find("step-2: cannot be used: its manifest.json is missing"),
            std::string::npos)
      << log.text;
  EXPECT_EQ(list_without_manifest(run.path()).size(), 1u);
}

TEST(CheckpointDamage, WithoutAnyGoodOneTheRunDoesNotStart) {
  const Scratch run;
  EXPECT_FALSE(open_newest(run.path()).has_value());
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  EXPECT_FALSE(open_newest(run.path()).has_value());
  save_and_wait(writer, 1);
  flip_bit(run / "checkpoints/step-1/manifest.json", 100);
  Log log;
  const Error error = error_of([&] { open_newest(run.path()); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(), run.path().string() + ": none of its 1 checkpoints is good");
}

TEST(CheckpointDamage, ACheckpointUnderAnotherStepsNameIsNotTaken) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  save_and_wait(writer, 1);
  fs::copy(run / "checkpoints/step-1", run / "checkpoints/step-9");
  Log log;
  EXPECT_TRUE(holds_step(*open_newest(run.path()), 1));
  EXPECT_NE(log.text.find("step-9: its manifest is that of step 1"), std::string::npos);
}

TEST(CheckpointList, TakesOnlyWholeCheckpoints) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  save_and_wait(writer, 100);
  save_and_wait(writer, 20);
  for (const char* name : {"step-3", "step-300.tmp-1", "step-007", "step-", "other"}) {
    fs::create_directories(run / "checkpoints" / name);
  }
  write_file(run / "checkpoints/step-300.tmp-1/manifest.json", "{}");
  write_file(run / "checkpoints/step-007/manifest.json", "{}");
  EXPECT_EQ(steps_in(run.path()), (Steps{20, 100}));
}

TEST(CheckpointList, LaterOnesAreSetAsideNotLost) {
  const Scratch run;
  const RunLock lock(run.path());
  CheckpointWriter writer(lock, {});
  for (int64_t step : {1, 2, 3}) save_and_wait(writer, step);
  Log log;
  EXPECT_EQ(set_aside_after(run.path(), 1), 2);
  EXPECT_EQ(steps_in(run.path()), Steps{1});
  save_and_wait(writer, 3);
  EXPECT_EQ(set_aside_after(run.path(), 1), 1);
  EXPECT_TRUE(holds_step(Checkpoint::open(run / "checkpoints/step-3.set-aside"), 3));
  EXPECT_TRUE(fs::exists(run / "checkpoints/step-3.set-aside-2"));
  CheckpointWriter next(lock, {});
  EXPECT_TRUE(fs::exists(run / "checkpoints/step-2.set-aside"));
}

}  // namespace
}  // namespace tephra
