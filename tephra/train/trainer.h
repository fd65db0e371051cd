// SPDX-License-Identifier: Apache-2.0
// The training loop: for each step a batch, gradients, one update, a line of metrics, and now and
// then a checkpoint and a look at held-out data. It may be stopped at any instant and resumed; the
// bytes that come out are those of the run that was never stopped.
#pragma once

#include <memory>
#include <optional>

#include "tephra/train/config.h"
#include "tephra/train/evaluation.h"
#include "tephra/train/event_file.h"
#include "tephra/train/live_line.h"
#include "tephra/train/metrics.h"
#include "tephra/train/run_speed.h"
#include "tephra/train/run_state.h"

namespace tephra {

// What a run is made of; the command puts it together.
struct TrainParts {
  RunConfig config;
  Json model_config;  // native
  std::unique_ptr<Model> model;
  std::unique_ptr<StepData> data;
  std::shared_ptr<const Tokenizer> tokenizer;  // for evaluations
  Path run_dir;
  Peaks peaks;            // that MFU is a share of
  int64_t try_steps = 0;  // of a dry run, which saves no checkpoint; 0: all of them
};

// Fault::usage for a name that is no op class; it says which setting has it.
Recompute recompute_of(const std::vector<std::string>& names,
                       const char* setting = "step.recompute");

// What the settings ask of an optimizer over these parameters.
OptimizerOptions optimizer_options(const OptimizerSettings& settings);
std::vector<ParameterRule> optimizer_rules(const std::vector<ParameterSpec>& specs,
                                           const OptimizerSettings& settings);

struct TrainSummary {
  int64_t steps = 0;  // done in this process
  double seconds = 0;
  double loss = 0;  // of the last step
  std::optional<double> validation_loss;
  std::optional<double> accuracy;  // of the last evaluation
  int64_t skipped = 0;
  CheckpointStats checkpoints;
  SpeedTotals speed;
  Peaks peaks;  // as they are known at the end
};

class Trainer {
 public:
  // Takes the run folder's lock.
  explicit Trainer(TrainParts parts);
  ~Trainer();

  // From `step` (steps done) to the end; saves and throws Fault::interrupted when asked to stop.
  TrainSummary run();

  // Goes on from the newest good checkpoint of the run folder, if there is one; the steps done.
  int64_t resume();
  // Goes on from this one: a step-N of this run (what came later is set aside) or of another, or
  // another run's newest. Fault::usage when that would leave this run's own checkpoints behind.
  int64_t resume_from(const Path& path);
  // Sets the checkpoints that the folder has aside, so that they are never resumed from; 0.
  int64_t start_afresh();

  const Phases& phases() const { return phases_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  struct StepResult;

  int64_t go_on_after(const Checkpoint& checkpoint);
  void enter_phase(int64_t phase);
  StepResult do_step(const StepInfo& info);
  bool pass_over(const StepInfo& info, const std::string& why);
  bool roll_back(const StepInfo& info, const std::string& why);
  void count_rollback(int64_t to, const StepInfo& info, const std::string& why);
  void open_logs(int64_t last_step);
  ModelFigures figures_of(int64_t context) const;
  void save(int64_t step, bool regular);
  void finish_pending();
  static void close_row(Json& row, Json timing);
  [[noreturn]] void stop_here();
  void log_step(const StepInfo& info, const StepResult& result);
  bool look_at_held_out(const StepInfo& info, Json& row);
  void write_row(const Json& row);
  std::optional<double> validate(const StepInfo& info);
  bool validation_due() const;
  bool evaluation_due() const;
  bool due(int64_t every, int64_t done) const;
  RunState state();

  TrainParts parts_;
  std::string config_text_;
  Phases phases_;
  Recompute recompute_;
  Optimizer optimizer_;
  BalanceController balance_;
  Guard guard_;
  Evaluation evaluation_;
  std::vector<std::string> data_identities_;
  std::vector<SkippedSamples> skipped_;

  RunLock lock_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<CheckpointWriter> writer_;
  LiveLine live_;
  RunSpeed speed_;

  int64_t step_ = 0;    // steps done
  int64_t phase_ = -1;  // entered
  Json pending_;        // the line of the last step, when its evaluation was cut short
  std::optional<double> first_rope_theta_;  // of the model as it was made
  int64_t rolled_back_to_ = -1;             // the step of the last rollback's checkpoint
  int64_t rollbacks_ = 0;                   // to it
  double smooth_loss_ = 0;
  TrainSummary summary_;
};

}  // namespace tephra
