// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tephra/base/error.h"

namespace tephra {
namespace {

// Rounds shares to units by largest remainder; who has any weight gets one unit at least.
std::vector<int64_t> shares_of(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / total * static_cast<double>(MixtureCycle::kCycle);
    shares.push_back(std::max<int64_t>(weights[i] > 0 ? 1 : 0, static_cast<int64_t>(exact)));
    remainders.emplace_back(static_cast<double>(shares[i]) - exact, i);
  }
  std::stable_sort(remainders.begin(), remainders.end());  // most is owed to the first
  int64_t left = MixtureCycle::kCycle - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (const auto& [over, i] : remainders) {
    if (left > 0 && weights[i] > 0) {
      ++shares[i];
      --left;
    }
  }
  // Units given to tiny weights are taken from the largest share.
  *std::max_element(shares.begin(), shares.end()) += left;
  return shares;
}

void check_phase(const DataPhase& phase, size_t index) {
  require(phase.steps >= 1 && phase.batch >= 1 && phase.context >= 1,
          "data phase {}: expected steps, batch and context of at least 1, got {}, {} and {}",
          index, phase.steps, phase.batch, phase.context);
  double total = 0;
  for (const SourceWeight& part : phase.mixture) {
    require(std::isfinite(part.weight) && part.weight >= 0,
            "data phase {}: expected a weight of at least 0 for source '{}', got {}", index,
            part.source, part.weight);
    total += part.weight;
    const auto same = [&](const SourceWeight& other) { return other.source == part.source; };
    require(std::count_if(phase.mixture.begin(), phase.mixture.end(), same) == 1,
            "data phase {}: source '{}' is named twice", index, part.source);
  }
  require(total > 0, "data phase {}: expected a source with a weight above 0", index);
  require(phase.mixture.size() < MixtureCycle::kCycle / 2, "data phase {}: {} sources are too many",
          index, phase.mixture.size());
}

void check_skipped(const std::vector<SkippedSamples>& skipped) {
  int64_t end = 0;
  for (const auto& [from, to] : skipped) {
    require(from >= end && to > from,
            "skipped samples: expected ranges in order that do not meet, got {} to {} after {}",
            from, to, end);
    end = to;
  }
}

}  // namespace

std::vector<SkippedSamples> merge_skipped(std::vector<SkippedSamples> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const SkippedSamples& a, const SkippedSamples& b) { return a.from < b.from; });
  std::vector<SkippedSamples> all;
  for (const SkippedSamples& range : ranges) {
    if (!all.empty() && range.from <= all.back().to) {
      all.back().to = std::max(all.back().to, range.to);
    } else {
      all.push_back(range);
    }
  }
  return all;
}

MixtureCycle::MixtureCycle(const std::vector<double>& weights) : shares_(shares_of(weights)) {
  std::vector<int64_t> counts(shares_.size(), 0);
  for (int64_t n = 0; n < kCycle; ++n) {
    size_t best = 0;
    int64_t most = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < shares_.size(); ++i) {
      const int64_t behind = (n + 1) * shares_[i] - kCycle * counts[i];
      if (behind > most) {
        most = behind;
        best = i;
      }
    }
    order_.push_back(static_cast<uint16_t>(best));
    ranks_.push_back(static_cast<int32_t>(counts[best]++));
  }
  TEPHRA_ASSERT(counts == shares_, "a cycle gives every source its share");
}

int64_t MixtureCycle::count(int source, int64_t n) const {
  // Its next sample knows how many came before.
  const auto next =
      std::find(order_.begin() + n % kCycle, order_.end(), static_cast<uint16_t>(source));
  const int64_t share = shares_[static_cast<size_t>(source)];
  return n / kCycle * share +
         (next == order_.end() ? share : ranks_[static_cast<size_t>(next - order_.begin())]);
}

SampleOrder::SampleOrder(std::vector<DataPhase> phases, std::vector<SkippedSamples> skipped)
    : phases_(std::move(phases)), skipped_(std::move(skipped)) {
  require(!phases_.empty(), "the data has no phases");
  check_skipped(skipped_);
  for (size_t i = 0; i < phases_.size(); ++i) {
    check_phase(phases_[i], i);
    add_part(phases_[i]);
  }
}

int SampleOrder::index_of(const std::string& source) {
  const auto found = std::find(sources_.begin(), sources_.end(), source);
  if (found == sources_.end()) sources_.push_back(source);
  return static_cast<int>(std::find(sources_.begin(), sources_.end(), source) - sources_.begin());
}

// The last part, now that it is known where in the stream the next one begins.
void SampleOrder::end_part(int64_t first_stream) {
  const Part& part = parts_.back();
  const int64_t context = phases_[parts_.size() - 1].context;
  for (size_t i = 0; i < part.sources.size(); ++i) {
    read_[{context, part.sources[i]}] +=
        part.cycle->count(static_cast<int>(i), first_stream - part.first_stream);
  }
}

// A batch ramp has a part for every batch size, thousands of them.
void SampleOrder::add_part(const DataPhase& phase) {
  std::vector<double> weights;
  std::vector<int> sources;
  for (const SourceWeight& part : phase.mixture) {
    weights.push_back(part.weight);
    sources.push_back(index_of(part.source));
  }
  int64_t first_step = 0, first_ordinal = 0;
  if (!parts_.empty()) {
    const DataPhase& before = phases_[parts_.size() - 1];
    first_step = parts_.back().first_step + before.steps;
    first_ordinal = parts_.back().first_ordinal + before.steps * before.batch;
  }
  // Right after the last sample of the phase before: samples skipped at the start count as this
  // phase's own.
  const int64_t first_stream = parts_.empty() ? 0 : in_stream(first_ordinal - 1) + 1;
  if (!parts_.empty()) end_part(first_stream);
  std::vector<int64_t> bases;
  for (const int source : sources) bases.push_back(read_[{phase.context, source}]);
  const bool as_before = !parts_.empty() && parts_.back().weights == weights;
  auto cycle = as_before ? parts_.back().cycle : std::make_shared<const MixtureCycle>(weights);
  parts_.push_back({std::move(cycle), std::move(weights), std::move(sources), std::move(bases),
                    first_step, first_ordinal, first_stream});
}

int64_t SampleOrder::steps() const { return parts_.back().first_step + phases_.back().steps; }

const SampleOrder::Part& SampleOrder::part_at(int64_t step) const {
  require(step >= 0 && step < steps(), "step {}: the data's phases end after step {}", step,
          steps() - 1);
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), step,
                       [](int64_t s, const Part& part) { return s < part.first_step; });
  return *(after - 1);
}

const DataPhase& SampleOrder::phase_at(int64_t step) const {
  return phases_[static_cast<size_t>(&part_at(step) - parts_.data())];
}

// The ordinal counts samples that are read; each skipped range before it moves it on.
int64_t SampleOrder::in_stream(int64_t ordinal) const {
  int64_t index = ordinal;
  for (const auto& [from, to] : skipped_) {
    if (index < from) break;
    index += to - from;
  }
  return index;
}

int64_t SampleOrder::stream_index(int64_t step, int64_t index) const {
  const Part& part = part_at(step);
  return in_stream(part.first_ordinal + (step - part.first_step) * phase_at(step).batch + index);
}

SampleOrder::Place SampleOrder::place(int64_t step, int64_t index) const {
  const Part& part = part_at(step);
  const DataPhase& phase = phase_at(step);
  TEPHRA_ASSERT(index >= 0 && index < phase.batch, "a sample lies within its step");
  const int64_t n = stream_index(step, index) - part.first_stream;
  const auto which = static_cast<size_t>(part.cycle->source(n));
  return {part.sources[which], part.bases[which] + part.cycle->rank(n), phase.context};
}

}  // namespace tephra
