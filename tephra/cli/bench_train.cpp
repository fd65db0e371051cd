// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_train.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/cli/bench_report.h"
#include "tephra/device/fma_peak.h"
#include "tephra/device/kernel_times.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"

namespace tephra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Every row is bound by its products: it needs no ceiling but its peer.
const Ceilings kNoStreams{};
// What Muon gives Newton-Schulz at once.
constexpr int64_t kBatchBytes = int64_t{32} << 20;

// Seconds of each kernel in the fastest of a few passes.
void measure_kernels(TrainSubject& subject, bool quick, TrainBench& bench) {
  bench.kernels_pass_seconds = kInfinity;
  for (int pass = 0; pass < (quick ? 1 : 3); ++pass) {
    stop_if_interrupted();
    std::map<std::string, KernelShare> shares;
    double seconds = 0;
    subject.model().parameters().clear_gradients();
    for (const MicroBatch& part : subject.batch()) {
      Tape tape;
      Tensor loss;
      const auto run = [&](double KernelShare::*member, FunctionRef<void()> work) {
        const KernelTimes times;
        seconds += seconds_of(work);
        for (const auto& [name, entry] : times.entries()) {
          shares[name].*member += entry.seconds;
        }
      };
      run(&KernelShare::forward_seconds, [&] {
        loss = subject.model().loss(subject.model().forward(part.ids_N, part.segments),
                                    part.targets_N, 1.0);
      });
      run(&KernelShare::backward_seconds, [&] { tape.backward(loss); });
    }
    if (seconds >= bench.kernels_pass_seconds) continue;
    bench.kernels_pass_seconds = seconds;
    bench.kernels.clear();
    for (auto& [name, share] : shares) {
      share.name = name;
      bench.kernels.push_back(share);
    }
  }
  std::sort(bench.kernels.begin(), bench.kernels.end(),
            [](const KernelShare& a, const KernelShare& b) { return a.seconds() > b.seconds(); });
}

std::vector<NewtonSchulzShare> muon_shapes(TrainSubject& subject) {
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  const std::vector<ParameterSpec>& specs = subject.model().parameters().specs();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (subject.optimizer().rules()[i].rule != UpdateRule::muon) continue;
    const Matrices m = matrices_of(specs[i]);
    counts[{m.rows, m.cols}] += m.count;
  }
  std::vector<NewtonSchulzShare> shapes;
  for (const auto& [shape, count] : counts) {
    const int64_t some = kBatchBytes / (4 * shape.first * shape.second);
    shapes.push_back({.rows = shape.first,
                      .cols = shape.second,
                      .matrices = count,
                      .measured = std::clamp<int64_t>(some, 1, count),
                      .row = {}});
  }
  return shapes;
}

OpBench newton_schulz_bench(const NewtonSchulzShare& s, const NewtonSchulzOptions& options) {
  const int64_t count = s.measured;
  const double scale = 1 / std::sqrt(static_cast<double>(s.rows * s.cols));
  return {.name = format("{} x {} x {}", count, s.rows, s.cols),
          .inputs = {InputSpec::stream({count, s.rows, s.cols}, 0, scale)},
          .run = [options](const Tensors& in) -> Tensors {
            newton_schulz(in[0].detach(), options);
            return {};
          },
          .forward_flops = static_cast<double>(count) *
                           newton_schulz_flops(s.rows, s.cols, options.steps).needed};
}

void measure_newton_schulz(TrainSubject& subject, bool quick, TrainBench& bench) {
  const NewtonSchulzOptions& options = subject.optimizer().options().muon.newton_schulz;
  bench.newton_schulz = muon_shapes(subject);
  OpSpec spec{.name = "newton_schulz", .cases = {}, .benches = {}};
  for (const NewtonSchulzShare& s : bench.newton_schulz) {
    spec.benches.push_back(newton_schulz_bench(s, options));
  }
  const std::vector<BenchRow> rows = bench_ops({spec}, {.seconds = quick ? 0 : 0.3}, kNoStreams);
  for (size_t i = 0; i < rows.size(); ++i) bench.newton_schulz[i].row = rows[i];
}

BenchRow measure_step(TrainSubject& subject, double seconds) {
  OpBench step{.name = "forward + backward",
               .run = [&](const Tensors&) -> Tensors {
                 subject.forward_backward();
                 return {};
               },
               .forward_flops = subject.work().model_flops};
  return bench_ops({{.name = "step", .cases = {}, .benches = {step}}}, {.seconds = seconds},
                   kNoStreams)[0];
}

Peaks peaks_of(const BenchRow& step) {
  const FmaPeak fma = fma_peak(num_threads());
  return {.gemm = step.flops / step.seconds / step.share,
          .datasheet = fma.gflops() * 1e9,
          .datasheet_text = fma.text()};
}

}  // namespace

double TrainBench::newton_schulz_share() const {
  double seconds = 0, at_peak = 0;
  for (const NewtonSchulzShare& s : newton_schulz) {
    const double all = static_cast<double>(s.matrices) * s.row.seconds;
    const double of_all = all / static_cast<double>(s.measured);
    seconds += of_all;
    at_peak += of_all * s.row.share;
  }
  return seconds > 0 ? at_peak / seconds : 0;
}

TrainBench bench_train(const TrainBenchOptions& o) {
  TrainBench bench;
  bench.load_average = load_average();
  warn_when_busy(bench.load_average);
  bench.tokens = o.tokens;
  {
    TrainSubject subject(o.config, o.tokens);
    bench.figures = subject.figures();
    bench.context = subject.context();
    bench.work = subject.work();
    bench.step = measure_step(subject, o.quick ? 0 : o.seconds);
    bench.peaks = peaks_of(bench.step);
    measure_kernels(subject, o.quick, bench);
    measure_newton_schulz(subject, o.quick, bench);
    bench.newton_schulz_flops = subject.optimizer().newton_schulz_flops();
    for (int i = 0; i < (o.quick ? 2 : 4); ++i) {
      const StepReport report = subject.optimizer_step();
      if (i == 0 || report.seconds() < bench.optimizer.seconds()) bench.optimizer = report;
    }
  }
  trim_memory();
  bench.growths = measure_growth(o);
  return bench;
}

}  // namespace tephra
