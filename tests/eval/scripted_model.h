// SPDX-License-Identifier: Apache-2.0
// A model that has learnt a list of texts by heart: after a prompt it knows it writes what follows
// and ends; after any other it ends at once. For tests of what is built around a model.
#pragma once

#include <map>
#include <vector>

#include "tephra/models/model.h"

namespace tephra {

class ScriptedModel : public Model {
 public:
  explicit ScriptedModel(int64_t vocab_size, int64_t context = 2048)
      : context_(context), store_({}, DType::f32, kCpu, false) {
    tokens_.vocab_size = tokens_.usable = vocab_size;
    tokens_.bos = 2;
    tokens_.eos = {kEnd};
  }

  void learn(std::vector<int32_t> prompt, const std::vector<int32_t>& continuation) {
    for (const int32_t id : continuation) {
      next_[prompt] = id;
      prompt.push_back(id);
    }
    next_[prompt] = kEnd;
  }

  const TokenIds& tokens() const override { return tokens_; }
  int64_t context_limit() const override { return context_; }
  StateSpec state_spec() const override { return {}; }
  ParameterStore& parameters() override { return store_; }
  Json config_json() const override { return {}; }
  void set_rope_theta(double) override {}

  // A hidden state is the next id.
  Tensor forward(const Tensor& ids_N, const Segments& segments, Decoding*) const override {
    Tensor h({ids_N.numel(), 1}, DType::f32);
    for (int64_t i = 0; i < ids_N.numel(); ++i) {
      std::vector<int32_t>& seen = seen_[segments.sequence_N.data<int32_t>()[i]];
      seen.resize(static_cast<size_t>(segments.position_N.data<int32_t>()[i]));
      seen.push_back(ids_N.data<int32_t>()[i]);
      const auto found = next_.find(seen);
      h.set(i, found == next_.end() ? kEnd : found->second);
    }
    return h;
  }
  Tensor logits(const Tensor& h_NH) const override {
    const Tensor logits = zeros({h_NH.rows(), tokens_.vocab_size}, DType::f32);
    for (int64_t i = 0; i < h_NH.rows(); ++i) {
      logits.row<float>(i)[static_cast<int64_t>(h_NH.at(i))] = 10;
    }
    return logits;
  }
  Tensor loss(const Tensor&, const Tensor&, double) const override { return {}; }

 private:
  static constexpr int32_t kEnd = 1;

  int64_t context_;
  TokenIds tokens_;
  ParameterStore store_;
  std::map<std::vector<int32_t>, int32_t> next_;
  mutable std::map<int32_t, std::vector<int32_t>> seen_;  // by sequence
};

}  // namespace tephra
