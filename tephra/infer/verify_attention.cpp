// SPDX-License-Identifier: Apache-2.0
// One attention layer by itself against a reference file that holds its settings and weights.
#include <algorithm>

#include "tephra/autograd/tape.h"
#include "tephra/infer/comparison.h"
#include "tephra/models/zaya1/layers.h"

namespace tephra {
namespace {

constexpr double kOutputBound = 2e-5;
constexpr double kAttentionGradientBound = 1e-4;
constexpr std::string_view kPrefix = "model.layers.0.self_attn.";

// The settings in the file's metadata, which are texts as Python prints the values.
class Settings {
 public:
  explicit Settings(const SafetensorsFile& file) : file_(file) {}

  const std::string* find(std::string_view key) const {
    const auto found = file_.metadata().find(std::string(key));
    return found == file_.metadata().end() ? nullptr : &found->second;
  }
  Json json(std::string_view key) const {
    const std::string* text = find(key);
    require_data(text, "{}: expected the setting '{}' in its metadata", file_.path().string(), key);
    if (*text == "None") return {};
    if (*text == "True" || *text == "False") return *text == "True";
    std::string plain = *text;
    std::replace(plain.begin(), plain.end(), '\'', '"');
    return Json::parse(plain, format("{}: {}", file_.path().string(), key));
  }
  int64_t size(std::string_view key) const {
    const Json value = json(key);
    require_data(value.is_int() && value.integer() > 0 && value.integer() <= 1 << 20,
                 "{}: {}: expected a size, got {}", file_.path().string(), key, value.dump());
    return value.integer();
  }
  int64_t size_or_none(std::string_view key) const { return json(key).is_null() ? 0 : size(key); }
  double rope_theta() const {
    const Json rope = json("rope");
    const std::string where = file_.path().string() + ": rope";
    const Fields fields(rope, where);
    require_data(fields.string_or("rope_type", "default") == "default",
                 "{}: expected the type 'default', got {}", where, rope.dump());
    return fields.number("rope_theta");
  }

 private:
  const SafetensorsFile& file_;
};

// A model of one layer, of which only the attention is used.
zaya1::Config config_of(const SafetensorsFile& file, int64_t hidden) {
  const Settings settings(file);
  zaya1::Config c;
  c.hidden = hidden;
  c.num_layers = 1;
  c.query_heads = settings.size("heads");
  c.partial_rotary = 1;
  c.layers = {{.window = 0, .rope_theta = settings.rope_theta()}};
  if (settings.find("kv_lora_rank")) {
    c.attention = zaya1::AttentionType::mla;
    c.kv_heads = c.query_heads;
    c.mla = {.q_rank = settings.size_or_none("q_lora_rank"),
             .kv_rank = settings.size("kv_lora_rank"),
             .nope_dim = settings.size("qk_nope_head_dim"),
             .rope_dim = settings.size("qk_rope_head_dim"),
             .value_dim = settings.size("v_head_dim")};
    require_data(settings.json("rope_interleave").dump() == "true",
                 "{}: rope_interleave: expected True, the only supported value",
                 file.path().string());
  } else {
    c.attention = zaya1::AttentionType::gqa;
    c.kv_heads = settings.size("kv_heads");
    c.head_dim = settings.size("head_dim");
  }
  c.attention_bias = file.contains("weight.o_proj.bias");
  return c;
}

class AttentionCheck {
 public:
  AttentionCheck(const SafetensorsFile& golden, DType dtype, Device device)
      : golden_(golden),
        x_(to_device(by_token("x", dtype), device)),
        batch_(entry("x").shape[0]),
        tokens_(entry("x").shape[1]),
        config_(config_of(golden, x_.cols())),
        store_(specs(), dtype, device, /*with_gradients=*/true) {
    for (size_t i = 0; i < store_.specs().size(); ++i) {
      const std::string name = "weight." + store_.specs()[i].name;
      require_data(entry(name).shape == store_.specs()[i].shape,
                   "{}: {}: expected shape {}, got {}", golden.path().string(), name,
                   store_.specs()[i].shape, entry(name).shape);
      copy_into(store_.at(i), golden.tensor(name));
    }
    layer_ = zaya1::make_attention(config_, config_.layers[0], store_, "");
    make_leaf(x_, dtype);
  }

  VerifyReport run() {
    VerifyReport report;
    forward_and_backward(report);
    decoding(report);
    for (const TensorEntry& e : golden_.entries()) {
      const bool known = std::find(read_.begin(), read_.end(), e.name) != read_.end();
      if (!known) report.ignored.push_back(e.name);
    }
    return report;
  }

 private:
  std::vector<ParameterSpec> specs() const {
    std::vector<ParameterSpec> own;
    for (ParameterSpec& spec : zaya1::parameters(config_)) {
      if (!spec.name.starts_with(kPrefix)) continue;
      spec.name.erase(0, kPrefix.size());
      own.push_back(std::move(spec));
    }
    return own;
  }

  const TensorEntry& entry(const std::string& name) {
    require_data(golden_.contains(name), "{}: expected a tensor named '{}'",
                 golden_.path().string(), name);
    read_.push_back(name);
    return golden_.entry(name);
  }
  // [B, S, width] as [B * S, width].
  Tensor by_token(const std::string& name, DType dtype) {
    const Shape& shape = entry(name).shape;
    require_data(shape.ndim() == 3, "{}: {}: expected [batch, tokens, width], got {}",
                 golden_.path().string(), name, shape);
    return clone(to_dtype(golden_.tensor(name), dtype)).view({shape[0] * shape[1], shape[2]});
  }

  void forward_and_backward(VerifyReport& report) {
    const Segments segments = Segments::batch(batch_, tokens_);
    const KeyRanges ranges = causal_ranges(segments);
    Tape tape;
    const Tensor y = layer_->forward(x_, {.segments = segments, .ranges = ranges});
    Comparison output("y", Metric::absolute, kOutputBound);
    output.add("y", y, by_token("y", DType::f32));
    report.checks.push_back(output.check());

    tape.backward({y}, {to_device(by_token("dy", x_.dtype()), x_.device())});
    Comparison dx("dx", Metric::absolute, kOutputBound);
    dx.add("dx", gradient(x_), by_token("dx", DType::f32));
    report.checks.push_back(dx.check());
    Comparison gradients("gradients", Metric::relative_norm, kAttentionGradientBound);
    for (size_t i = 0; i < store_.specs().size(); ++i) {
      const std::string name = "grad." + store_.specs()[i].name;
      entry(name);
      gradients.add(name, gradient(store_.at(i)), golden_.tensor(name));
    }
    report.checks.push_back(gradients.check());
  }

  // All rows of the batch, one token at a time.
  void decoding(VerifyReport& report) {
    const NoGrad no_grad;
    const LayerStateSpec spec = zaya1::attention_state(config_, config_.layers[0]);
    LayerState state;
    state.k = Tensor({batch_ * tokens_, spec.kv_width}, x_.dtype(), x_.device());
    if (!spec.values_in_keys) state.v = empty_like(state.k);
    const Tensor want = by_token("y", DType::f32);
    Comparison check("decode_y", Metric::absolute, kOutputBound);
    for (int64_t t = 0; t < tokens_; ++t) {
      const std::vector<int64_t> one(static_cast<size_t>(batch_), 1), past(one.size(), t);
      const Segments step = Segments::continued(one, past);
      Tensor h({batch_, x_.cols()}, x_.dtype(), x_.device()), row({batch_}, DType::i32);
      KeyRanges ranges{Tensor({batch_}, DType::i32), Tensor({batch_}, DType::i32)};
      for (int64_t b = 0; b < batch_; ++b) {
        const int64_t at = b * tokens_ + t;
        copy_into(h.slice_rows(b, b + 1), x_.slice_rows(at, at + 1));
        row.set(b, static_cast<double>(at));
        ranges.first_N.set(b, static_cast<double>(b * tokens_));
        ranges.last_N.set(b, static_cast<double>(at + 1));
      }
      const Tensor y = layer_->forward(
          h, {.segments = step, .ranges = ranges, .state = &state, .write_row_N = &row});
      for (int64_t b = 0; b < batch_; ++b) {
        const int64_t at = b * tokens_ + t;
        check.add(format("row {} token {}", b, t), y.slice_rows(b, b + 1),
                  want.slice_rows(at, at + 1));
      }
    }
    report.checks.push_back(check.check());
  }

  const SafetensorsFile& golden_;
  std::vector<std::string> read_;
  Tensor x_;
  int64_t batch_, tokens_;
  zaya1::Config config_;
  ParameterStore store_;
  std::unique_ptr<AttentionLayer> layer_;
};

}  // namespace

bool is_attention_reference(const SafetensorsFile& golden) {
  return golden.metadata().contains("heads") && golden.contains("x") && golden.contains("dy");
}

VerifyReport verify_attention(const SafetensorsFile& golden, DType dtype, Device device) {
  require(dtype == DType::f32 || dtype == DType::f64,
          "verify: attention is compared in f32 or f64, got {}", dtype);
  return AttentionCheck(golden, dtype, device).run();
}

}  // namespace tephra
