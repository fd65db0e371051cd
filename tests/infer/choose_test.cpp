// SPDX-License-Identifier: Apache-2.0
// Tokens chosen from what a model's own decode step tells are those chosen from all logits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tephra/core/rng.h"
#include "tephra/infer/scheduler.h"

namespace tephra {
namespace {

constexpr int64_t kWords = 40;

float logit_of(int64_t token, int64_t position, int64_t word) {
  const RngKey key{7, static_cast<uint32_t>(token), static_cast<uint32_t>(position)};
  return static_cast<float>(8 * uniform(key, static_cast<uint64_t>(word)));
}

// On the host, what a step on a device tells of the same logits.
class HostStep : public DecodeStep {
 public:
  int64_t most_rows() const override { return 8; }
  void run(std::span<const Row> rows) override { rows_.assign(rows.begin(), rows.end()); }
  void run_on(bool) override {}
  void replay(const Tensor&) override {}
  Tensor experts() const override { return {}; }
  Tensor logits() const override {
    const Tensor all({std::ssize(rows_), kWords}, DType::f32);
    for (size_t r = 0; r < rows_.size(); ++r) {
      for (int64_t w = 0; w < kWords; ++w) {
        all.row<float>(static_cast<int64_t>(r))[w] = logit_of(rows_[r].token, rows_[r].position, w);
      }
    }
    return all;
  }
  std::vector<Likeliest> likeliest() const override {
    std::vector<Likeliest> all;
    for (const Row& row : rows_) {
      Likeliest best{0, logit_of(row.token, row.position, 0)};
      for (int32_t w = 1; w < kWords; ++w) {
        const float logit = logit_of(row.token, row.position, w);
        if (logit > best.logit) best = {w, logit};
      }
      all.push_back(best);
    }
    return all;
  }
  std::vector<std::optional<std::vector<Likeliest>>> at_least(
      std::span<const float> least) override {
    std::vector<std::optional<std::vector<Likeliest>>> all;
    for (size_t r = 0; r < rows_.size(); ++r) {
      auto& found = all.emplace_back(std::vector<Likeliest>{});
      for (int32_t w = 0; w < kWords; ++w) {
        const float logit = logit_of(rows_[r].token, rows_[r].position, w);
        if (logit >= least[r]) found->push_back({w, logit});
      }
    }
    return all;
  }

 private:
  std::vector<Row> rows_;
};

class SteppingModel : public Model {
 public:
  explicit SteppingModel(bool steps) : steps_(steps), store_({}, DType::f32, kCpu, false) {
    tokens_.vocab_size = tokens_.usable = kWords;
  }

  const TokenIds& tokens() const override { return tokens_; }
  int64_t context_limit() const override { return 256; }
  StateSpec state_spec() const override { return {}; }
  ParameterStore& parameters() override { return store_; }
  Json config_json() const override { return {}; }
  void set_rope_theta(double) override {}
  // A hidden state is a token and its position.
  Tensor forward(const Tensor& ids_N, const Segments& segments, Decoding*) const override {
    Tensor h({ids_N.numel(), 2}, DType::f32);
    for (int64_t i = 0; i < ids_N.numel(); ++i) {
      h.row<float>(i)[0] = static_cast<float>(ids_N.data<int32_t>()[i]);
      h.row<float>(i)[1] = static_cast<float>(segments.position_N.data<int32_t>()[i]);
    }
    return h;
  }
  Tensor logits(const Tensor& h_NH) const override {
    const Tensor all({h_NH.rows(), kWords}, DType::f32);
    for (int64_t i = 0; i < h_NH.rows(); ++i) {
      const float* h = h_NH.row<float>(i);
      for (int64_t w = 0; w < kWords; ++w) {
        all.row<float>(i)[w] = logit_of(std::lround(h[0]), std::lround(h[1]), w);
      }
    }
    return all;
  }
  std::unique_ptr<DecodeStep> decode_step(const DecodeMemory&) override {
    return steps_ ? std::make_unique<HostStep>() : nullptr;
  }
  Tensor loss(const Tensor&, const Tensor&, double) const override { return {}; }

 private:
  bool steps_;
  TokenIds tokens_;
  ParameterStore store_;
};

std::vector<Sampling> ways() {
  std::vector<Sampling> all;
  // At the last ones every finite logit could be drawn, and the bound is below all floats.
  for (const double heat : {0.0, 0.3, 1.0, 1e6, 1e37, 1e38, 1e300}) {
    all.push_back({.temperature = heat, .seed = 3});
    all.push_back({.temperature = heat, .top_k = 5, .seed = 4});
    all.push_back({.temperature = heat, .min_p = 0.01, .seed = 5});
  }
  all.push_back({.temperature = 1, .frequency = 0.5});
  return all;
}

std::vector<std::vector<int32_t>> answers(bool steps) {
  SteppingModel model(steps);
  Scheduler scheduler(model, {.kv_memory = 1 << 20, .sequences = 32, .block_tokens = 16});
  const std::vector<Sampling> all = ways();
  std::vector<std::vector<int32_t>> said(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EngineRequest r;
    r.prompt = {1, 2, static_cast<int32_t>(i)};
    r.max_new_tokens = 12;
    r.sampling = all[i];
    r.stream = static_cast<uint32_t>(i);
    r.on_token = [&said, i](const EngineToken& token) {
      said[i].push_back(token.id);
      return true;
    };
    scheduler.add(std::move(r));
  }
  while (scheduler.step()) continue;
  return said;
}

TEST(Choose, AStepSaysWhatAllLogitsSay) {
  const auto plain = answers(false), stepped = answers(true);
  const std::vector<Sampling> all = ways();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(stepped[i], plain[i]) << "temperature " << all[i].temperature;
    EXPECT_EQ(plain[i].size(), 12u);
  }
}

}  // namespace
}  // namespace tephra
