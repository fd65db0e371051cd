// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tephra {
namespace {

struct Difference {
  double max_abs = 0;
  double norm_difference = 0;
  double norm_want = 0;
  double largest_want = 0;
  int64_t at = 0;
  int64_t counted = 0;
};

Difference difference(const Tensor& found, const Tensor& reference, const Tensor& mask) {
  const Tensor got = to_device(found, kCpu), want = to_device(reference, kCpu);
  Difference d;
  for (int64_t i = 0; i < want.numel(); ++i) {
    if (mask && mask.at(i / want.cols()) == 0) continue;
    ++d.counted;
    const double w = want.at(i);
    double delta = std::abs(got.at(i) - w);
    if (std::isnan(delta)) delta = std::numeric_limits<double>::infinity();
    if (delta > d.max_abs) {
      d.max_abs = delta;
      d.at = i;
    }
    d.largest_want = std::max(d.largest_want, std::abs(w));
    d.norm_difference += delta * delta;
    d.norm_want += w * w;
  }
  d.norm_difference = std::sqrt(d.norm_difference);
  d.norm_want = std::sqrt(d.norm_want);
  return d;
}

double ratio(double a, double b) {
  if (a == 0) return 0;
  return b > 0 ? a / b : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string to_text(Metric metric) {
  constexpr const char* kNames[] = {"absolute", "relative", "relative_norm", "exact", "rms"};
  return kNames[static_cast<size_t>(metric)];
}

void Comparison::fail(const std::string& reason) {
  check_.pass = false;
  check_.max_abs = check_.max_rel = std::numeric_limits<double>::infinity();
  check_.worst = reason;
  worst_ = check_.max_abs;
}

void Comparison::add(const std::string& tensor, const Tensor& got, const Tensor& want,
                     const Tensor& mask) {
  require_data(got.numel() == want.numel(), "{}: the reference has shape {}, the model gives {}",
               tensor, want.shape(), got.shape());
  const Difference d = difference(got, want, mask);
  const double relative = check_.metric == Metric::relative_norm
                              ? ratio(d.norm_difference, d.norm_want)
                              : ratio(d.max_abs, d.largest_want);
  const double rms = d.counted > 0 ? d.norm_difference / std::sqrt(double(d.counted)) : 0;
  check_.max_abs = std::max(check_.max_abs, check_.metric == Metric::rms ? rms : d.max_abs);
  check_.max_rel = std::max(check_.max_rel, relative);

  double figure = d.max_abs;
  if (check_.metric == Metric::relative || check_.metric == Metric::relative_norm) {
    figure = relative;
  } else if (check_.metric == Metric::rms) {
    figure = rms;
  }
  if (!(figure <= check_.bound)) check_.pass = false;
  if (figure > worst_) {
    worst_ = figure;
    check_.worst = want.numel() > 1 ? format("{}[{}]", tensor, d.at) : tensor;
  }
}

}  // namespace tephra
