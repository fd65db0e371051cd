// SPDX-License-Identifier: Apache-2.0
// A series of any length in a bounded number of buckets: when they are full, neighbours merge. What
// is kept of a bucket (mean, least, greatest) still shows a spike of a single step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tephra {

// A bucket of values, or of vectors of one length, by what it holds.
template <class Content>
class Buckets {
 public:
  struct Bucket {
    int64_t first_step = 0;
    int64_t last_step = 0;
    int64_t count = 0;
    Content content;
    int64_t step() const { return (first_step + last_step) / 2; }
  };

  explicit Buckets(size_t capacity) : capacity_(capacity) {}

  void add(int64_t step, const Content& content) {
    if (!all_.empty() && all_.back().count < width_) {
      all_.back().content.merge(content);
      all_.back().last_step = step;
      ++all_.back().count;
      return;
    }
    if (all_.size() == capacity_) halve();
    all_.push_back({step, step, 1, content});
  }

  const std::vector<Bucket>& all() const { return all_; }

 private:
  void halve() {
    for (size_t i = 0; i < all_.size(); i += 2) {
      Bucket merged = std::move(all_[i]);
      if (i + 1 < all_.size()) {
        merged.content.merge(all_[i + 1].content);
        merged.last_step = all_[i + 1].last_step;
        merged.count += all_[i + 1].count;
      }
      all_[i / 2] = std::move(merged);
    }
    all_.resize((all_.size() + 1) / 2);
    width_ *= 2;
  }

  size_t capacity_;  // even, so that merged buckets are full
  int64_t width_ = 1;
  std::vector<Bucket> all_;
};

struct ValueRange {
  double sum = 0, low = 0, high = 0;
  ValueRange() = default;
  explicit ValueRange(double value) : sum(value), low(value), high(value) {}
  void merge(const ValueRange& other) {
    sum += other.sum;
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

struct VectorSums {
  std::vector<double> sums;
  void merge(const VectorSums& other) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
  }
};

}  // namespace tephra
