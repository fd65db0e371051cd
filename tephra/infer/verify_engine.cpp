// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/core/trace.h"
#include "tephra/infer/paged_state.h"
#include "tephra/infer/sampler.h"
#include "tephra/infer/verify.h"

namespace tephra {
namespace {

constexpr int64_t kEngineBlock = 256;
constexpr double kEngineBound = 2e-4;  // nats

// Logarithms of the probabilities that these logits give.
std::vector<double> log_probabilities(const float* logits, int64_t usable) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < usable; ++i) most = std::max(most, double(logits[i]));
  for (int64_t i = 0; i < usable; ++i) sum += std::exp(double(logits[i]) - most);
  std::vector<double> logs;
  for (int64_t i = 0; i < usable; ++i) logs.push_back(double(logits[i]) - most - std::log(sum));
  return logs;
}

double divergence(const float* want, const float* got, int64_t usable) {
  const auto p = log_probabilities(want, usable), q = log_probabilities(got, usable);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

struct Forwarded {
  Tensor h_NH;
  std::vector<Tensor> experts;  // by layer: i32 [N], on the host
};

Forwarded forward_with_experts(Model& model, const std::vector<int32_t>& ids) {
  const Trace trace([](std::string_view name) { return name.ends_with(".expert"); });
  const int64_t length = std::ssize(ids);
  const Tensor h = model.forward(from_values({length}, ids), Segments::packed({&length, 1}));
  Forwarded result{h, {}};
  for (const auto& [name, value] : trace.taps()) {
    result.experts.push_back(to_device(value, kCpu));
  }
  return result;
}

Tensor experts_of(const Forwarded& forwarded, int64_t token) {
  const Tensor experts({std::ssize(forwarded.experts), 1}, DType::i32);
  for (int64_t l = 0; l < experts.rows(); ++l) {
    const Tensor& layer = forwarded.experts[static_cast<size_t>(l)];
    experts.data<int32_t>()[l] = layer.data<int32_t>()[token];
  }
  return experts;
}

// A sequence of its own in a state of its own, token by token from the first on.
class EngineSequence {
 public:
  EngineSequence(Model& model, int64_t length)
      : state_(model, ceil_div(length, kEngineBlock), kEngineBlock, 1) {
    for (int64_t b = 0; b < ceil_div(length, kEngineBlock); ++b) {
      table_.push_back(static_cast<int32_t>(b));
    }
  }
  bool takes_steps() const { return state_.takes_steps(); }
  const DecodeStep& next(int32_t token, const Tensor& experts = {}) {
    state_.replay(experts);
    const PagedState::Part part{0, table_, past_++, {&token, 1}};
    return *state_.decode({&part, 1});
  }

 private:
  PagedState state_;
  std::vector<int32_t> table_;
  int64_t past_ = 0;
};

// What the model itself says after a first token: the texts for which its engine is used.
std::vector<int32_t> drawn_text(Model& model, int64_t tokens, uint64_t seed) {
  EngineSequence sequence(model, tokens);
  const int64_t usable = model.tokens().usable;
  std::vector<int32_t> ids{
      static_cast<int32_t>(philox({seed, 1, 0}, 0)[0] % static_cast<uint64_t>(usable))};
  while (std::ssize(ids) < tokens) {
    const Tensor logits = to_device(sequence.next(ids.back()).logits(), kCpu);
    ids.push_back(sample({logits.data<float>(), static_cast<size_t>(logits.cols())}, usable,
                         {.temperature = 1, .seed = seed}, 0, ids.size()));
  }
  return ids;
}

struct EngineDistance {
  double mean = 0, largest = 0;
  int64_t at = 0;  // where it is largest
  int64_t other_experts = 0;

  void add(double kl, int64_t token, int64_t tokens) {
    mean += kl / static_cast<double>(tokens);
    if (token > 0 && kl <= largest) return;
    largest = kl;
    at = token;
  }
};

int64_t differences(const Tensor& a, const Tensor& b) {
  int64_t count = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    count += a.data<int32_t>()[i] != b.data<int32_t>()[i] ? 1 : 0;
  }
  return count;
}

// Some tokens at a time: a vocabulary's logarithms take longer than the step that they are of.
EngineDistance engine_distance(Model& model, const std::vector<int32_t>& ids,
                               const Forwarded& forwarded, bool replayed) {
  constexpr int64_t kRows = 64;
  const int64_t length = std::ssize(ids), usable = model.tokens().usable;
  EngineSequence sequence(model, length);
  EngineDistance result;
  for (int64_t begin = 0; begin < length; begin += kRows) {
    const int64_t count = std::min(kRows, length - begin);
    const Tensor want =
        to_device(model.logits(forwarded.h_NH.slice_rows(begin, begin + count)), kCpu);
    std::vector<Tensor> got;
    for (int64_t i = begin; i < begin + count; ++i) {
      const Tensor experts = experts_of(forwarded, i);
      const DecodeStep& step =
          sequence.next(ids[static_cast<size_t>(i)], replayed ? experts : Tensor());
      got.push_back(to_device(clone(step.logits()), kCpu));
      result.other_experts += differences(to_device(clone(step.experts()), kCpu), experts);
    }
    std::vector<double> kl(static_cast<size_t>(count));
    parallel_for(count, 1, [&](int64_t i, int64_t) {
      kl[static_cast<size_t>(i)] =
          divergence(want.row<float>(i), got[static_cast<size_t>(i)].data<float>(), usable);
    });
    for (int64_t i = 0; i < count; ++i) {
      result.add(kl[static_cast<size_t>(i)], begin + i, length);
    }
  }
  return result;
}

}  // namespace

VerifyReport verify_engine(Model& model, int64_t tokens, uint64_t seed) {
  VerifyReport report;
  const NoGrad no_grad;
  if (!EngineSequence(model, 1).takes_steps()) {
    report.notes.emplace_back(
        "engine: the model has no kernels of its own for single tokens here, so they were not "
        "compared");
    return report;
  }
  const std::vector<int32_t> ids = drawn_text(model, tokens, seed);
  const Forwarded forwarded = forward_with_experts(model, ids);
  const EngineDistance replayed = engine_distance(model, ids, forwarded, true);
  const EngineDistance free = engine_distance(model, ids, forwarded, false);
  report.checks.push_back({.name = "engine: mean KL, experts replayed",
                           .metric = Metric::absolute,
                           .bound = kEngineBound,
                           .max_abs = replayed.mean,
                           .max_rel = replayed.largest,
                           .worst = format("token {}", replayed.at),
                           .pass = replayed.mean <= kEngineBound});
  report.notes.push_back(
      format("engine: with its own choice of experts the mean KL is {:.3g} (largest {:.3g}); it "
             "chose another expert in {} of {} cases",
             free.mean, free.largest, free.other_experts, tokens * std::ssize(forwarded.experts)));
  return report;
}

}  // namespace tephra
