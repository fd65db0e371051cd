// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_ops.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <thread>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr int kMinPasses = 3;
constexpr int64_t kMaxPeerBytes = int64_t{1} << 30;

// Something to time. `prepare` runs before each pass and is not timed.
struct Timed {
  std::function<void()> prepare;
  std::function<void()> work;
  double best_s = std::numeric_limits<double>::infinity();

  void pass() {
    if (!work) return;
    if (prepare) prepare();
    // Worker threads spin for a moment after their work; let those of the other side go to sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    best_s = std::min(best_s, seconds_of(work));
  }
};

// Returns the number of passes each side got, after one that only warms up.
int alternate(Timed& op, Timed& peer, double budget_s) {
  op.pass();
  peer.pass();
  op.best_s = peer.best_s = std::numeric_limits<double>::infinity();
  const double end = steady_seconds() + budget_s;
  int passes = 0;
  for (; passes < kMinPasses || steady_seconds() < end; ++passes) {
    stop_if_interrupted();
    op.pass();
    peer.pass();
  }
  return passes;
}

// What a pass has to do, by the spec.
struct Work {
  double flops, read_bytes, write_bytes;
  const std::vector<GemmShape>& gemms;

  double bytes() const { return read_bytes + write_bytes; }
};

Work work_of(const OpBench& b, bool backward) {
  if (backward) {
    return {b.backward_flops, b.backward_read_bytes, b.backward_write_bytes, b.backward_gemms};
  }
  return {b.forward_flops, b.forward_read_bytes, b.forward_write_bytes, b.forward_gemms};
}

bool bound_by_flops(const Work& w, const Ceilings& c) {
  if (w.bytes() == 0 || w.flops == 0) return w.flops > 0;
  const StreamMix mix = nearest_mix(w.read_bytes, w.write_bytes);
  double gb_per_s = c.streams.front().gb_per_s;
  for (const StreamCeiling& s : c.streams) {
    if (s.mix == mix) gb_per_s = s.gb_per_s;
  }
  return w.flops / (c.gemm_gflops * 1e9) > w.bytes() / (gb_per_s * 1e9);
}

// The peer, its name, and what share of its work per second `seconds` of the op comes to.
struct Peer {
  std::string name;
  Timed timed;
  double op_work = 0, peer_work = 0;

  double share(double seconds) const {
    return timed.work ? op_work / seconds / (peer_work / timed.best_s) : 0;
  }
};

Peer gemm_peer(const std::string& name, const std::vector<GemmShape>& shapes, double flops) {
  auto gemms = std::make_shared<GemmPeer>(shapes);
  const int threads = num_threads();
  return {
      name, {{}, [=] { gemms->run(threads); }}, flops > 0 ? flops : gemms->flops(), gemms->flops()};
}

Peer peer_of(const Work& w, const Ceilings& ceilings) {
  if (!w.gemms.empty()) return gemm_peer("sgemm, same shapes", w.gemms, w.flops);
  if (bound_by_flops(w, ceilings)) {
    return gemm_peer("sgemm, peak", {{.m = 1536, .n = 1536, .k = 1536}}, w.flops);
  }
  if (w.bytes() == 0) return {};
  const StreamMix mix = nearest_mix(w.read_bytes, w.write_bytes);
  const int64_t bytes = std::min(kMaxPeerBytes, static_cast<int64_t>(w.bytes()));
  auto streams = std::make_shared<StreamPeer>(mix, bytes);
  return {format("memory {}r {}w", mix.reads, mix.writes),
          {{}, [=] { streams->run(); }},
          w.bytes(),
          streams->bytes()};
}

// One op with its inputs, ready to run forward or with its gradient.
class Subject {
 public:
  explicit Subject(const OpBench& bench)
      : bench_(bench), inputs_(make_inputs(bench.inputs, DType::f32, 1)) {}

  Timed forward() {
    return {[this] { outputs_.clear(); }, [this] { outputs_ = bench_.run(inputs_); }};
  }

  Timed backward() {
    return {[this] { record(); }, [this] { tape_->backward(outputs_, dy_); }};
  }

  // For gradients that are computed in the forward pass: both passes together.
  Timed forward_and_backward() {
    return {[this] { reset(); },
            [this] {
              outputs_ = bench_.run(inputs_);
              tape_->backward(outputs_, dy_);
            }};
  }

  // The gradients that reach the outputs. Their values do not change the time.
  void make_output_gradients() {
    for (const Tensor& out : bench_.run(inputs_)) {
      const bool differentiable = out.defined() && computes(out.dtype());
      dy_.push_back(differentiable ? full(out.shape(), out.dtype(), 1) : Tensor());
    }
  }

  void reset() {
    outputs_.clear();
    tape_.reset();
    for (const Tensor& t : inputs_) {
      if (t.defined() && t.variable()) clear_gradient(t);
    }
    tape_.emplace();
  }

 private:
  void record() {
    reset();
    outputs_ = bench_.run(inputs_);
  }

  const OpBench& bench_;
  Tensors inputs_;
  Tensors dy_;
  Tensors outputs_;
  std::optional<Tape> tape_;
};

int64_t transient_bytes(const std::array<MemoryUse, kNumPurposes + 1>& use, bool peak) {
  int64_t bytes = 0;
  for (const Purpose purpose : {Purpose::activations, Purpose::workspace}) {
    const MemoryUse& u = use[static_cast<size_t>(purpose)];
    bytes += peak ? u.peak_bytes : u.bytes;
  }
  return bytes;
}

// What one pass allocates at its peak.
int64_t peak_of(Timed& timed) {
  if (timed.prepare) timed.prepare();
  const int64_t before = transient_bytes(memory_use(), false);
  reset_memory_peaks();
  timed.work();
  return transient_bytes(memory_use(), true) - before;
}

BenchRow measure(const OpBench& bench, bool backward, Timed timed, double budget_s,
                 const Ceilings& ceilings) {
  const Work work = work_of(bench, backward);
  Peer peer = peer_of(work, ceilings);
  BenchRow row{.bench = bench.name, .backward = backward};
  row.passes = alternate(timed, peer.timed, budget_s);
  row.seconds = timed.best_s;
  row.flops = work.flops;
  row.bytes = work.bytes();
  row.peer = peer.name;
  row.peer_seconds = peer.name.empty() ? 0 : peer.timed.best_s;
  row.share = peer.share(row.seconds);
  row.peak_bytes = peak_of(timed);
  return row;
}

// Gradients that are computed in the forward pass are timed with it, and its time taken off.
BenchRow measure_backward(const OpBench& bench, Subject& subject, const BenchRow& forward,
                          double budget_s, const Ceilings& ceilings) {
  subject.make_output_gradients();
  if (!bench.gradients_in_forward) {
    return measure(bench, true, subject.backward(), budget_s, ceilings);
  }
  BenchRow row = measure(bench, true, subject.forward_and_backward(), budget_s, ceilings);
  const double both_s = row.seconds;
  row.seconds = std::max(both_s - forward.seconds, 1e-9);
  row.share *= both_s / row.seconds;
  return row;
}

}  // namespace

std::vector<OpSpec> bench_specs() {
  std::vector<OpSpec> specs = all_op_specs();
  specs.push_back(model_bench_spec());
  return specs;
}

std::vector<OpSpec> bench_specs(const std::vector<std::string>& names) {
  std::vector<OpSpec> all = bench_specs();
  if (names.empty()) return all;
  std::vector<std::string> known;
  for (const OpSpec& spec : all) known.push_back(spec.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::optional<std::string> near = nearest(name, known);
    throw Error(Fault::usage,
                format("--op: there is no op '{}'{}", name,
                       near ? tephra::format("; did you mean '{}'?", *near) : ""),
                "tephra bench ops --list");
  }
  std::erase_if(all, [&](const OpSpec& spec) {
    return std::find(names.begin(), names.end(), spec.name) == names.end();
  });
  return all;
}

std::vector<BenchRow> bench_ops(const std::vector<OpSpec>& specs, const BenchOptions& options,
                                const Ceilings& ceilings) {
  int64_t total = 0;
  for (const OpSpec& spec : specs) total += static_cast<int64_t>(spec.benches.size());
  Progress progress("measuring", total, "benches");
  std::vector<BenchRow> rows;
  for (const OpSpec& spec : specs) {
    for (const OpBench& bench : spec.benches) {
      Subject subject(bench);
      const size_t first = rows.size();
      rows.push_back(measure(bench, false, subject.forward(), options.seconds, ceilings));
      const Work gradients = work_of(bench, true);
      if (options.backward && gradients.flops + gradients.bytes() > 0) {
        rows.push_back(measure_backward(bench, subject, rows[first], options.seconds, ceilings));
      }
      for (size_t i = first; i < rows.size(); ++i) rows[i].op = spec.name;
      trim_memory();
      progress.add(1);
    }
  }
  return rows;
}

}  // namespace tephra
