// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/verify.h"

#include <algorithm>
#include <set>

#include "tephra/autograd/tape.h"
#include "tephra/core/trace.h"
#include "tephra/infer/comparison.h"
#include "tephra/infer/decoder.h"
#include "tephra/infer/generate.h"

namespace tephra {
namespace {

// What a float32 implementation owes the reference (docs/formats/golden.md).
constexpr double kLogitsBound = 5e-5;
constexpr double kLossBound = 1e-5;
constexpr double kGradientBound = 1e-4;
constexpr double kBf16Ratio = 1.5;

std::vector<int32_t> row_ids(const Tensor& ids_BS, int64_t row) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < ids_BS.dim(1); ++t) {
    ids.push_back(static_cast<int32_t>(ids_BS.at(row * ids_BS.dim(1) + t)));
  }
  return ids;
}

Tensor flat_ids(const Tensor& ids, const TokenIds& tokens, const std::string& name) {
  std::vector<int32_t> flat;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const double id = ids.at(i);
    require_data(id >= 0 && id < double(tokens.vocab_size),
                 "golden file: {}[{}]: expected an id in [0, {}), got {}", name, i,
                 tokens.vocab_size, id);
    flat.push_back(static_cast<int32_t>(id));
  }
  return from_values({static_cast<int64_t>(flat.size())}, flat);
}

// Each token's successor within its row; nothing for the last.
Tensor next_tokens(const Tensor& ids_BS) {
  const int64_t S = ids_BS.dim(1);
  Tensor targets({ids_BS.numel()}, DType::i32);
  for (int64_t i = 0; i < ids_BS.numel(); ++i) {
    targets.set(i, i % S + 1 < S ? ids_BS.at(i + 1) : -1);
  }
  return targets;
}

// One pass over a golden file: reads tensors by name and remembers which it has read.
class GoldenCheck {
 public:
  GoldenCheck(Model& model, const SafetensorsFile& golden) : model_(model), golden_(golden) {}

  VerifyReport run() {
    ids_BS_ = get("input_ids");
    require_data(ids_BS_.ndim() == 2 && ids_BS_.numel() > 0,
                 "{}: input_ids must be [batch, tokens] and not empty, got {}",
                 golden_.path().string(), ids_BS_.shape());
    require_data(tokens() >= 2 && tokens() <= model_.context_limit(),
                 "{}: input_ids has rows of {} tokens; expected 2 to {}, the model's context",
                 golden_.path().string(), tokens(), model_.context_limit());
    if (model_.parameters().dtype() == DType::bf16) {
      bf16_logits();
    } else {
      forward();
      gradients();
      greedy();
      packed();
      padded();
      decoding();
      read_.insert("bf16_logits");  // for judging a bf16 model
    }
    const bool all = model_.parameters().dtype() != DType::bf16;
    for (const TensorEntry& entry : golden_.entries()) {
      if (all && !read_.contains(entry.name)) report_.ignored.push_back(entry.name);
    }
    return std::move(report_);
  }

 private:
  bool has(const std::string& name) const { return golden_.contains(name); }
  Tensor get(const std::string& name) {
    require_data(has(name), "{}: expected a tensor named '{}'", golden_.path().string(), name);
    read_.insert(name);
    return golden_.tensor(name);
  }
  // One that has a row for each token of input_ids.
  Tensor get_by_token(const std::string& name) {
    const Tensor t = get(name);
    require_data(t.ndim() == 3 && t.dim(0) == batch() && t.dim(1) == tokens(),
                 "{}: {} must be [{}, {}, width] to match input_ids, got {}",
                 golden_.path().string(), name, batch(), tokens(), t.shape());
    return t;
  }
  void add(const Comparison& comparison) { report_.checks.push_back(comparison.check()); }

  int64_t batch() const { return ids_BS_.dim(0); }
  int64_t tokens() const { return ids_BS_.dim(1); }

  Tensor full_logits() {
    const NoGrad no_grad;
    const Tensor ids = flat_ids(ids_BS_, model_.tokens(), "input_ids");
    return model_.logits(model_.forward(ids, Segments::batch(batch(), tokens())));
  }

  void bf16_logits() {
    const Tensor want = get_by_token("logits");
    Comparison reference("reference bf16", Metric::rms, 0);
    reference.add("bf16_logits", get_by_token("bf16_logits"), want);
    Comparison ours("logits", Metric::rms, kBf16Ratio * reference.check().max_abs);
    ours.add("logits", full_logits(), want);
    add(ours);
  }

  // Logits, the stream between layers, the routing.
  void forward() {
    Trace trace;
    const Tensor got = full_logits();
    if (has("logits")) {
      Comparison logits("logits", Metric::absolute, kLogitsBound);
      logits.add("logits", got, get_by_token("logits"));
      add(logits);
    }
    Comparison hidden("hidden", Metric::absolute, kLogitsBound);
    Comparison weight("router.weight", Metric::absolute, kLogitsBound);
    Comparison expert("router.expert", Metric::exact, 0);
    Comparison router("router.logits", Metric::absolute, kLogitsBound);
    bool any_hidden = false, any_router = false;
    for (const auto& [name, value] : trace.taps()) {
      if (!has(name)) continue;
      if (name.starts_with("hidden.")) {
        hidden.add(name, value, get_by_token(name));
        any_hidden = true;
      } else if (name.ends_with(".logits")) {
        router.add(name, value, get(name));
        add_routing(trace, name.substr(0, name.size() - 7), weight, expert);
        any_router = true;
      }
    }
    if (any_hidden) add(hidden);
    if (any_router) {
      for (const Comparison* c : {&router, &weight, &expert}) add(*c);
    }
  }

  // The reference shows a skipped token as weight 0 of expert 0.
  void add_routing(const Trace& trace, const std::string& layer, Comparison& weight,
                   Comparison& expert) {
    const Tensor w = clone(to_device(*trace.find(layer + ".weight"), kCpu));
    const Tensor e = clone(to_device(*trace.find(layer + ".expert"), kCpu));
    const int64_t skip = trace.find(layer + ".logits")->cols() - 1;
    for (int64_t i = 0; i < e.numel(); ++i) {
      if (e.at(i) != double(skip)) continue;
      e.set(i, 0);
      w.set(i, 0);
    }
    weight.add(layer + ".weight", w, get(layer + ".weight"));
    expert.add(layer + ".expert", e, get(layer + ".expert"));
  }

  void gradients() {
    const std::vector<ParameterSpec>& specs = model_.parameters().specs();
    const bool wanted =
        model_.parameters().flat_gradients().defined() &&
        std::any_of(golden_.entries().begin(), golden_.entries().end(),
                    [](const TensorEntry& e) { return e.name.starts_with("grad."); });
    const Tensor ids = flat_ids(ids_BS_, model_.tokens(), "input_ids");
    const double scale = 1.0 / double(batch() * (tokens() - 1));
    Tensor loss;
    if (wanted) {
      model_.parameters().clear_gradients();
      Tape tape;
      loss = model_.loss(model_.forward(ids, Segments::batch(batch(), tokens())),
                         next_tokens(ids_BS_), scale);
      tape.backward(loss);
    } else if (has("loss")) {
      const NoGrad no_grad;
      loss = model_.loss(model_.forward(ids, Segments::batch(batch(), tokens())),
                         next_tokens(ids_BS_), scale);
    }
    if (has("loss")) {
      Comparison check("loss", Metric::relative, kLossBound);
      check.add("loss", loss, get("loss"));
      add(check);
    }
    if (!wanted) return;
    Comparison check("gradients", Metric::relative_norm, kGradientBound);
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string name = "grad." + specs[i].name;
      if (!has(name)) {
        require_data(specs[i].kind == ParameterKind::buffer, "{}: there are gradients, but not {}",
                     golden_.path().string(), name);
        continue;
      }
      check.add(name, gradient(model_.parameters().at(i)), get(name));
    }
    add(check);
  }

  void greedy() {
    if (!has("greedy")) return;
    const Tensor want = get("greedy");
    const int64_t prompt = static_cast<int64_t>(get("greedy_prompt_len").at(0));
    require_data(want.ndim() == 2 && prompt >= 1 && prompt <= want.dim(1),
                 "{}: greedy {} with a prompt of {} makes no sense", golden_.path().string(),
                 want.shape(), prompt);
    Comparison check("greedy", Metric::exact, 0);
    for (int64_t b = 0; b < want.dim(0); ++b) {
      flat_ids(want, model_.tokens(), "greedy");
      std::vector<int32_t> ids = row_ids(want, b);
      const std::vector<int32_t> expected(ids.begin() + prompt, ids.end());
      ids.resize(static_cast<size_t>(prompt));
      GenerateOptions options;
      options.max_new_tokens = static_cast<int64_t>(expected.size());
      options.stop_at_eos = false;
      const Shape shape{static_cast<int64_t>(expected.size())};
      try {
        check.add(format("greedy row {}", b),
                  from_values(shape, generate(model_, ids, options).tokens),
                  from_values(shape, expected));
      } catch (const Error& e) {
        if (e.fault() != Fault::data) throw;
        check.fail(e.what());  // the other checks still tell where it begins
      }
    }
    add(check);
  }

  void packed() {
    if (!has("packed_ids") && !has("packed_logits")) return;
    const Tensor ids = flat_ids(get("packed_ids"), model_.tokens(), "packed_ids");
    const Tensor stored = get("packed_lengths");
    std::vector<int64_t> lengths;
    int64_t total = 0;
    for (int64_t i = 0; i < stored.numel(); ++i) {
      lengths.push_back(static_cast<int64_t>(stored.at(i)));
      total += lengths.back();
    }
    require_data(total == ids.numel(), "{}: packed_lengths add up to {}, packed_ids has {}",
                 golden_.path().string(), total, ids.numel());
    const NoGrad no_grad;
    Comparison check("packed_logits", Metric::absolute, kLogitsBound);
    check.add("packed_logits", model_.logits(model_.forward(ids, Segments::packed(lengths))),
              get("packed_logits"));
    add(check);
  }

  void padded() {
    if (!has("padded_mask") && !has("padded_logits")) return;
    const Tensor mask = get("padded_mask");
    require_data(mask.shape() == ids_BS_.shape(), "{}: padded_mask is {}, input_ids is {}",
                 golden_.path().string(), mask.shape(), ids_BS_.shape());
    const NoGrad no_grad;
    const Tensor ids = flat_ids(ids_BS_, model_.tokens(), "input_ids");
    Comparison check("padded_logits", Metric::absolute, kLogitsBound);
    check.add("padded_logits", model_.logits(model_.forward(ids, Segments::padded(mask))),
              get_by_token("padded_logits"), mask);
    add(check);
  }

  // All rows at once, one token at a time, against the reference's uncached logits.
  void decoding() {
    if (!has("logits")) return;
    const Tensor want = get("logits");
    Comparison check("decode_logits", Metric::absolute, kLogitsBound);
    Decoder decoder(model_, batch(), tokens());
    for (int64_t t = 0; t < tokens(); ++t) {
      std::vector<std::vector<int32_t>> step;
      for (int64_t b = 0; b < batch(); ++b)
        step.push_back({row_ids(ids_BS_, b)[static_cast<size_t>(t)]});
      const Tensor got = model_.logits(decoder.advance(step));
      for (int64_t b = 0; b < batch(); ++b) {
        const Tensor row = want.view({batch() * tokens(), want.cols()})
                               .slice_rows(b * tokens() + t, b * tokens() + t + 1);
        check.add(format("row {} token {}", b, t), got.slice_rows(b, b + 1), row);
      }
    }
    add(check);
  }

  Model& model_;
  const SafetensorsFile& golden_;
  VerifyReport report_;
  std::set<std::string> read_;
  Tensor ids_BS_;
};

std::vector<int32_t> random_ids(const TokenIds& tokens, int64_t count, uint64_t seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const double u = uniform({seed, stream_of("verify"), 0}, static_cast<uint64_t>(i));
    ids.push_back(static_cast<int32_t>(u * double(tokens.usable)));
  }
  return ids;
}

Tensor hidden_of(Model& model, const std::vector<int32_t>& ids,
                 const std::vector<int64_t>& lengths) {
  return model.forward(from_values({static_cast<int64_t>(ids.size())}, ids),
                       Segments::packed(lengths));
}

std::vector<int32_t> part(const std::vector<int32_t>& ids, int64_t begin, int64_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}

}  // namespace

bool VerifyReport::pass() const {
  return !checks.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.pass; });
}

VerifyReport verify_golden(Model& model, const SafetensorsFile& golden) {
  VerifyReport report = GoldenCheck(model, golden).run();
  require_data(!report.checks.empty(),
               "{}: holds nothing that can be checked; expected logits, loss, hidden.*, grad.*, "
               "router.*, greedy, packed_* or padded_*",
               golden.path().string());
  return report;
}

VerifyReport verify_itself(Model& model, int64_t tokens, uint64_t seed) {
  require(tokens >= 2 && tokens <= model.context_limit(),
          "verify: expected 2 to {} tokens, the model's context, got {}", model.context_limit(),
          tokens);
  const NoGrad no_grad;
  const std::vector<int32_t> ids = random_ids(model.tokens(), tokens, seed);
  const double bound = model.parameters().dtype() == DType::bf16 ? 0.25 : kLogitsBound;
  const Tensor full = model.logits(hidden_of(model, ids, {tokens}));
  VerifyReport report;

  Comparison steps("cached decoding, token by token", Metric::absolute, bound);
  Decoder decoder(model, 1, tokens);
  for (int64_t t = 0; t < tokens; ++t) {
    const Tensor got = model.logits(decoder.advance(part(ids, t, t + 1)));
    steps.add(format("token {}", t), got, full.slice_rows(t, t + 1));
  }
  report.checks.push_back(steps.check());

  Comparison chunks("cached decoding, in chunks", Metric::absolute, bound);
  Decoder chunked(model, 1, tokens);
  for (int64_t at = 0, size = 1; at < tokens; at += size, size = size % 7 + 2) {
    size = std::min(size, tokens - at);
    const Tensor got = model.logits(chunked.advance(part(ids, at, at + size)));
    chunks.add(format("tokens {} to {}", at, at + size - 1), got, full.slice_rows(at, at + size));
  }
  report.checks.push_back(chunks.check());

  Comparison rolled_back("rolled back and continued", Metric::exact, 0);
  const int64_t half = tokens / 2;
  Decoder straight(model, 1, tokens), astray(model, 1, tokens);
  straight.advance(part(ids, 0, half));
  astray.advance(part(ids, 0, half));
  const Decoder::Snapshot snapshot = astray.snapshot();
  std::vector<int32_t> wrong = part(ids, half, tokens);
  std::reverse(wrong.begin(), wrong.end());
  astray.advance(wrong);
  astray.restore(snapshot);
  rolled_back.add("logits", model.logits(astray.advance(part(ids, half, tokens))),
                  model.logits(straight.advance(part(ids, half, tokens))));
  report.checks.push_back(rolled_back.check());

  Comparison packed("packed documents", Metric::absolute, bound);
  const Tensor together = model.logits(hidden_of(model, ids, {half, tokens - half}));
  packed.add("first", together.slice_rows(0, half),
             model.logits(hidden_of(model, part(ids, 0, half), {half})));
  packed.add("second", together.slice_rows(half, tokens),
             model.logits(hidden_of(model, part(ids, half, tokens), {tokens - half})));
  report.checks.push_back(packed.check());
  return report;
}

}  // namespace tephra
