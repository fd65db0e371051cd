// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_optimizer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include "tephra/base/text.h"
#include "tephra/optim/optimizer.h"

namespace tephra {
namespace {

constexpr const char* kNewtonSchulz = "newton_schulz";
constexpr const char* kStep = "optimizer step";
constexpr const char* kMuonStep = "Muon and AdamW";
constexpr const char* kAdamWStep = "AdamW";
constexpr double kFlopsUnknown = 0;

std::string name_of(const MatrixBatch& b) {
  return format("{} x {} x {}", b.count, b.rows, b.cols);
}

NewtonSchulzFlops flops_of(const MatrixBatch& b) {
  const NewtonSchulzFlops one = newton_schulz_flops(b.rows, b.cols, NewtonSchulzOptions{}.steps);
  return {one.needed * double(b.count), one.full * double(b.count)};
}

OpBench newton_schulz_bench(const MatrixBatch& b, bool bf16) {
  // Norm near 1, as Muon gives it; what one pass leaves behind is as good an input for the next.
  const double scale = 1 / std::sqrt(double(b.rows * b.cols));
  return {.name = name_of(b),
          .inputs = {InputSpec::stream({b.count, b.rows, b.cols}, 0, scale)},
          .run = [=](const Tensors& in) -> Tensors {
            newton_schulz(in[0].detach(), {.bf16 = bf16});
            return {};
          },
          .forward_flops = flops_of(b).needed};
}

// A store of one parameter with an optimizer, made when it is first run.
struct OptimizerSubject {
  OptimizerSubject(std::vector<ParameterSpec> specs, DType dtype, const RuleOptions& rules)
      : store(std::move(specs), dtype, kCpu, true),
        optimizer(store, assign_rules(store.specs(), rules), {}) {
    store.initialise(1);
    fill_normal(store.flat_gradients(), {1, stream_of("gradients"), 0}, 0, 1e-3);
    for (size_t i = 0; i < store.specs().size(); ++i) {
      const std::shared_ptr<Variable>& leaf = store.at(i).variable();
      if (leaf) leaf->written = {{0, leaf->grad.cols()}};
    }
  }

  ParameterStore store;
  Optimizer optimizer;
};

using SpecsOf = std::vector<ParameterSpec> (*)(int64_t elements);

std::vector<ParameterSpec> one_vector(int64_t elements) {
  return {{"x", {elements}, ParameterKind::vector, 0, 1}};
}
std::vector<ParameterSpec> whole_model(int64_t) { return bench_model_parameters(); }

struct SubjectSpec {
  SpecsOf specs;
  int64_t elements = 0;
  DType dtype = DType::f32;
  RuleOptions rules = {};
};

OpFunction on_subject(const SubjectSpec& spec, void (*work)(OptimizerSubject&)) {
  auto subject = std::make_shared<std::unique_ptr<OptimizerSubject>>();
  return [=](const Tensors&) -> Tensors {
    if (!*subject) {
      *subject =
          std::make_unique<OptimizerSubject>(spec.specs(spec.elements), spec.dtype, spec.rules);
    }
    work(**subject);
    return {};
  };
}

// With the norm known, so that only the update is timed.
void update(OptimizerSubject& s) { s.optimizer.step(1e-3, GradientNorm{.norm = 1}); }
void step(OptimizerSubject& s) { s.optimizer.step(1e-3); }
void norm(OptimizerSubject& s) { s.optimizer.sum_of_squares(); }

OpSpec pass_benches(int64_t elements) {
  const auto n = double(elements);
  const SubjectSpec f32{one_vector, elements}, bf16{one_vector, elements, DType::bf16};
  return {.name = "passes",
          .cases = {},
          .benches = {
              {.name = "sum of squares", .run = on_subject(f32, norm), .forward_read_bytes = 4 * n},
              // p, g, m and v in; p, m and v out
              {.name = "AdamW, f32",
               .run = on_subject(f32, update),
               .forward_read_bytes = 16 * n,
               .forward_write_bytes = 12 * n},
              {.name = "AdamW, bf16 with f32 master",
               .run = on_subject(bf16, update),
               .forward_read_bytes = 16 * n,
               .forward_write_bytes = 12 * n}}};
}

OpSpec step_benches() {
  const SubjectSpec muon{whole_model},
      adamw{whole_model, 0, DType::f32, {.matrices = UpdateRule::adamw}};
  return {
      .name = kStep,
      .cases = {},
      .benches = {
          {.name = kMuonStep, .run = on_subject(muon, step), .forward_flops = kFlopsUnknown},
          {.name = kAdamWStep, .run = on_subject(adamw, step), .forward_flops = kFlopsUnknown}}};
}

}  // namespace

MatrixBatch parse_matrix_batch(const std::string& text) {
  int64_t parsed[3] = {0, 0, 0};
  const std::vector<std::string_view> parts = split(text, 'x');
  bool ok = parts.size() == 3;
  for (size_t i = 0; ok && i < 3; ++i) {
    const char* end = parts[i].data() + parts[i].size();
    const auto [stop, error] = std::from_chars(parts[i].data(), end, parsed[i]);
    ok = error == std::errc() && stop == end && parsed[i] > 0 && parsed[i] <= (1 << 20);
  }
  require(ok, "--shape: expected COUNTxROWSxCOLS such as 8x512x1024, got '{}'", clipped(text, 40));
  return {parsed[0], parsed[1], parsed[2]};
}

std::vector<MatrixBatch> default_matrix_batches() {
  return {{64, 128, 256}, {16, 256, 256},  {4, 512, 512},
          {2, 1024, 512}, {1, 1024, 1024}, {1, 2048, 2048}};
}

std::vector<OpSpec> optimizer_bench_specs(const OptimizerBenchOptions& o) {
  OpSpec products{.name = kNewtonSchulz, .cases = {}, .benches = {}};
  for (const MatrixBatch& b : o.batches) products.benches.push_back(newton_schulz_bench(b, o.bf16));
  std::vector<OpSpec> specs{products,
                            pass_benches(o.elements > 0 ? o.elements : beyond_cache_bytes() / 28)};
  if (o.steps) {
    specs.push_back(step_benches());
    OpSpec model = model_bench_spec();
    const std::string tokens = format("{} tokens", kBenchModelTokens);
    std::erase_if(model.benches, [&](const OpBench& b) { return !b.name.ends_with(tokens); });
    specs.push_back(model);
  }
  return specs;
}

OptimizerFigures optimizer_figures(const BenchReport& report, const OptimizerBenchOptions& o) {
  OptimizerFigures figures;
  for (const BenchRow& row : report.rows) {
    if (row.op == kStep && row.bench == kMuonStep) figures.muon_seconds = row.seconds;
    if (row.op == kStep && row.bench == kAdamWStep) figures.adamw_seconds = row.seconds;
    if (row.op == "model") figures.step_seconds = row.seconds, figures.step_flops = row.flops;
    if (row.op != kNewtonSchulz) continue;
    for (const MatrixBatch& b : o.batches) {
      if (name_of(b) != row.bench) continue;
      const double ratio = flops_of(b).full / flops_of(b).needed;
      figures.full.push_back({row.bench, flops_of(b).full / row.seconds / 1e9, row.share * ratio});
      break;
    }
  }
  for (const ParameterSpec& spec : bench_model_parameters()) {
    if (spec.kind != ParameterKind::matrix && spec.kind != ParameterKind::experts) continue;
    const Matrices m = matrices_of(spec);
    figures.newton_schulz_flops += flops_of({m.count, m.rows, m.cols}).needed;
  }
  return figures;
}

}  // namespace tephra
