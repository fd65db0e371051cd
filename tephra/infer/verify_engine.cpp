// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/core/trace.h"
#include "tephra/infer/paged_state.h"
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

struct EngineDistance {
  double mean = 0, largest = 0;
  int64_t at = 0;  // where it is largest
  int64_t other_experts = 0;
};

// Token by token from the first on.
EngineDistance engine_distance(Model& model, const std::vector<int32_t>& ids,
                               const Forwarded& forwarded, bool replayed) {
  const int64_t length = std::ssize(ids), blocks = ceil_div(length, kEngineBlock);
  PagedState state(model, blocks, kEngineBlock, 1);
  std::vector<int32_t> table;
  for (int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<int32_t>(b));
  EngineDistance result;
  for (int64_t i = 0; i < length; ++i) {
    const Tensor experts = experts_of(forwarded, i);
    state.replay(replayed ? experts : Tensor());
    const PagedState::Part part{0, table, i, std::span(ids).subspan(static_cast<size_t>(i), 1)};
    const DecodeStep* step = state.decode({&part, 1});
    const Tensor got = to_device(step->logits(), kCpu);
    const Tensor chosen = to_device(clone(step->experts()), kCpu);
    for (int64_t l = 0; l < experts.rows(); ++l) {
      result.other_experts += chosen.data<int32_t>()[l] != experts.data<int32_t>()[l] ? 1 : 0;
    }
    const Tensor want = to_device(model.logits(forwarded.h_NH.slice_rows(i, i + 1)), kCpu);
    const double kl = divergence(want.data<float>(), got.data<float>(), model.tokens().usable);
    result.mean += kl / static_cast<double>(length);
    if (i == 0 || !(kl <= result.largest)) {
      result.largest = kl;
      result.at = i;
    }
  }
  return result;
}

}  // namespace

VerifyReport verify_engine(Model& model, int64_t tokens, uint64_t seed) {
  VerifyReport report;
  const NoGrad no_grad;
  if (!PagedState(model, 1, kEngineBlock, 1).takes_steps()) {
    report.notes.emplace_back(
        "engine: the model has no kernels of its own for single tokens here, so they were not "
        "compared");
    return report;
  }
  std::vector<int32_t> ids;
  const auto usable = static_cast<uint64_t>(model.tokens().usable);
  for (int64_t i = 0; i < tokens; ++i) {
    ids.push_back(static_cast<int32_t>(philox({seed, 1, 0}, static_cast<uint64_t>(i))[0] % usable));
  }
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
