// SPDX-License-Identifier: Apache-2.0
// The optimizer's share of a training step: Newton-Schulz against the matrix library's peak, the
// passes over memory against streams of the same mix, and whole steps of the model of `bench ops`.
#pragma once

#include <string>
#include <vector>

#include "tephra/cli/bench_report.h"

namespace tephra {

struct MatrixBatch {
  int64_t count, rows, cols;
};

// "8x512x1024": so many matrices of so many rows and columns. Fault::usage otherwise.
MatrixBatch parse_matrix_batch(const std::string& text);
std::vector<MatrixBatch> default_matrix_batches();

struct OptimizerBenchOptions {
  std::vector<MatrixBatch> batches;
  bool bf16 = false;     // Newton-Schulz rounds between products
  bool steps = true;     // whole optimizer and model steps, too
  int64_t elements = 0;  // of the passes over memory; 0: beyond every cache
};

std::vector<OpSpec> optimizer_bench_specs(const OptimizerBenchOptions& options);

// What the rows of Newton-Schulz would be if symmetric products were computed whole, and Muon's
// part of a training step.
struct OptimizerFigures {
  struct Full {
    std::string bench;
    double gflops;  // full products per second
    double share;   // of the peer's
  };
  std::vector<Full> full;
  double step_seconds = 0;   // forward + backward, of kBenchModelTokens; 0: not measured
  double adamw_seconds = 0;  // of an optimizer step without Muon
  double muon_seconds = 0;   // of one with it
  double step_flops = 0, newton_schulz_flops = 0;
};

OptimizerFigures optimizer_figures(const BenchReport& report, const OptimizerBenchOptions& options);

}  // namespace tephra
