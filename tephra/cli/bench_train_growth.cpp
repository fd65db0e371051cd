// SPDX-License-Identifier: Apache-2.0
// How the time of a step grows with its tokens, with layers, and with experts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tephra/base/clock.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/cli/bench_train.h"
#include "tephra/device/memory.h"

namespace tephra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The best of two passes, or one where a pass is long.
double best_seconds(bool quick, FunctionRef<double()> pass) {
  constexpr double kLong = 2;
  const double first = pass();
  stop_if_interrupted();
  return quick || first > kLong ? first : std::min(first, pass());
}

void measure_optimizer(TrainSubject& subject, bool quick, GrowthPoint& point) {
  point.optimizer_seconds = kNever;
  best_seconds(quick, [&] {
    const StepReport r = subject.optimizer_step();
    if (r.seconds() < point.optimizer_seconds) {
      point.optimizer_seconds = r.seconds();
      point.muon_seconds = r.muon_seconds;
    }
    return r.seconds();
  });
}

GrowthPoint measure_step(TrainSubject& subject, bool quick) {
  GrowthPoint point;
  point.parameters = subject.figures().parameters;
  point.model_flops = subject.work().model_flops;
  point.newton_schulz_flops = subject.optimizer().newton_schulz_flops().needed;
  point.step_seconds =
      best_seconds(quick, [&] { return seconds_of([&] { subject.forward_backward(); }); });
  return point;
}

// One model for all points: its optimizer knows nothing of tokens.
Growth token_growth(const TrainBenchOptions& o, Progress& progress) {
  Growth growth{"tokens", 0, {}};
  std::vector<int64_t> sizes{o.tokens / 4, o.tokens / 2, o.tokens};
  if (!o.quick) sizes.insert(sizes.end(), {2 * o.tokens, 4 * o.tokens, 8 * o.tokens});
  for (int64_t& size : sizes) size = std::max<int64_t>(1, whole_documents(o.config, size));
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  TrainSubject subject(o.config, sizes.front());
  for (const int64_t size : sizes) {
    subject.set_tokens(size);
    growth.points.push_back(measure_step(subject, o.quick));
    growth.points.back().size = size;
    progress.add(1);
  }
  measure_optimizer(subject, o.quick, growth.points.front());
  for (GrowthPoint& p : growth.points) {
    p.optimizer_seconds = growth.points.front().optimizer_seconds;
    p.muon_seconds = growth.points.front().muon_seconds;
  }
  return growth;
}

// Half, once and twice as much of what `set` sets.
Growth model_growth(const TrainBenchOptions& o, const std::string& of, int64_t usual,
                    const std::function<void(ModelSettings& model, int64_t size)>& set,
                    Progress& progress) {
  Growth growth{of, whole_documents(o.config, std::max<int64_t>(1, o.tokens / 2)), {}};
  for (const int64_t size : {usual / 2, usual, 2 * usual}) {
    if (size == 0) continue;
    RunConfig config = o.config;
    set(config.model, size);
    TrainSubject subject(config, growth.tokens);
    growth.points.push_back(measure_step(subject, o.quick));
    growth.points.back().size = size;
    measure_optimizer(subject, o.quick, growth.points.back());
    progress.add(1);
  }
  trim_memory();
  return growth;
}

}  // namespace

std::vector<Growth> measure_growth(const TrainBenchOptions& o) {
  const Json model = bench_model_json(o.config);
  const Json* experts = model.find("num_experts");
  const bool moe = experts && experts->is_int() && experts->integer() > 1;
  Progress progress("measuring growth", (o.quick ? 3 : 6) + (moe ? 6 : 3), "points");
  std::vector<Growth> growths;
  growths.push_back(token_growth(o, progress));
  growths.push_back(model_growth(
      o, "layers", model.find("num_hidden_layers")->integer(),
      [](ModelSettings& m, int64_t size) { m.num_hidden_layers = size; }, progress));
  if (moe) {
    growths.push_back(model_growth(
        o, "experts", experts->integer(),
        [](ModelSettings& m, int64_t size) { m.num_experts = size; }, progress));
  }
  return growths;
}

double Growth::exponent(double GrowthPoint::*seconds) const {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const GrowthPoint& p : points) {
    const double a = std::log(static_cast<double>(p.size)), b = std::log(p.*seconds);
    n += 1, x += a, y += b, xx += a * a, xy += a * b;
  }
  const double spread = n * xx - x * x;
  return spread > 0 ? (n * xy - x * y) / spread : 0;
}

}  // namespace tephra
