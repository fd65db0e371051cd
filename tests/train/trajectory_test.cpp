// SPDX-License-Identifier: Apache-2.0
// Recorded training runs of the reference, and files that only look like one.
#include "tephra/train/trajectory.h"

#include <gtest/gtest.h>

#include <functional>

#include "tephra/base/parallel.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Path folder_of(UpdateRule rule) { return Path(TEPHRA_GOLDEN_DIR) / ("train-" + to_text(rule)); }

SafetensorsFile recorded(UpdateRule rule) {
  return SafetensorsFile::open(folder_of(rule) / "trajectory.safetensors");
}

std::unique_ptr<Model> start(UpdateRule rule, DType dtype = DType::f32) {
  return load_model(folder_of(rule), {.dtype = dtype, .with_gradients = true});
}

class Trajectories : public testing::TestWithParam<UpdateRule> {};

TEST_P(Trajectories, AreReproduced) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const VerifyReport report =
        verify_trajectory(*start(GetParam(), dtype), recorded(GetParam()), GetParam());
    ASSERT_EQ(report.checks.size(), 3u);
    EXPECT_TRUE(report.ignored.empty());
    for (const Check& c : report.checks) {
      EXPECT_TRUE(c.pass) << c.name << " " << c.max_rel << " " << c.worst;
      // Far inside the bounds: a mistake of a part in a thousand would not be.
      EXPECT_LT(c.max_rel, c.bound / 20) << c.name << " " << c.worst;
    }
  }
}

TEST_P(Trajectories, HaveTheSameBitsOnAnyNumberOfThreads) {
  const int before = num_threads();
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const auto model = start(GetParam());
    verify_trajectory(*model, recorded(GetParam()), GetParam());
    return clone(model->parameters().flat_values());
  };
  const Tensor want = run(1);
  for (const int threads : {2, 3, 8, 16}) EXPECT_TRUE(same_bits(run(threads), want)) << threads;
  set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Golden, Trajectories, testing::Values(UpdateRule::adamw, UpdateRule::muon),
                         [](const auto& rule) { return to_text(rule.param); });

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// The recorded Muon run as `change` leaves it.
class WrongTrajectory : public testing::Test {
 protected:
  SafetensorsFile file(const std::function<void(NamedTensors&, Metadata&)>& change) {
    const SafetensorsFile right = recorded(UpdateRule::muon);
    NamedTensors tensors;
    for (const TensorEntry& e : right.entries()) {
      tensors.emplace_back(e.name, clone(right.tensor(e.name)));
    }
    Metadata metadata = right.metadata();
    change(tensors, metadata);
    write_safetensors(scratch_ / "t.safetensors", tensors, metadata);
    return SafetensorsFile::open(scratch_ / "t.safetensors");
  }
  VerifyReport verify(const SafetensorsFile& f) {
    return verify_trajectory(*start(UpdateRule::muon), f, UpdateRule::muon);
  }
  // What is said about it, without the path; it must be the file's fault.
  std::string complaint(const std::function<void(NamedTensors&, Metadata&)>& change) {
    const SafetensorsFile f = file(change);
    const Error e = error_of([&] { verify(f); });
    EXPECT_EQ(e.fault(), Fault::data) << e.what();
    const std::string text = e.what(), path = f.path().string() + ": ";
    EXPECT_TRUE(text.starts_with(path)) << text;
    return text.substr(std::min(text.size(), path.size()));
  }
  static Tensor& find(NamedTensors& tensors, const std::string& name) {
    for (auto& [n, t] : tensors) {
      if (n == name) return t;
    }
    throw std::runtime_error("no " + name);
  }

  Scratch scratch_;
};

TEST_F(WrongTrajectory, LacksATensor) {
  for (const char* name : {"input_ids", "losses", "grad_norms"}) {
    EXPECT_EQ(complaint([&](NamedTensors& t, Metadata&) {
                std::erase_if(t, [&](const auto& pair) { return pair.first == name; });
              }),
              format("expected a tensor named '{}', got none", name));
  }
}

TEST_F(WrongTrajectory, HasAWrongShape) {
  EXPECT_EQ(
      complaint([](NamedTensors& t, Metadata&) { find(t, "losses") = zeros({29}, DType::f32); }),
      "losses: expected [30], one for each step of input_ids, got [29]");
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) {
              find(t, "input_ids") = zeros({30, 128}, DType::i64);
            }),
            "input_ids: expected [steps, sequences, tokens] with 2 tokens or more, got [30, 128]");
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) {
              find(t, "input_ids") = zeros({0, 4, 32}, DType::i64);
            }),
            "input_ids: expected [steps, sequences, tokens] with 2 tokens or more, got [0, 4, 32]");
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) {
              find(t, "input_ids") = zeros({30, 1, 513}, DType::i64);
            }),
            "input_ids: expected sequences of at most 512 tokens, the model's context, got 513");
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) {
              find(t, "final.model.norm.weight") = zeros({47}, DType::f32);
            }),
            "final.model.norm.weight: expected shape [48], got [47]");
}

TEST_F(WrongTrajectory, NamesAParameterThatDoesNotExist) {
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) {
              t.emplace_back("final.model.nrom.weight", zeros({48}, DType::f32));
            }),
            "final.model.nrom.weight: the model has no parameter 'model.nrom.weight'");
}

TEST_F(WrongTrajectory, HasAnIdOutsideTheVocabulary) {
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) { find(t, "input_ids").set(5, 96); }),
            "input_ids of step 0: element 5: expected an id in [0, 96), got 96");
  EXPECT_EQ(complaint([](NamedTensors& t, Metadata&) { find(t, "input_ids").set(128, -1); }),
            "input_ids of step 1: element 0: expected an id in [0, 96), got -1");
}

TEST_F(WrongTrajectory, LacksAHyperParameter) {
  const SafetensorsFile right = recorded(UpdateRule::muon);
  for (const auto& [key, value] : right.metadata()) {
    EXPECT_EQ(complaint([&](NamedTensors&, Metadata& m) { m.erase(key); }),
              format("__metadata__: expected the hyper-parameter '{}', got none", key));
  }
}

TEST_F(WrongTrajectory, HasAHyperParameterThatMakesNoSense) {
  const auto with = [&](const char* key, const char* value) {
    return complaint([&](NamedTensors&, Metadata& m) { m[key] = value; });
  };
  EXPECT_EQ(with("lr", "fast"), "__metadata__: lr: expected a number from 0 to 1000, got 'fast'");
  EXPECT_EQ(with("lr", "0.1x"), "__metadata__: lr: expected a number from 0 to 1000, got '0.1x'");
  EXPECT_EQ(with("lr", ""), "__metadata__: lr: expected a number from 0 to 1000, got ''");
  EXPECT_EQ(with("lr", "nan"), "__metadata__: lr: expected a number from 0 to 1000, got 'nan'");
  EXPECT_EQ(with("muon_ns_steps", "0"),
            "__metadata__: muon_ns_steps: expected a number from 1 to 100, got '0'");
  EXPECT_EQ(with("adamw_eps", "0"),
            "__metadata__: adamw_eps: expected a number from 1e-30 to 1000, got '0'");
  EXPECT_EQ(with("optimizer", "sgd"), "__metadata__: optimizer: expected muon or adamw, got 'sgd'");
}

TEST_F(WrongTrajectory, IsOfAnotherOptimizer) {
  const Error e = error_of([] {
    verify_trajectory(*start(UpdateRule::adamw), recorded(UpdateRule::adamw), UpdateRule::muon);
  });
  EXPECT_EQ(e.fault(), Fault::usage);
  EXPECT_TRUE(std::string(e.what()).ends_with(
      "expected a trajectory of muon, got one of adamw; say --optimizer adamw"))
      << e.what();
}

// A change in any part of the update must show.
TEST_F(WrongTrajectory, DiffersWhenAHyperParameterDoes) {
  const std::pair<const char*, const char*> changes[] = {
      {"lr", "0.0031"},        {"weight_decay", "0.3"},  {"adamw_beta1", "0.8"},
      {"adamw_beta2", "0.99"}, {"muon_momentum", "0.9"}, {"muon_scale", "0.21"},
      {"muon_ns_steps", "4"},  {"clip_norm", "0"},       {"adamw_eps", "0.01"}};
  for (const auto& [key, value] : changes) {
    const VerifyReport report = verify(file([&](NamedTensors&, Metadata& m) { m[key] = value; }));
    EXPECT_FALSE(report.pass()) << key;
  }
}

TEST_F(WrongTrajectory, NamesTheWorst) {
  const VerifyReport report = verify(file([](NamedTensors& t, Metadata& m) {
    m["format"] = "pt";
    m["muon_spin"] = "left";
    find(t, "losses").set(17, find(t, "losses").at(17) * 1.001);
    find(t, "final.model.norm.weight").set(3, 1.5);
    t.emplace_back("remark", zeros({1}, DType::f32));
  }));
  EXPECT_FALSE(report.checks[0].pass);
  EXPECT_EQ(report.checks[0].worst, "losses[17]");
  EXPECT_TRUE(report.checks[1].pass);
  EXPECT_FALSE(report.checks[2].pass);
  EXPECT_EQ(report.checks[2].worst, "final.model.norm.weight[3]");
  EXPECT_EQ(report.ignored, (std::vector<std::string>{"remark", "__metadata__.muon_spin"}));
}

TEST(Trajectory, HasNoBoundsForBf16) {
  const Error e = error_of([] {
    const auto model =
        load_model(folder_of(UpdateRule::muon), {.dtype = DType::bf16, .with_gradients = true});
    verify_trajectory(*model, recorded(UpdateRule::muon), UpdateRule::muon);
  });
  EXPECT_EQ(e.fault(), Fault::usage);
  EXPECT_STREQ(e.what(),
               "verify: expected f32 or f64 for a trajectory, whose bounds are those of f32, got "
               "bf16");
}

}  // namespace
}  // namespace tephra
