// SPDX-License-Identifier: Apache-2.0
// A model that knows some answers by heart, and a folder for a server to find it in. A prompt is
// <|user|>, a word that says which answer, anything, <|assistant|>; then it says the answer and
// ends. Where it stands is in its decoding state, as with a real model.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tephra/base/files.h"
#include "tephra/models/model.h"
#include "tephra/text/tokenizer.h"
#include "tests/support/scratch.h"

namespace tephra {

class SpeakingModel : public Model {
 public:
  explicit SpeakingModel(const Tokenizer& tokenizer, int64_t context = 4096)
      : tokenizer_(tokenizer),
        user_(*tokenizer.find("<|user|>")),
        assistant_(*tokenizer.find("<|assistant|>")),
        context_(context),
        store_({}, DType::f32, kCpu, false) {
    tokens_.vocab_size = tokens_.usable = tokenizer.vocab_size();
    tokens_.bos = 2;
    tokens_.eos = {kEnd};
  }

  // After <|assistant|> it says this; what the template opened for it is part of the answer.
  void learn(const std::string& word, const std::string& answer) {
    keys_.push_back(tokenizer_.encode(word).front());
    answers_.push_back(tokenizer_.encode(answer));
  }

  std::function<void()> before_pass = [] {};  // may throw, as a device does

  const TokenIds& tokens() const override { return tokens_; }
  int64_t context_limit() const override { return context_; }
  StateSpec state_spec() const override {
    return {.layers = {{.kv_width = 1, .conv_rows = 1, .conv_width = 3}}, .snapshot_interval = 16};
  }
  ParameterStore& parameters() override { return store_; }
  Json config_json() const override { return {}; }
  void set_rope_theta(double) override {}

  Tensor forward(const Tensor& ids_N, const Segments& segments, Decoding* decoding) const override {
    before_pass();
    Tensor state = clone(decoding->layers[0].conv);  // last token, which answer, said so far
    Tensor h({ids_N.numel(), 1}, DType::f32);
    for (int64_t i = 0; i < ids_N.numel(); ++i) {
      float* s = state.data<float>() + 3 * segments.sequence_N.data<int32_t>()[i];
      const int32_t id = ids_N.data<int32_t>()[i];
      if (static_cast<int32_t>(s[0]) == user_) {
        const auto key = std::find(keys_.begin(), keys_.end(), id);
        s[1] = static_cast<float>(key - keys_.begin());
        s[2] = 0;
      }
      if (s[2] > 0) s[2] += 1;
      if (id == assistant_) s[2] = 1;
      s[0] = static_cast<float>(id);
      const auto answer = static_cast<size_t>(s[1]);
      const auto said = static_cast<size_t>(s[2]);
      const bool knows = said > 0 && answer < answers_.size() && said <= answers_[answer].size();
      h.set(i, knows ? answers_[answer][said - 1] : kEnd);
    }
    decoding->layers[0].conv = state;
    return h;
  }
  Tensor logits(const Tensor& h_NH) const override {
    const Tensor logits = zeros({h_NH.rows(), tokens_.vocab_size}, DType::f32);
    for (int64_t i = 0; i < h_NH.rows(); ++i) {
      logits.row<float>(i)[static_cast<int64_t>(h_NH.at(i))] = 30;
    }
    return logits;
  }
  Tensor loss(const Tensor&, const Tensor&, double) const override { return {}; }

 private:
  static constexpr int32_t kEnd = 1;

  const Tokenizer& tokenizer_;
  int32_t user_, assistant_;
  int64_t context_;
  TokenIds tokens_;
  ParameterStore store_;
  std::vector<int32_t> keys_;
  std::vector<std::vector<int32_t>> answers_;
};

// A folder with a tokenizer and a chat template, and no weights.
inline void make_speaking_folder(const Path& folder) {
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level/tokenizer.json",
                             folder / "tokenizer.json");
  write_file(folder / "chat_template.jinja",
             "{% for m in messages %}{% if m.role == 'user' %}<|user|>{% endif %}{{ m.content }}"
             "{% endfor %}<|assistant|>{% if enable_thinking %}<think>\n{% endif %}");
  write_file(folder / "generation_config.json", R"({"temperature": 0.5, "top_p": 0.9})");
}

}  // namespace tephra
