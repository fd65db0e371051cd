// SPDX-License-Identifier: Apache-2.0
// How fast every op is, as a share of a peer that does the same amount of the same kind of work:
// the matrix library at the same shapes, or plain memory streams of the same read/write mix. Passes
// of op and peer alternate, so what else the machine does slows both.
#pragma once

#include <string>
#include <vector>

#include "tephra/autograd/parameter.h"
#include "tephra/device/ceilings.h"
#include "tephra/ops/op_spec.h"

namespace tephra {

struct BenchOptions {
  double seconds = 0.5;  // for each row
  bool backward = false;
};

struct BenchRow {
  std::string op, bench;
  bool backward = false;
  int passes = 0;
  double seconds = 0;  // the best pass
  double flops = 0, bytes = 0;
  std::string peer;  // empty: the spec states no work to compare
  double peer_seconds = 0;
  double share = 0;        // of the peer's rate
  int64_t peak_bytes = 0;  // of activations and workspace, beside what was there before
};

// Every op of the registry and the whole model, in the order of the output.
std::vector<OpSpec> bench_specs();
// Those named, all when none is; one that does not exist is a Fault::usage that names the nearest.
std::vector<OpSpec> bench_specs(const std::vector<std::string>& names);

std::vector<BenchRow> bench_ops(const std::vector<OpSpec>& specs, const BenchOptions& options,
                                const Ceilings& ceilings);

// A forward and backward pass of the whole model as one more spec, named "model".
OpSpec model_bench_spec();
// The parameters of that model, and the tokens of its middle bench.
std::vector<ParameterSpec> bench_model_parameters();
inline constexpr int64_t kBenchModelTokens = 2048;

}  // namespace tephra
