// SPDX-License-Identifier: Apache-2.0
// Quantised classifiers as fastText itself reads them (tools/make_fasttext_vectors.py).
#include <gtest/gtest.h>

#include "tephra/base/error.h"
#include "tephra/base/flush_disks.h"
#include "tephra/base/json.h"
#include "tephra/data/classify/fasttext_model.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const Path kVectors = TEPHRA_GOLDEN_DIR "/fasttext";

TEST(FastTextQuantised, PredictsWhatFastTextPredicts) {
  const Json expected = Json::parse(read_file(kVectors / "expected.json"), "expected.json");
  const auto& texts = expected.find("texts")->array();
  for (const auto& [name, rows] : expected.find("models")->object()) {
    const FastTextModel model = FastTextModel::load(kVectors / (name + ".ftz"));
    FastTextModel::Scratch scratch;
    ASSERT_EQ(rows.array().size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      for (size_t label = 0; label < model.labels().size(); ++label) {
        const Json* want = rows.array()[i].find(model.labels()[label]);
        ASSERT_NE(want, nullptr) << name << " " << model.labels()[label];
        // fastText prints six digits of the logarithm's exponential, with 1e-5 added.
        EXPECT_NEAR(model.probability(texts[i].string(), label, scratch), want->number(), 3e-5)
            << name << ": " << texts[i].string();
      }
    }
  }
}

TEST(FastTextQuantised, RefusesWhatIsCutOffOrDamaged) {
  const Scratch scratch;
  const std::string whole = read_file(kVectors / "hs.ftz");
  for (size_t size = 0; size < whole.size(); size += 1 + size / 16) {
    write_file_unflushed(scratch / "cut.ftz", whole.substr(0, size));
    EXPECT_EQ(error_of([&] { FastTextModel::load(scratch / "cut.ftz"); }).fault(), Fault::data)
        << size;
  }
  // Whatever a flipped byte does, it ends in an answer or in Fault::data.
  for (size_t at = 0; at < whole.size(); at += 37 + at / 64) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    write_file_unflushed(scratch / "damaged.ftz", damaged);
    try {
      FastTextModel::Scratch memory;
      FastTextModel::load(scratch / "damaged.ftz").predict("kalo tumi", memory);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data) << at;
    }
  }
}

}  // namespace
}  // namespace tephra
