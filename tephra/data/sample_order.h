// SPDX-License-Identifier: Apache-2.0
// Which sample a step reads, as a closed form of the step: nothing is replayed, so a resumed or
// reshaped run reads the same tokens (docs/data.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tephra {

struct SourceWeight {
  std::string source;
  double weight = 1;
};

// Steps with one context, batch size and mixture.
struct DataPhase {
  int64_t steps = 0;
  int64_t batch = 0;    // samples of a step, all ranks together
  int64_t context = 0;  // tokens of a sample
  std::vector<SourceWeight> mixture;
};

// Samples [from, to) of the stream that are never read: what a rollback leaves out.
struct SkippedSamples {
  int64_t from = 0, to = 0;
};

// All of them in order, those that meet as one. A rollback may reach back over samples that an
// earlier one left out.
std::vector<SkippedSamples> merge_skipped(std::vector<SkippedSamples> ranges);

// Shares of a mixture in units of 1 / kCycle, and the order in which a cycle takes them: always the
// source that is furthest behind its share, so every stretch of samples has nearly the asked mix.
class MixtureCycle {
 public:
  static constexpr int64_t kCycle = 1 << 16;

  explicit MixtureCycle(const std::vector<double>& weights);

  int source(int64_t n) const { return order_[static_cast<size_t>(n % kCycle)]; }
  // How many of samples [0, n) come from `source`.
  int64_t count(int source, int64_t n) const;
  // The same for the source of sample n itself, at once.
  int64_t rank(int64_t n) const {
    return n / kCycle * shares_[static_cast<size_t>(source(n))] +
           ranks_[static_cast<size_t>(n % kCycle)];
  }
  const std::vector<int64_t>& shares() const { return shares_; }

 private:
  std::vector<int64_t> shares_;  // they add up to kCycle
  std::vector<uint16_t> order_;  // [kCycle]
  std::vector<int32_t> ranks_;   // [kCycle] how often its source came before in the cycle
};

class SampleOrder {
 public:
  explicit SampleOrder(std::vector<DataPhase> phases, std::vector<SkippedSamples> skipped = {});

  struct Place {
    int source;        // index into sources()
    int64_t position;  // of the sample among that source's of this context
    int64_t context;
  };
  // Sample `index`, below the batch size, of a step.
  Place place(int64_t step, int64_t index) const;

  int64_t steps() const;  // of all phases
  const DataPhase& phase_at(int64_t step) const;
  const std::vector<DataPhase>& phases() const { return phases_; }
  const std::vector<std::string>& sources() const { return sources_; }

  // Where a sample lies in the stream, which is what SkippedSamples counts; index may be the batch
  // size, for the end of a step.
  int64_t stream_index(int64_t step, int64_t index) const;
  const std::vector<SkippedSamples>& skipped() const { return skipped_; }

 private:
  struct Part {
    std::shared_ptr<const MixtureCycle> cycle;  // the part before it has the same where weights are
    std::vector<double> weights;
    std::vector<int> sources;    // of the cycle's, in sources_
    std::vector<int64_t> bases;  // samples each had read before, in this context
    int64_t first_step;
    int64_t first_ordinal;  // samples of all phases before
    int64_t first_stream;
  };
  const Part& part_at(int64_t step) const;
  int64_t in_stream(int64_t ordinal) const;
  void add_part(const DataPhase& phase);
  void end_part(int64_t first_stream);
  int index_of(const std::string& source);

  std::vector<DataPhase> phases_;
  std::vector<SkippedSamples> skipped_;
  std::vector<std::string> sources_;
  std::vector<Part> parts_;
  std::map<std::pair<int64_t, int>, int64_t> read_;  // of parts that ended, by context and source
};

}  // namespace tephra
