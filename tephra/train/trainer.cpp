// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/device/memory.h"
#include "tephra/train/checkpoint_export.h"
#include "tephra/train/run_folder.h"

namespace tephra {
namespace {

// Of a checkpoint's state, beside RunState's.
constexpr const char* kDataKey = "data";
constexpr const char* kPendingKey = "pending_line";

BalanceController balance_controller(Model& model, const BalancingSettings& s) {
  std::vector<BalancedLayer> layers;
  for (const BalancedRouter& r : model.routers()) layers.push_back({r.name, r.biases, r.experts});
  return {std::move(layers),
          {.lr = s.lr, .adamw = {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps}}};
}

CheckpointOptions checkpoint_options(const CheckpointSettings& s, std::function<void()> before) {
  return {.keep = {.last_n = s.keep_last, .every_m = s.keep_every},
          .on_failure = s.on_failure == "stop" ? OnFailedSave::stop : OnFailedSave::carry_on,
          .before_commit = std::move(before)};
}

// What TensorBoard gets of a row: its numbers, and the mean of its lists.
std::vector<Scalar> scalars_of(const Json& row, const std::string& prefix = "") {
  std::vector<Scalar> out;
  for (const auto& [key, value] : row.object()) {
    const std::string name = prefix + key;
    if (value.is_number() && key != "step") out.emplace_back(name, value.number());
    if (value.is_object()) {
      for (Scalar& s : scalars_of(value, name + "/")) out.push_back(std::move(s));
    }
    if (key == "entropy") {
      for (size_t l = 0; l < value.array().size(); ++l) {
        out.emplace_back(format("entropy/layer_{}", l), value.array()[l].number());
      }
    }
  }
  return out;
}

// Of the full layers; nothing when the config does not say.
std::optional<double> rope_theta_of(const Json& config) {
  const Json* at = &config;
  for (const char* key : {"rope_parameters", "hybrid", "rope_theta"}) {
    at = at->is_object() ? at->find(key) : nullptr;
    if (at == nullptr) return std::nullopt;
  }
  return at->is_number() ? std::optional(at->number()) : std::nullopt;
}

// step-N lies in RUN/checkpoints.
Path run_folder_of(const Checkpoint& checkpoint) {
  return std::filesystem::canonical(checkpoint.folder()).parent_path().parent_path();
}

// The run so far, for its report; the log drops what comes after the step it goes on from.
void take_metrics(const Path& from, const Path& to) {
  std::filesystem::remove(to / kMetricsName);
  if (std::filesystem::exists(from / kMetricsName)) {
    std::filesystem::copy_file(from / kMetricsName, to / kMetricsName);
  }
}

Json to_json(const std::vector<std::string>& lines) {
  return Json::Array(lines.begin(), lines.end());
}

// The same positions of other data are other tokens.
void check_same_data(const Fields& saved, const std::vector<std::string>& now, const Path& where) {
  const Json* before = saved.json().find(kDataKey);
  if (before == nullptr || before->dump() == to_json(now).dump()) return;
  log_warning("the data is not what it was at {}; the run goes on with what is there now:",
              where.filename().string());
  for (const std::string& line : now) log_warning("  {}", line);
}

Json array_of(const std::vector<ExpertLoad>& loads, double ExpertLoad::*member) {
  Json out(Json::Array{});
  for (const ExpertLoad& load : loads) out.push_back(load.*member);
  return out;
}

// Shares of the tokens that went to experts, by layer.
Json load_shares(const std::vector<std::vector<int64_t>>& counts) {
  Json out(Json::Array{});
  for (const std::vector<int64_t>& layer : counts) {
    double routed = 0;
    for (size_t e = 0; e + 1 < layer.size(); ++e) routed += static_cast<double>(layer[e]);
    Json shares(Json::Array{});
    for (size_t e = 0; e + 1 < layer.size(); ++e) {
      shares.push_back(routed > 0 ? static_cast<double>(layer[e]) / routed : 0.0);
    }
    out.push_back(shares);
  }
  return out;
}

UpdateRule update_rule(const std::string& name) {
  if (name == "frozen") return UpdateRule::frozen;
  return name == "muon" ? UpdateRule::muon : UpdateRule::adamw;
}

}  // namespace

OptimizerOptions optimizer_options(const OptimizerSettings& s) {
  OptimizerOptions o;
  o.adamw = {.beta1 = s.adamw_beta1, .beta2 = s.adamw_beta2, .eps = s.adamw_eps};
  o.muon.momentum = s.muon_momentum;
  o.muon.nesterov = s.muon_nesterov;
  o.muon.scale = s.muon_scale;
  o.muon.newton_schulz.steps = static_cast<int>(s.newton_schulz_steps);
  o.muon.newton_schulz.bf16 = s.newton_schulz_dtype == "bf16";
  o.weight_decay = s.weight_decay;
  o.clip_norm = s.clip_norm;
  return o;
}

std::vector<ParameterRule> optimizer_rules(const std::vector<ParameterSpec>& specs,
                                           const OptimizerSettings& s) {
  RuleOptions options;
  options.matrices = update_rule(s.matrices);
  for (const RuleSettings& r : s.rules) {
    RuleOverride o{.names = r.names, .decays = r.decays, .rate = r.rate};
    if (r.rule) o.rule = update_rule(*r.rule);
    options.overrides.push_back(o);
  }
  return assign_rules(specs, options);
}

Recompute recompute_of(const std::vector<std::string>& names, const char* setting) {
  Recompute chosen;
  for (const std::string& name : names) {
    if (name == "all") return Recompute::everything();
    const std::optional<OpClass> c = parse_op_class(name);
    require(c.has_value(), "{}: '{}' is no op class; expected some of {}, or all", setting, name,
            op_class_names());
    chosen.add(*c);
  }
  return chosen;
}

struct Trainer::StepResult {
  Accumulated gradients;
  GradientNorm norm;
  std::string bad;  // why the step was not applied; empty when it was
  std::vector<ExpertLoad> loads;
  StepTimes times;
};

Trainer::Trainer(TrainParts parts)
    : parts_(std::move(parts)),
      config_text_(dump_config(parts_.config)),
      phases_(parts_.config.phases),
      recompute_(recompute_of(parts_.config.step.recompute)),
      optimizer_(parts_.model->parameters(),
                 optimizer_rules(parts_.model->parameters().specs(), parts_.config.optimizer),
                 optimizer_options(parts_.config.optimizer)),
      balance_(balance_controller(*parts_.model, parts_.config.balancing)),
      guard_(parts_.config.guard),
      evaluation_(parts_.config, parts_.tokenizer),
      data_identities_(parts_.data->identities()),
      lock_(parts_.run_dir),
      speed_(parts_.peaks),
      first_rope_theta_(rope_theta_of(parts_.model_config)) {}

Trainer::~Trainer() = default;

RunState Trainer::state() { return {*parts_.model, optimizer_, balance_, guard_, skipped_}; }

int64_t Trainer::resume() {
  const std::optional<Checkpoint> checkpoint = open_newest(parts_.run_dir);
  if (!checkpoint) return 0;
  const int64_t done = go_on_after(*checkpoint);
  set_aside_after(parts_.run_dir, done);
  return done;
}

int64_t Trainer::resume_from(const Path& path) {
  const Checkpoint checkpoint = open_named(path);
  const Path other = run_folder_of(checkpoint);
  if (std::filesystem::equivalent(other, parts_.run_dir)) {
    const bool listed = checkpoint.folder().filename() == format("step-{}", checkpoint.step());
    const int64_t done = go_on_after(checkpoint);
    set_aside_after(parts_.run_dir, listed ? done : done - 1);
    return done;
  }
  const std::vector<CheckpointInfo> own = list_checkpoints(parts_.run_dir);
  if (!own.empty()) {
    throw Error(Fault::usage,
                format("{}: has checkpoints of its own, up to step {}, which going on from {} "
                       "would leave behind",
                       parts_.run_dir.string(), own.back().step, path.string()),
                "--resume auto goes on with them; another --out begins another run");
  }
  const int64_t done = go_on_after(checkpoint);
  take_metrics(other, parts_.run_dir);
  return done;
}

int64_t Trainer::go_on_after(const Checkpoint& checkpoint) {
  const Fields saved(checkpoint.state(), (checkpoint.folder() / kManifestName).string());
  check_same_run(saved.string("config"), config_text_, checkpoint.folder());
  if (const Json* model = saved.json().find(kModelConfigKey); model && model->is_object()) {
    const auto& all = parts_.config.phases;
    const bool own_theta = std::any_of(
        all.begin(), all.end(), [](const PhaseSettings& p) { return p.rope_theta.has_value(); });
    check_same_model(*model, parts_.model_config, own_theta, checkpoint.folder());
  }
  check_same_data(saved, data_identities_, checkpoint.folder());
  state().load(checkpoint);
  const Json* pending = checkpoint.state().find(kPendingKey);
  pending_ = pending ? *pending : Json();
  parts_.data->set_skipped(skipped_);
  step_ = checkpoint.step();
  return step_;
}

int64_t Trainer::start_afresh() {
  const int64_t left = set_aside_after(parts_.run_dir, -1);
  if (left > 0) log_warning("{} checkpoints of an earlier run are set aside", left);
  return 0;
}

// The context is a matter of the data; what the model must know is its RoPE base: that of the phase
// or the last one before it, which after a rollback may be the model's own again.
void Trainer::enter_phase(int64_t phase) {
  if (phase == phase_) return;
  phase_ = phase;
  std::optional<double> theta = first_rope_theta_;
  for (int64_t p = 0; p <= phase; ++p) {
    if (phases_.settings(p).rope_theta) theta = phases_.settings(p).rope_theta;
  }
  if (!theta || theta == rope_theta_of(parts_.model_config)) return;
  parts_.model->set_rope_theta(*theta);
  parts_.model_config["rope_parameters"]["hybrid"]["rope_theta"] = *theta;
}

// Lines after `last_step` are another life's: dropped here, superseded in TensorBoard.
void Trainer::open_logs(int64_t last_step) {
  metrics_ = nullptr;  // what it still holds is written before the file is cut
  metrics_ = std::make_unique<MetricsLog>(parts_.run_dir, last_step, parts_.config.log.every_steps);
  if (!parts_.config.log.tensorboard) return;
  events_ = std::make_unique<EventFile>(parts_.run_dir / "tensorboard", last_step + 1);
}

Trainer::StepResult Trainer::do_step(const StepInfo& info) {
  StepResult r;
  const double begin = steady_seconds();
  const std::vector<MicroBatch> parts = parts_.data->batch(info.step);
  r.times.data = steady_seconds() - begin;
  r.gradients = accumulate_gradients(*parts_.model, parts, {.recompute = recompute_});
  const double computed = steady_seconds();
  r.norm = clip(optimizer_.sum_of_squares(), parts_.config.optimizer.clip_norm);
  r.bad = guard_.judge(r.gradients.loss, r.norm.finite);
  if (r.bad.empty()) {
    optimizer_.step(info.lr, r.norm);
    if (parts_.config.balancing.lr > 0) balance_.update(r.gradients.expert_counts);
  }
  for (size_t l = 0; l < r.gradients.expert_counts.size(); ++l) {
    r.loads.push_back(expert_load(format("{}", l), r.gradients.expert_counts[l]));
  }
  r.times.optimizer = steady_seconds() - computed;
  r.times.seconds = steady_seconds() - begin;
  return r;
}

ModelFigures Trainer::figures_of(int64_t context) const {
  const ModelKind& kind = model_kind(parts_.model_config, "config.json");
  return kind.figures(parts_.model_config, "config.json", context);
}

TrainSummary Trainer::run() {
  const double begin = steady_seconds();
  open_logs(pending_.is_null() ? step_ : step_ - 1);
  writer_ = std::make_unique<CheckpointWriter>(
      lock_, checkpoint_options(parts_.config.checkpoints, [this] { metrics_->flush(); }));
  const bool dry = parts_.try_steps > 0;
  if (!dry) writer_->prepare(state().tensors());
  const int64_t end = dry ? std::min(phases_.steps(), step_ + parts_.try_steps) : phases_.steps();

  speed_.begin();
  if (!pending_.is_null()) finish_pending();
  while (step_ < end) {
    const StepInfo info = phases_.at(step_);
    enter_phase(info.phase);
    const StepResult result = do_step(info);
    if (!result.bad.empty() && !pass_over(info, result.bad)) continue;
    ++step_;
    ++summary_.steps;
    log_step(info, result);
    const bool stop = interrupted();
    // A bad step left the model as it was, perhaps broken: no good checkpoint makes room for it.
    const bool worth = result.bad.empty() || step_ == phases_.steps();
    if (!dry && (stop || (worth && due(parts_.config.checkpoints.every_steps, step_)))) {
      save(step_, !stop);
    }
    if (dry) stop_if_interrupted();
    if (stop) stop_here();
  }
  speed_.end();
  writer_->wait();
  summary_.speed = speed_.totals();
  summary_.peaks = speed_.peaks();
  summary_.seconds = steady_seconds() - begin;
  summary_.checkpoints = writer_->stats();
  return summary_;
}

bool Trainer::due(int64_t every, int64_t done) const {
  return done == phases_.steps() || (every > 0 && done % every == 0);
}

void Trainer::save(int64_t step, bool regular) {
  const double begin = steady_seconds();
  Json saved = state().save(config_text_, parts_.model_config);
  saved[kDataKey] = to_json(data_identities_);
  if (!pending_.is_null()) saved[kPendingKey] = pending_;
  writer_->save(step, state().tensors(), std::move(saved));
  speed_.add_pause(steady_seconds() - begin, regular);
}

void Trainer::stop_here() {
  writer_->wait();
  throw Error(Fault::interrupted,
              format("stopped after step {} of {}, which is saved", step_, phases_.steps()),
              "run the same command again to go on");
}

// What differs from run to run comes last, with what the evaluation noted of it.
void Trainer::close_row(Json& row, Json timing) {
  if (const Json* noted = row.find("timing")) timing["evaluation"] = *noted->find("evaluation");
  Json closed;
  for (const auto& [key, value] : row.object()) {
    if (key != "timing") closed[key] = value;
  }
  closed["timing"] = std::move(timing);
  row = std::move(closed);
}

// The evaluation that the signal cut short, so that the step's line is as if there had been none.
void Trainer::finish_pending() {
  const StepInfo info = phases_.at(step_ - 1);
  enter_phase(info.phase);
  Json row, timing;
  for (const auto& [key, value] : pending_.object()) (key == "timing" ? timing : row[key]) = value;
  if (!look_at_held_out(info, row)) stop_here();
  close_row(row, std::move(timing));
  pending_ = Json();
  write_row(row);
  if (due(parts_.config.checkpoints.every_steps, step_)) save(step_, true);
}

// Whether the step counts as done (skipped); else the run has gone back.
bool Trainer::pass_over(const StepInfo& info, const std::string& why) {
  ++summary_.skipped;
  if (guard_.exhausted()) {
    throw Error(Fault::data,
                format("step {}: {}; {} of the last {} steps were bad", info.step + 1, why,
                       guard_.recent_skips(), parts_.config.guard.window),
                "lower the learning rate, look at the data, or raise guard.most_skips");
  }
  if (parts_.config.guard.action == "rollback" && roll_back(info, why)) return false;
  log_warning("step {}: {}; the step is skipped", info.step + 1, why);
  return true;
}

// The guard's window forgets a bad step while the steps before it are done once more; a run that
// always comes to grief between the same two checkpoints would never end.
void Trainer::count_rollback(int64_t to, const StepInfo& info, const std::string& why) {
  rollbacks_ = to == rolled_back_to_ ? rollbacks_ + 1 : 1;
  rolled_back_to_ = to;
  if (rollbacks_ <= parts_.config.guard.most_skips) return;
  throw Error(Fault::data,
              format("step {}: {}; the run went back to step {} {} times and came no further",
                     info.step + 1, why, to, rollbacks_ - 1),
              "lower the learning rate, look at the data, or raise guard.most_skips");
}

// Back to the newest checkpoint, with the samples of the bad step, and of the steps before it that
// may have led there, left out.
bool Trainer::roll_back(const StepInfo& info, const std::string& why) {
  writer_->settle();
  const std::optional<Checkpoint> checkpoint = open_newest(parts_.run_dir);
  if (!checkpoint) {
    log_warning("there is no checkpoint to go back to");
    return false;
  }
  count_rollback(checkpoint->step(), info, why);
  const int64_t first =
      std::max(checkpoint->step(), info.step - parts_.config.guard.rollback_steps);
  const SkippedSamples bad = parts_.data->samples_of(first, info.step);
  const Guard judged = guard_;
  std::vector<SkippedSamples> skipped = skipped_;
  state().load(*checkpoint);
  guard_.keep_verdicts(judged);
  skipped.push_back(bad);
  skipped_ = merge_skipped(std::move(skipped));
  parts_.data->set_skipped(skipped_);
  step_ = checkpoint->step();
  phase_ = -1;
  open_logs(step_);
  log_warning("step {}: {}; back to step {}, without {} samples of the steps from {} on",
              info.step + 1, why, step_, bad.to - bad.from, first + 1);
  return true;
}

bool Trainer::validation_due() const {
  const ValidationSettings& s = parts_.config.validation;
  return s.samples > 0 && due(s.every_steps, step_);
}

bool Trainer::evaluation_due() const {
  return evaluation_.wanted() && due(parts_.config.evaluation.every_steps, step_);
}

// Adds what is due to the step's line; false when the program is asked to stop meanwhile.
bool Trainer::look_at_held_out(const StepInfo& info, Json& row) {
  if (validation_due()) {
    if (const std::optional<double> loss = validate(info)) {
      summary_.validation_loss = loss;
      row["val_loss"] = *loss;
    }
  }
  if (!evaluation_due()) return true;
  try {
    const double begin = steady_seconds();
    if (const auto result = evaluation_.run(*parts_.model)) {
      summary_.accuracy = result->mean;
      row["eval"] = result->accuracy;
      row["timing"]["evaluation"] = steady_seconds() - begin;
      log_info("step {}: {:.1f} % of the held-out tasks are right", step_, 100 * result->mean);
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::interrupted) throw;
    return false;
  }
  return true;
}

void Trainer::write_row(const Json& row) {
  metrics_->append(row);
  if (events_) events_->add(step_, scalars_of(row));
}

std::optional<double> Trainer::validate(const StepInfo& info) {
  const ValidationSettings& s = parts_.config.validation;
  const NoGrad no_grad;
  double sum = 0;
  int64_t targets = 0;
  for (const MicroBatch& part : parts_.data->validation(info.phase, s.samples)) {
    const Tensor h = parts_.model->forward(part.ids_N, part.segments);
    sum += parts_.model->loss(h, part.targets_N, 1.0).at(0);
    targets += count_targets(part);
  }
  return targets > 0 ? std::optional(sum / static_cast<double>(targets)) : std::nullopt;
}

void Trainer::log_step(const StepInfo& info, const StepResult& r) {
  const double loss = r.gradients.loss;
  summary_.loss = loss;
  if (std::isfinite(loss)) {
    smooth_loss_ = summary_.steps == 1 ? loss : 0.95 * smooth_loss_ + 0.05 * loss;
  }
  const auto tokens = static_cast<double>(info.tokens());
  const ModelFigures figures = figures_of(info.context);
  speed_.add_step(
      {.tokens = tokens,
       .model_flops = tokens * figures.train_flops_per_token,
       .six_n_flops = tokens * 6 * static_cast<double>(figures.active_without_embedding)},
      r.times);
  const int64_t memory =
      memory_use(parts_.model->parameters().device().kind)[kNumPurposes].peak_bytes;

  Json row;
  if (due(parts_.config.log.every_steps, step_) || validation_due() || evaluation_due()) {
    row["step"] = step_;
    row["tokens"] = info.tokens_before + info.tokens();
    row["phase"] = phases_.settings(info.phase).name;
    row["context"] = info.context;
    row["batch_tokens"] = info.tokens();
    row["loss"] = loss;
    row["lr"] = info.lr;
    row["grad_norm"] = r.norm.norm;
    row["clip_scale"] = r.norm.scale;
    row["skipped"] = !r.bad.empty();
    if (!r.loads.empty()) row["entropy"] = array_of(r.loads, &ExpertLoad::entropy);
    if (step_ % parts_.config.log.load_every_steps == 0 || step_ == phases_.steps()) {
      row["load"] = load_shares(r.gradients.expert_counts);
    }
    const bool looked = look_at_held_out(info, row);
    Json timing = speed_.line();
    timing["memory_bytes"] = memory;
    close_row(row, std::move(timing));
    if (looked) {
      write_row(row);
    } else {
      pending_ = row;
    }
  }

  const double rate = tokens / r.times.seconds;
  const double left = static_cast<double>(phases_.tokens() - info.tokens_before - info.tokens());
  live_.show({.step = step_,
              .steps = phases_.steps(),
              .phase = phases_.count() > 1 ? phases_.settings(info.phase).name : "",
              .loss = loss,
              .smooth_loss = smooth_loss_,
              .lr = info.lr,
              .tokens_per_second = rate,
              .mfu = speed_.last(),
              .memory_bytes = memory,
              .eta_seconds = left / rate});
}

}  // namespace tephra
