// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/step_data.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr int64_t kStepsAhead = 2;

std::vector<SourceWeight> mixture_of(const PhaseSettings& phase,
                                     const std::vector<SourceConfig>& sources) {
  std::vector<SourceWeight> mixture;
  for (const MixtureSettings& m : phase.mixture) mixture.push_back({m.source, m.weight});
  if (mixture.empty()) {
    for (const SourceConfig& s : sources) mixture.push_back({s.name, 1});
  }
  return mixture;
}

// Steps of equal batch size are one phase of the data.
std::vector<DataPhase> data_phases(const Phases& phases, const std::vector<SourceConfig>& sources) {
  std::vector<DataPhase> out;
  int64_t step = 0;
  for (int64_t p = 0; p < phases.count(); ++p) {
    const PhaseSettings& s = phases.settings(p);
    const std::vector<SourceWeight> mixture = mixture_of(s, sources);
    const int64_t ramp = s.batch_ramp_from ? std::min(s.batch_ramp_steps, phases.steps_of(p)) : 0;
    for (int64_t i = 0; i < ramp; ++i) {
      const int64_t batch = phases.at(step + i).samples;
      if (i > 0 && out.back().batch == batch) {
        ++out.back().steps;
      } else {
        out.push_back({1, batch, s.context, mixture});
      }
    }
    const int64_t rest = phases.steps_of(p) - ramp;
    if (rest > 0) out.push_back({rest, s.batch_tokens / s.context, s.context, mixture});
    step += phases.steps_of(p);
  }
  return out;
}

MicroBatch micro_batch(const Batch& batch) {
  MicroBatch out{.ids_N = Tensor({batch.tokens()}, DType::i32),
                 .segments = batch.segments(),
                 .targets_N = Tensor({batch.tokens()}, DType::i32)};
  std::copy(batch.inputs.begin(), batch.inputs.end(), out.ids_N.data<int32_t>());
  std::copy(batch.targets.begin(), batch.targets.end(), out.targets_N.data<int32_t>());
  return out;
}

}  // namespace

StepData::StepData(const RunConfig& config, const Phases& phases, TextParts text)
    : micro_tokens_(config.step.micro_tokens) {
  std::vector<SourceConfig> settings = config.data.sources;
  if (settings.empty()) settings.push_back({.name = "environments", .kind = "environments"});
  const SourceSetting setting{.tokenizer = std::move(text.tokenizer),
                              .vocab_size = text.vocab_size,
                              .seed = static_cast<uint64_t>(config.seed),
                              .renderer = std::move(text.renderer)};
  sources_ = open_sources(settings, setting);
  held_out_sources_ = open_held_out(settings, setting);
  phases_ = data_phases(phases, settings);
  for (int64_t p = 0; p < phases.count(); ++p) {
    DataPhase held_out{1, 1, phases.settings(p).context, mixture_of(phases.settings(p), settings)};
    std::erase_if(held_out.mixture, [&](const SourceWeight& w) {
      return std::none_of(held_out_sources_.begin(), held_out_sources_.end(),
                          [&](const auto& s) { return s->name() == w.source; });
    });
    // A context that the held-out data cannot fill is said now, not when it is first looked at.
    if (config.validation.samples > 0 && !held_out.mixture.empty()) {
      const Loader checked(SampleOrder({held_out}), held_out_sources_);
    }
    held_out_.push_back(held_out);
  }
  start({});
}

void StepData::start(std::vector<SkippedSamples> skipped) {
  waited_before_ = waited_seconds();
  prefetch_.reset();
  loader_ = std::make_shared<const Loader>(SampleOrder(phases_, std::move(skipped)), sources_);
  prefetch_ = std::make_unique<Prefetch<std::vector<MicroBatch>>>(
      [this](int64_t step) {
        if (step >= loader_->order().steps()) return std::vector<MicroBatch>{};
        const int64_t context = loader_->order().phase_at(step).context;
        return cut(*loader_, step, std::max<int64_t>(1, micro_tokens_ / context));
      },
      kStepsAhead);
}

std::vector<MicroBatch> StepData::cut(const Loader& loader, int64_t step,
                                      int64_t micro_samples) const {
  std::vector<MicroBatch> parts;
  const int64_t samples = loader.order().phase_at(step).batch;
  for (int64_t first = 0; first < samples; first += micro_samples) {
    parts.push_back(
        micro_batch(loader.batch(step, first, std::min(micro_samples, samples - first))));
  }
  return parts;
}

std::vector<MicroBatch> StepData::batch(int64_t step) { return prefetch_->take(step); }

std::vector<MicroBatch> StepData::validation(int64_t phase, int64_t samples) const {
  DataPhase only = held_out_[static_cast<size_t>(phase)];
  if (only.mixture.empty()) return {};
  only.batch = samples;
  const Loader loader(SampleOrder({only}), held_out_sources_);
  return cut(loader, 0, std::max<int64_t>(1, micro_tokens_ / only.context));
}

void StepData::set_skipped(std::vector<SkippedSamples> skipped) { start(std::move(skipped)); }

SkippedSamples StepData::samples_of(int64_t first, int64_t last) const {
  const SampleOrder& order = loader_->order();
  return {order.stream_index(first, 0), order.stream_index(last, order.phase_at(last).batch)};
}

double StepData::waited_seconds() const {
  return waited_before_ + (prefetch_ ? prefetch_->waited_seconds() : 0);
}

}  // namespace tephra
