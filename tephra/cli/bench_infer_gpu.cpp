// SPDX-License-Identifier: Apache-2.0
// tephra bench decode and bench prefill on a GPU, in bf16: steps as the engine makes them, beside
// the bytes that they must read; prompts beside the product's peak. Ceilings are measured in the
// same run.
#include <algorithm>
#include <set>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/cli/bench_infer.h"
#include "tephra/cli/random_model.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"
#include "tephra/infer/decoder.h"
#include "tephra/infer/paged_state.h"

namespace tephra {
namespace {

NamedModel gpu_subject(const InferBench& o, Device device, InferResult& result) {
  require(!o.cold, "--cold: measures the CPU's start from files; leave it out on a GPU");
  const double start = steady_seconds();
  NamedModel subject = load_or_draw(o.model, {.dtype = DType::bf16, .device = device}, o.bits);
  gpu::synchronize(device);
  result.load_seconds = steady_seconds() - start;
  result.weight_bytes = memory_use(Device::Kind::gpu)[static_cast<size_t>(Purpose::weights)].bytes;
  result.load_average = load_average();
  result.device = gpu::status().devices[static_cast<size_t>(device.index)].name;
  return subject;
}

int64_t peak_memory() { return memory_use(Device::Kind::gpu)[kNumPurposes].peak_bytes; }

constexpr int64_t kBenchBlock = 256;

// Sequences of one length in blocks, some of them shuffled, so that pages do not adjoin.
class BenchBatch {
 public:
  BenchBatch(Model& model, int64_t batch, int64_t context, int64_t more)
      : blocks_each_(ceil_div(context + more, kBenchBlock)),
        state_(model, batch * blocks_each_, kBenchBlock, batch) {
    for (int64_t s = 0; s < batch; ++s) {
      std::vector<int32_t> blocks;
      for (int64_t b = 0; b < blocks_each_; ++b) {
        blocks.push_back(static_cast<int32_t>(b * batch + (s + b) % batch));
      }
      blocks_.push_back(std::move(blocks));
    }
  }
  PagedState& state() { return state_; }

  // A chunk of every prompt from `at` on.
  Tensor read(const std::vector<std::vector<int32_t>>& prompts, int64_t at, int64_t end) {
    std::vector<PagedState::Part> parts;
    for (size_t s = 0; s < prompts.size(); ++s) {
      parts.push_back(
          {int64_t(s), blocks_[s], at,
           std::span(prompts[s]).subspan(static_cast<size_t>(at), static_cast<size_t>(end - at))});
    }
    return state_.forward(parts, 1);
  }
  std::vector<PagedState::Part> step(const std::vector<int32_t>& tokens, int64_t past) const {
    std::vector<PagedState::Part> parts;
    for (size_t s = 0; s < tokens.size(); ++s) {
      parts.push_back({int64_t(s), blocks_[s], past, std::span(&tokens[s], 1)});
    }
    return parts;
  }

 private:
  int64_t blocks_each_;
  PagedState state_;
  std::vector<std::vector<int32_t>> blocks_;
};

int64_t distinct_in_layer(const Tensor& experts, int64_t layer, int64_t count) {
  const int32_t* row = experts.row<int32_t>(layer);
  std::set<int32_t> distinct(row, row + experts.cols());
  distinct.erase(static_cast<int32_t>(count));  // skipped
  return std::ssize(distinct);
}

// What the profile saw, a pass of `passes`.
std::vector<KernelCost> profiled(Device device, int64_t passes) {
  std::vector<KernelCost> costs;
  const auto count = static_cast<double>(passes);
  for (const gpu::KernelTime& kernel : gpu::finish_profile(device)) {
    costs.push_back({kernel.name, kernel.milliseconds / 1e3 / count,
                     static_cast<double>(kernel.calls) / count});
  }
  std::sort(costs.begin(), costs.end(),
            [](const KernelCost& a, const KernelCost& b) { return a.seconds > b.seconds; });
  return costs;
}

std::vector<std::vector<int32_t>> bench_prompts(const Model& model, int64_t batch, int64_t length) {
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t s = 0; s < batch; ++s) {
    prompts.push_back(random_ids(model, length, static_cast<uint32_t>(s)));
  }
  return prompts;
}

}  // namespace

InferResult bench_decode_on(const InferBench& o, Device device) {
  constexpr int64_t kWarm = 2, kProfiled = 4;
  InferResult result;
  const NamedModel subject = gpu_subject(o, device, result);
  Model& model = *subject.model;
  const NoGrad no_grad;
  BenchBatch batch(model, o.batch, o.context, 3 * o.tokens + kWarm + kProfiled);
  require(batch.state().takes_steps(),
          "bench decode: {}: expected a model in the published shape, which has kernels for single "
          "tokens on a GPU, got another, which decodes by the ops; there is no such bench",
          o.model);
  require(o.batch <= batch.state().step_rows(),
          "bench decode --batch: expected at most {} sequences on a GPU, got {}",
          batch.state().step_rows(), o.batch);
  const auto prompts = bench_prompts(model, o.batch, o.context);
  result.first_pass_seconds = seconds_of([&] {
    const int64_t chunk = std::max<int64_t>(1, 16384 / o.batch);
    for (int64_t at = 0; at < o.context; at += chunk) {
      batch.read(prompts, at, std::min(o.context, at + chunk));
    }
    gpu::synchronize(device);
  });
  result.peak_bytes = peak_memory();
  result.ceiling = result.median_ceiling = gpu::measure_ceilings(device).read_bytes_per_second;
  reset_memory_peaks();  // the ceiling's own gigabytes are not the model's

  const auto specs = subject.kind->parameters(subject.config, o.model);
  const auto routers = model.routers();
  const int64_t experts = routers.empty() ? 0 : routers[0].experts;
  std::vector<int32_t> next(static_cast<size_t>(o.batch), 1);
  std::vector<double> seconds;
  DecodeBytes sum;
  DecodeStep* step = nullptr;
  Progress progress("decoding", 2 * o.tokens, "tokens");
  int64_t past = o.context;
  const auto take_step = [&] {  // as the engine: tokens go out and come back
    stop_if_interrupted();
    step = batch.state().decode(batch.step(next, past++));
    const std::vector<DecodeStep::Likeliest> chosen = step->likeliest();
    for (size_t r = 0; r < chosen.size(); ++r) next[r] = chosen[r].token;
  };
  for (int64_t i = 0; i < kWarm; ++i) take_step();
  // One right after another: a step has told its tokens shortly before its kernels have ended.
  for (int64_t i = 0; i < o.tokens; ++i) {
    seconds.push_back(seconds_of(take_step));
    progress.add();
  }
  for (int64_t i = 0; i < o.tokens; ++i) {
    take_step();
    const Tensor chose = to_device(clone(step->experts()), kCpu);
    const DecodeBytes bytes = weight_bytes(specs, model.parameters(), [&](int64_t layer) {
      return distinct_in_layer(chose, layer, experts);
    });
    sum.packed += bytes.packed;
    sum.other += bytes.other;
    progress.add();
  }
  summarise(seconds, result);
  result.alone_seconds = seconds_of([&] {
                           for (int64_t i = 0; i < o.tokens; ++i) step->run_on();
                           gpu::synchronize(device);
                         }) /
                         static_cast<double>(o.tokens);
  if (o.profile) {
    gpu::start_profile(device);
    for (int64_t i = 0; i < kProfiled; ++i) step->run_on(false);
    result.kernels = profiled(device, kProfiled);
  }
  result.peak_bytes = std::max(result.peak_bytes, peak_memory());
  const auto steps = static_cast<double>(o.tokens);
  result.bytes = {sum.packed / steps, sum.other / steps,
                  cache_bytes(model, o.context + o.tokens / 2, o.batch)};
  return result;
}

InferResult bench_prefill_on(const InferBench& o, Device device) {
  constexpr int kPasses = 4;
  InferResult result;
  const NamedModel subject = gpu_subject(o, device, result);
  Model& model = *subject.model;
  const NoGrad no_grad;
  const std::vector<int32_t> prompt = random_ids(model, o.tokens, 0);
  const int64_t chunk = o.chunk > 0 ? o.chunk : 16384;
  std::vector<double> seconds;
  double head = 0;
  Progress progress("prefilling", kPasses, "passes");
  const auto pass = [&] {
    Decoder decoder(model, 1, o.tokens);
    return seconds_of([&] {
      Tensor h;
      for (int64_t at = 0; at < o.tokens; at += chunk) {
        h = decoder.advance(std::vector<int32_t>(prompt.begin() + at,
                                                 prompt.begin() + std::min(o.tokens, at + chunk)));
      }
      model.logits(h.slice_rows(h.rows() - 1, h.rows()));
      gpu::synchronize(device);
      head = 2.0 * static_cast<double>(model.tokens().vocab_size * h.cols());
    });
  };
  for (int i = 0; i < kPasses; ++i) {
    stop_if_interrupted();
    (i == 0 ? result.first_pass_seconds : seconds.emplace_back()) = pass();
    progress.add();
  }
  if (o.profile) {
    gpu::start_profile(device);
    pass();
    result.kernels = profiled(device, 1);
  }
  summarise(seconds, result);
  result.peak_bytes = peak_memory();
  const ModelFigures figures = subject.kind->figures(subject.config, o.model, o.tokens);
  result.flops = figures.train_flops_per_token / 3 * static_cast<double>(o.tokens) -
                 head * static_cast<double>(o.tokens - 1);
  result.ceiling = gpu::measure_ceilings(device).gemm_flops_per_second;
  return result;
}

}  // namespace tephra
