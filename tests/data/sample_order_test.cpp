// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tephra/base/format.h"
#include "tephra/data/permutation.h"
#include "tephra/data/sample_order.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

TEST(Permutation, VisitsEveryIndexOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 70001}) {
    const Permutation order(size, {7, 8, 9});
    std::vector<bool> seen(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t to = order(i);
      ASSERT_TRUE(to >= 0 && to < size);
      ASSERT_FALSE(seen[static_cast<size_t>(to)]) << size;
      seen[static_cast<size_t>(to)] = true;
    }
  }
  const Permutation huge(int64_t{1} << 61, {7, 8, 9});
  EXPECT_NE(huge(1), huge(2));
}

TEST(Permutation, DependsOnItsKeyAndLooksRandom) {
  const int64_t size = 10000;
  const Permutation a(size, {1, 2, 3}), b(size, {1, 2, 4});
  int64_t fixed = 0, same = 0, neighbours = 0;
  for (int64_t i = 0; i < size; ++i) {
    fixed += a(i) == i;
    same += a(i) == b(i);
    neighbours += i > 0 && std::abs(a(i) - a(i - 1)) == 1;
  }
  // Each has mean 1 (neighbours: 2) when the orders are random.
  EXPECT_LE(fixed, 8);
  EXPECT_LE(same, 8);
  EXPECT_LE(neighbours, 10);
}

TEST(MixtureCycle, GivesEveryStretchItsShare) {
  const std::vector<double> weights = {0.5, 0.3, 0.15, 0.05};
  const MixtureCycle cycle(weights);
  std::vector<int64_t> counts(4, 0);
  for (int64_t n = 0; n < 3 * MixtureCycle::kCycle / 2; ++n) {
    const auto source = static_cast<size_t>(cycle.source(n));
    ASSERT_EQ(cycle.rank(n), counts[source]);
    ++counts[source];
    for (size_t i = 0; i < 4; ++i) {
      const double share = static_cast<double>(cycle.shares()[i]) / MixtureCycle::kCycle;
      ASSERT_NEAR(static_cast<double>(counts[i]), share * static_cast<double>(n + 1), 1.5) << n;
    }
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cycle.count(i, 3 * MixtureCycle::kCycle / 2), counts[static_cast<size_t>(i)]);
    EXPECT_NEAR(static_cast<double>(cycle.shares()[static_cast<size_t>(i)]),
                weights[static_cast<size_t>(i)] * MixtureCycle::kCycle, 1);
  }
}

TEST(MixtureCycle, ForgetsNoSourceAndReadsNoneOfWeightZero) {
  const MixtureCycle cycle({1, 1e-9, 0, 1e-9});
  EXPECT_EQ(cycle.shares(), (std::vector<int64_t>{MixtureCycle::kCycle - 2, 1, 0, 1}));
}

std::vector<DataPhase> phases() {
  return {{.steps = 5, .batch = 7, .context = 64, .mixture = {{"a", 1}, {"b", 3}}},
          {.steps = 4, .batch = 3, .context = 128, .mixture = {{"b", 1}, {"c", 1}}},
          {.steps = 6, .batch = 5, .context = 64, .mixture = {{"c", 2}, {"b", 1}, {"a", 0}}}};
}

// Walks the stream one sample after the other, as a loader with state would.
std::vector<SampleOrder::Place> replay(const std::vector<DataPhase>& all,
                                       const std::vector<SkippedSamples>& skipped) {
  const SampleOrder names(all);
  std::map<std::pair<std::string, int64_t>, int64_t> next;
  std::vector<SampleOrder::Place> places;
  int64_t stream = 0;
  for (const DataPhase& phase : all) {
    std::vector<double> weights;
    for (const SourceWeight& part : phase.mixture) weights.push_back(part.weight);
    const MixtureCycle cycle(weights);
    int64_t in_phase = 0;
    for (int64_t read = 0; read < phase.steps * phase.batch;) {
      const bool skip = std::any_of(skipped.begin(), skipped.end(), [&](const SkippedSamples& s) {
        return stream >= s.from && stream < s.to;
      });
      const std::string& source = phase.mixture[static_cast<size_t>(cycle.source(in_phase))].source;
      const int64_t position = next[{source, phase.context}]++;
      const auto& all_names = names.sources();
      const auto index = std::find(all_names.begin(), all_names.end(), source) - all_names.begin();
      if (!skip) places.push_back({static_cast<int>(index), position, phase.context});
      read += skip ? 0 : 1;
      ++stream;
      ++in_phase;
    }
  }
  return places;
}

void expect_replayed(const std::vector<SkippedSamples>& skipped) {
  const SampleOrder order(phases(), skipped);
  const std::vector<SampleOrder::Place> expected = replay(phases(), skipped);
  size_t at = 0;
  for (int64_t step = 0; step < order.steps(); ++step) {
    for (int64_t i = 0; i < order.phase_at(step).batch; ++i, ++at) {
      const SampleOrder::Place place = order.place(step, i);
      ASSERT_EQ(order.sources()[static_cast<size_t>(place.source)],
                order.sources()[static_cast<size_t>(expected[at].source)])
          << step << " " << i;
      ASSERT_EQ(place.position, expected[at].position) << step << " " << i;
      ASSERT_EQ(place.context, expected[at].context);
    }
  }
  EXPECT_EQ(at, expected.size());
}

TEST(SampleOrder, IsWhatALoaderWithStateWouldRead) { expect_replayed({}); }

// A second rollback may begin before the first one's samples, and end after them.
TEST(SampleOrder, MergesSkippedSamplesThatMeet) {
  const auto text = [](std::vector<SkippedSamples> ranges) {
    std::string out;
    for (const auto& [from, to] : merge_skipped(std::move(ranges)))
      out += format("{}-{} ", from, to);
    return out;
  };
  EXPECT_EQ(text({{20, 30}, {15, 35}}), "15-35 ") << "around";
  EXPECT_EQ(text({{20, 30}, {15, 20}}), "15-30 ") << "up to its begin";
  EXPECT_EQ(text({{20, 30}, {22, 24}}), "20-30 ") << "within";
  EXPECT_EQ(text({{20, 30}, {40, 50}, {1, 2}}), "1-2 20-30 40-50 ");
  EXPECT_EQ(text({}), "");
  expect_replayed(merge_skipped({{20, 30}, {15, 35}, {35, 36}}));
}

TEST(SampleOrder, LeavesSkippedSamplesOut) {
  expect_replayed({{0, 3}});
  expect_replayed({{10, 20}, {21, 22}, {40, 45}});
  expect_replayed({{30, 44}});  // across the end of the first phase
  expect_replayed({{35, 40}});  // the first samples of the second
}

TEST(SampleOrder, SkippingLaterSamplesChangesNoEarlierOne) {
  const SampleOrder before(phases());
  const int64_t from = before.stream_index(6, 0), to = before.stream_index(7, 3);
  const SampleOrder after(phases(), {{from, to}});
  for (int64_t step = 0; step < 6; ++step) {
    for (int64_t i = 0; i < before.phase_at(step).batch; ++i) {
      EXPECT_EQ(before.place(step, i).position, after.place(step, i).position);
    }
  }
  EXPECT_EQ(after.place(6, 0).position, before.place(8, 0).position) << "step 6 reads on after 7";
}

TEST(SampleOrder, ContinuesASourceWhereThePhaseBeforeEnded) {
  const SampleOrder order(phases());
  std::map<std::pair<int, int64_t>, std::set<int64_t>> seen;
  for (int64_t step = 0; step < order.steps(); ++step) {
    for (int64_t i = 0; i < order.phase_at(step).batch; ++i) {
      const auto place = order.place(step, i);
      std::set<int64_t>& positions = seen[{place.source, place.context}];
      EXPECT_TRUE(positions.insert(place.position).second);
    }
  }
  for (const auto& [key, positions] : seen) {
    EXPECT_EQ(*positions.rbegin() + 1, static_cast<int64_t>(positions.size())) << "no gaps";
  }
}

// As ZAYA1-8B's: each of 40,000 parts with a cycle of its own would take 16 GB.
TEST(SampleOrder, TakesALongBatchRampInItsStride) {
  std::vector<DataPhase> ramp;
  for (int64_t batch = 1; batch <= 40'000; ++batch) {
    ramp.push_back({.steps = 1, .batch = batch, .context = 8, .mixture = {{"a", 2}, {"b", 1}}});
  }
  const SampleOrder order(ramp);
  std::map<int, int64_t> next;
  for (int64_t step = 0; step < 300; ++step) {
    for (int64_t i = 0; i < order.phase_at(step).batch; ++i) {
      const auto place = order.place(step, i);
      ASSERT_EQ(place.position, next[place.source]++) << step << " " << i;
    }
  }
  const auto last = order.place(39'999, 39'999);
  EXPECT_NEAR(static_cast<double>(last.position),
              20'000.0 * 40'001 * (last.source == 0 ? 2 : 1) / 3, 40'000 * 2);
}

TEST(SampleOrder, SaysWhatIsWrong) {
  const auto with = [](auto change) {
    std::vector<DataPhase> all = phases();
    change(all[1]);
    return message_of([&] { SampleOrder{all}; });
  };
  EXPECT_EQ(message_of([] { SampleOrder({}); }), "the data has no phases");
  EXPECT_EQ(with([](DataPhase& p) { p.batch = 0; }),
            "data phase 1: expected steps, batch and context of at least 1, got 4, 0 and 128");
  EXPECT_EQ(with([](DataPhase& p) { p.mixture[0].weight = -1; }),
            "data phase 1: expected a weight of at least 0 for source 'b', got -1");
  EXPECT_EQ(with([](DataPhase& p) { p.mixture[1].source = "b"; }),
            "data phase 1: source 'b' is named twice");
  EXPECT_EQ(with([](DataPhase& p) { p.mixture.clear(); }),
            "data phase 1: expected a source with a weight above 0");
  EXPECT_EQ(message_of([] {
              SampleOrder(phases(), {{5, 9}, {8, 10}});
            }),
            "skipped samples: expected ranges in order that do not meet, got 8 to 10 after 9");
  EXPECT_EQ(message_of([] { SampleOrder(phases()).place(15, 0); }),
            "step 15: the data's phases end after step 14");
}

}  // namespace
}  // namespace tephra
