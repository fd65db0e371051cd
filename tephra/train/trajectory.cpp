// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/trajectory.h"

#include <charconv>
#include <cmath>
#include <set>

#include "tephra/base/progress.h"
#include "tephra/base/text.h"
#include "tephra/infer/comparison.h"
#include "tephra/train/micro_batch.h"

namespace tephra {
namespace {

// What a float32 implementation owes the reference.
constexpr double kLossBound = 1e-4;
constexpr double kFinalBound = 1e-3;
constexpr const char* kFinal = "final.";

// Everything that a trajectory's metadata may hold; "format" is written by other tools.
const std::set<std::string> kKnown{"optimizer",   "lr",          "weight_decay", "clip_norm",
                                   "adamw_beta1", "adamw_beta2", "adamw_eps",    "muon_momentum",
                                   "muon_scale",  "format",      "muon_ns_steps"};

class Hyper {
 public:
  explicit Hyper(const SafetensorsFile& file) : file_(file) {}

  std::string text(const std::string& key) const {
    const auto it = file_.metadata().find(key);
    require_data(it != file_.metadata().end(),
                 "{}: __metadata__: expected the hyper-parameter '{}', got none",
                 file_.path().string(), key);
    return it->second;
  }
  // In [low, high].
  double number(const std::string& key, double low, double high) const {
    const std::string value = text(key);
    double number = NAN;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    require_data(whole && number >= low && number <= high,
                 "{}: __metadata__: {}: expected a number from {} to {}, got '{}'",
                 file_.path().string(), key, low, high, clipped(value, 40));
    return number;
  }

 private:
  const SafetensorsFile& file_;
};

// One run over the file; remembers which tensors it has read.
class RecordedRun {
 public:
  RecordedRun(Model& model, const SafetensorsFile& file) : model_(model), file_(file) {
    ids_ = get("input_ids");
    require_data(ids_.ndim() == 3 && ids_.numel() > 0 && ids_.dim(2) >= 2,
                 "{}: input_ids: expected [steps, sequences, tokens] with 2 tokens or more, got {}",
                 where(), ids_.shape());
    require_data(
        ids_.dim(2) <= model.context_limit(),
        "{}: input_ids: expected sequences of at most {} tokens, the model's context, got {}",
        where(), model.context_limit(), ids_.dim(2));
    losses_ = get_by_step("losses");
    norms_ = get_by_step("grad_norms");
    for (const TensorEntry& entry : file.entries()) {
      if (entry.name.starts_with(kFinal)) check_final(entry);
    }
  }

  VerifyReport run(const Trajectory& trajectory) {
    const RuleOptions rules{.matrices = trajectory.matrices};
    ParameterStore& parameters = model_.parameters();
    Optimizer optimizer(parameters, assign_rules(parameters.specs(), rules), trajectory.options);
    Comparison losses("losses", Metric::relative, kLossBound);
    Comparison norms("grad_norms", Metric::relative, kLossBound);
    const int64_t steps = ids_.dim(0);
    Progress progress("replaying", steps, "steps");
    for (int64_t k = 0; k < steps; ++k) {
      const MicroBatch batch = batch_of(k);
      const double loss = accumulate_gradients(model_, {&batch, 1}).loss;
      const StepReport step = optimizer.step(trajectory.lr);
      losses.add(format("losses[{}]", k), full({1}, DType::f64, loss), element(losses_, k));
      norms.add(format("grad_norms[{}]", k), full({1}, DType::f64, step.gradients.norm),
                element(norms_, k));
      progress.add(1);
    }
    report_.checks = {losses.check(), norms.check()};
    finals();
    for (const TensorEntry& entry : file_.entries()) {
      if (!read_.contains(entry.name)) report_.ignored.push_back(entry.name);
    }
    for (const auto& [key, value] : file_.metadata()) {
      if (!kKnown.contains(key)) report_.ignored.push_back("__metadata__." + key);
    }
    return std::move(report_);
  }

 private:
  std::string where() const { return file_.path().string(); }

  Tensor get(const std::string& name) {
    require_data(file_.contains(name), "{}: expected a tensor named '{}', got none", where(), name);
    read_.insert(name);
    return file_.tensor(name);
  }
  Tensor get_by_step(const std::string& name) {
    const Tensor t = get(name);
    require_data(t.shape() == Shape{ids_.dim(0)},
                 "{}: {}: expected [{}], one for each step of input_ids, got {}", where(), name,
                 ids_.dim(0), t.shape());
    return t;
  }
  static Tensor element(const Tensor& t, int64_t i) {
    return t.view({t.numel(), 1}).slice_rows(i, i + 1);
  }

  MicroBatch batch_of(int64_t step) const {
    const Tensor rows = ids_.slice_rows(step * ids_.dim(1), (step + 1) * ids_.dim(1));
    return next_token_batch(rows, model_.tokens(),
                            format("{}: input_ids of step {}", where(), step));
  }

  void check_final(const TensorEntry& entry) const {
    const std::string name = entry.name.substr(std::string_view(kFinal).size());
    require_data(model_.parameters().contains(name), "{}: {}: the model has no parameter '{}'",
                 where(), entry.name, name);
    const Shape& want = model_.parameters()[name].shape();
    require_data(entry.shape == want, "{}: {}: expected shape {}, got {}", where(), entry.name,
                 want, entry.shape);
  }

  void finals() {
    Comparison check("final", Metric::relative_norm, kFinalBound);
    bool any = false;
    for (const TensorEntry& entry : file_.entries()) {
      if (!entry.name.starts_with(kFinal)) continue;
      const std::string name = entry.name.substr(std::string_view(kFinal).size());
      check.add(entry.name, model_.parameters()[name], get(entry.name));
      any = true;
    }
    if (any) report_.checks.push_back(check.check());
  }

  Model& model_;
  const SafetensorsFile& file_;
  VerifyReport report_;
  std::set<std::string> read_;
  Tensor ids_, losses_, norms_;
};

}  // namespace

Trajectory read_trajectory(const SafetensorsFile& file) {
  const Hyper hyper(file);
  const std::string optimizer = hyper.text("optimizer");
  require_data(optimizer == "muon" || optimizer == "adamw",
               "{}: __metadata__: optimizer: expected muon or adamw, got '{}'",
               file.path().string(), clipped(optimizer, 40));
  constexpr double kBelowOne = 1 - 1e-9;
  Trajectory t;
  t.matrices = optimizer == "muon" ? UpdateRule::muon : UpdateRule::adamw;
  t.lr = hyper.number("lr", 0, 1e3);
  t.options.weight_decay = hyper.number("weight_decay", 0, 1e3);
  t.options.clip_norm = hyper.number("clip_norm", 0, 1e30);
  t.options.adamw = {.beta1 = hyper.number("adamw_beta1", 0, kBelowOne),
                     .beta2 = hyper.number("adamw_beta2", 0, kBelowOne),
                     .eps = hyper.number("adamw_eps", 1e-30, 1e3)};
  if (t.matrices == UpdateRule::muon) {
    t.options.muon.momentum = hyper.number("muon_momentum", 0, kBelowOne);
    t.options.muon.scale = hyper.number("muon_scale", 1e-30, 1e3);
    t.options.muon.newton_schulz.steps = static_cast<int>(hyper.number("muon_ns_steps", 1, 100));
  }
  return t;
}

VerifyReport verify_trajectory(Model& model, const SafetensorsFile& file, UpdateRule matrices) {
  const Trajectory trajectory = read_trajectory(file);
  require(trajectory.matrices == matrices,
          "{}: expected a trajectory of {}, got one of {}; say --optimizer {}",
          file.path().string(), matrices, trajectory.matrices, trajectory.matrices);
  const DType dtype = model.parameters().dtype();
  require(dtype != DType::bf16,
          "verify: expected f32 or f64 for a trajectory, whose bounds are those of f32, got bf16");
  return RecordedRun(model, file).run(trajectory);
}

}  // namespace tephra
