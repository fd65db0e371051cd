// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

constexpr int64_t kAlign = 64;  // elements, as in the flat buffers

void check(const OptimizerOptions& o) {
  const auto fraction = [](const char* name, double value) {
    require(value >= 0 && value < 1, "optimizer: {}: expected a number in [0, 1), got {}", name,
            value);
  };
  fraction("adamw beta1", o.adamw.beta1);
  fraction("adamw beta2", o.adamw.beta2);
  fraction("muon momentum", o.muon.momentum);
  require(o.adamw.eps > 0, "optimizer: adamw eps: expected more than 0, got {}", o.adamw.eps);
  require(o.weight_decay >= 0, "optimizer: weight decay: expected 0 or more, got {}",
          o.weight_decay);
  require(o.clip_norm >= 0, "optimizer: clip norm: expected 0 (none) or more, got {}", o.clip_norm);
  require(o.muon.scale > 0, "optimizer: muon scale: expected more than 0, got {}", o.muon.scale);
  require(o.muon.newton_schulz.steps >= 1 && o.muon.newton_schulz.steps <= 100,
          "optimizer: Newton-Schulz steps: expected 1 to 100, got {}", o.muon.newton_schulz.steps);
}

}  // namespace

Optimizer::Optimizer(ParameterStore& store, std::vector<ParameterRule> rules,
                     const OptimizerOptions& options)
    : store_(store), rules_(std::move(rules)), options_(options) {
  check(options);
  require(store.flat_gradients().defined(),
          "optimizer: expected parameters with gradients, got some without; load the model with "
          "gradients");
  require(rules_.size() == store.specs().size(), "optimizer: expected {} rules, got {}",
          store.specs().size(), rules_.size());
  allocate_state();
  for (size_t i = 0; i < rules_.size(); ++i) {
    const ParameterRule& r = rules_[i];
    if (r.rule == UpdateRule::frozen) continue;
    const Piece whole{store.offset(i),
                      second_offsets_[i],
                      store.specs()[i].shape.numel(),
                      r.rate,
                      r.rate,
                      r.decays ? options.weight_decay : 0};
    cut_pieces(whole, trained_);
    if (r.rule == UpdateRule::adamw) cut_pieces(whole, adamw_);
    if (r.rule == UpdateRule::muon) add_matrices(i);
  }
}

void Optimizer::allocate_state() {
  int64_t packed = 0;
  bool any = false;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const bool adamw = rules_[i].rule == UpdateRule::adamw;
    TEPHRA_ASSERT(rules_[i].rule == UpdateRule::frozen || store_.offset(i) >= 0,
                  "buffers have no gradient");
    second_offsets_.push_back(adamw ? packed : -1);
    if (adamw) packed += ceil_div(store_.specs()[i].shape.numel(), kAlign) * kAlign;
    any |= rules_[i].rule != UpdateRule::frozen;
  }
  const Tensor& flat = store_.flat_values();
  const DType acc = store_.flat_gradients().dtype();
  const Shape all{any ? flat.numel() : 0};
  first_ = zeros(all, acc, flat.device(), Purpose::optimizer);
  second_ = zeros({packed}, acc, flat.device(), Purpose::optimizer);
  if (flat.dtype() == DType::bf16) {
    remainder_ = zeros(all, DType::i16, flat.device(), Purpose::optimizer);
  }
}

void Optimizer::add_matrices(size_t i) {
  const ParameterRule& r = rules_[i];
  const Matrices m = matrices_of(store_.specs()[i]);
  if (m.rows * m.cols == 0 || m.count == 0) return;
  auto group = std::find_if(muon_.begin(), muon_.end(),
                            [&](const Batch& b) { return b.rows == m.rows && b.cols == m.cols; });
  if (group == muon_.end()) group = muon_.insert(group, {m.rows, m.cols, {}});
  const double matched = options_.muon.scale * std::sqrt(double(std::max(m.rows, m.cols)));
  for (int64_t e = 0; e < m.count; ++e) {
    const int64_t size = m.rows * m.cols;
    group->matrices.push_back({store_.offset(i) + e * size, 0, size, r.rate, r.rate * matched,
                               r.decays ? options_.weight_decay : 0});
  }
}

double Optimizer::sum_of_squares() const {
  std::vector<double> sums(trained_.size());
  const Tensor& gradients = store_.flat_gradients();
  launch(gradients.device(), "sum of squares", kernel::SumSquares{gradients, trained_, sums});
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

StepReport Optimizer::step(double lr) {
  store_.complete_gradients();
  GradientNorm norm;
  const double seconds = seconds_of([&] { norm = clip(sum_of_squares(), options_.clip_norm); });
  StepReport report = step(lr, norm);
  report.norm_seconds = seconds;
  return report;
}

StepReport Optimizer::step(double lr, const GradientNorm& norm) {
  require(std::isfinite(lr) && lr >= 0, "optimizer: expected a learning rate of 0 or more, got {}",
          lr);
  store_.complete_gradients();
  const StepScalars scalars{lr, norm.scale, updates_ + 1};
  StepReport report{.gradients = norm, .applied = norm.finite};
  if (norm.finite) {
    const MasterValues p = values();
    report.adamw_seconds = seconds_of([&] {
      launch(p.values.device(), "adamw",
             kernel::AdamWUpdate{p, store_.flat_gradients(), first_, second_, adamw_,
                                 options_.adamw, &scalars});
    });
    report.muon_seconds = seconds_of([&] { update_muon(scalars); });
    ++updates_;
  }
  report.updates = updates_;
  return report;
}

NewtonSchulzFlops Optimizer::newton_schulz_flops() const {
  NewtonSchulzFlops sum;
  for (const Batch& b : muon_) {
    const NewtonSchulzFlops one =
        tephra::newton_schulz_flops(b.rows, b.cols, options_.muon.newton_schulz.steps);
    sum.needed += one.needed * static_cast<double>(b.matrices.size());
    sum.full += one.full * static_cast<double>(b.matrices.size());
  }
  return sum;
}

int64_t Optimizer::state_bytes() const {
  return first_.bytes() + second_.bytes() + (remainder_ ? remainder_.bytes() : 0);
}

std::vector<StateTensor> Optimizer::state() const {
  std::vector<StateTensor> list;
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].rule == UpdateRule::frozen) continue;
    const ParameterSpec& spec = store_.specs()[i];
    const auto add = [&](const std::string& kind, const Tensor& flat, int64_t offset) {
      list.push_back({kind + "." + spec.name, spec.name,
                      flat.view({flat.numel(), 1})
                          .slice_rows(offset, offset + spec.shape.numel())
                          .view(spec.shape)});
    };
    if (rules_[i].rule == UpdateRule::muon) {
      add("muon.momentum", first_, store_.offset(i));
    } else {
      add("adamw.m", first_, store_.offset(i));
      add("adamw.v", second_, second_offsets_[i]);
    }
    if (remainder_) add("master_remainder", remainder_, store_.offset(i));
  }
  return list;
}

}  // namespace tephra
