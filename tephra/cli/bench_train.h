// SPDX-License-Identifier: Apache-2.0
// The speed of training steps of a config on random tokens: forward and backward as a share of the
// matrix library's peak, where their time goes, the optimizer's part, and how all of it grows.
#pragma once

#include <string>
#include <vector>

#include "tephra/cli/bench_ops.h"
#include "tephra/cli/train_subject.h"

namespace tephra {

struct TrainBenchOptions {
  RunConfig config;  // its model, optimizer, step, and the context of its first phase
  int64_t tokens = 2048;
  double seconds = 6;  // of comparing forward and backward with the peak
  bool quick = false;  // fewer and smaller points
};

// Of one forward and backward pass.
struct KernelShare {
  std::string name;
  double forward_seconds = 0, backward_seconds = 0;

  double seconds() const { return forward_seconds + backward_seconds; }
};

// Newton-Schulz on the matrices of one shape.
struct NewtonSchulzShare {
  int64_t rows = 0, cols = 0;
  int64_t matrices = 0;  // of the model
  int64_t measured = 0;  // of these, all at once
  BenchRow row;
};

struct GrowthPoint {
  int64_t size = 0;  // tokens, layers or experts
  int64_t parameters = 0;
  double step_seconds = 0;  // forward and backward
  double optimizer_seconds = 0;
  double muon_seconds = 0;  // of these
  double model_flops = 0, newton_schulz_flops = 0;
};

struct Growth {
  std::string of;
  int64_t tokens = 0;  // a step; 0 when these grow
  std::vector<GrowthPoint> points;

  // t ~ size^exponent, by least squares over the points.
  double exponent(double GrowthPoint::*seconds) const;
};

struct TrainBench {
  ModelFigures figures;
  int64_t tokens = 0, context = 0;
  StepWork work;
  BenchRow step;  // forward and backward
  Peaks peaks;
  std::vector<KernelShare> kernels;  // of the fastest pass with them, the longest first
  double kernels_pass_seconds = 0;
  std::vector<NewtonSchulzShare> newton_schulz;
  StepReport optimizer;  // the fastest
  NewtonSchulzFlops newton_schulz_flops;
  std::vector<Growth> growths;
  double load_average = 0;

  double newton_schulz_share() const;  // of the peak, over all shapes as often as they occur
};

std::vector<Growth> measure_growth(const TrainBenchOptions& options);
TrainBench bench_train(const TrainBenchOptions& options);

void print(const TrainBench& bench, const TrainBenchOptions& options);
Json to_json(const TrainBench& bench, const TrainBenchOptions& options);

}  // namespace tephra
