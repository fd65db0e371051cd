// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/error.h"

namespace tephra {

// Mean plus so many standard deviations, once the window is half full: early losses fall fast.
double Guard::threshold() const {
  const auto n = static_cast<double>(losses_.size());
  if (settings_.spike == 0 || 2 * n < static_cast<double>(settings_.window)) {
    return std::numeric_limits<double>::infinity();
  }
  double sum = 0, squares = 0;
  for (const double loss : losses_) sum += loss;
  const double mean = sum / n;
  for (const double loss : losses_) squares += (loss - mean) * (loss - mean);
  return mean + settings_.spike * std::sqrt(squares / n);
}

std::string Guard::judge(double loss, bool finite_gradients) {
  std::string why;
  const double most = threshold();
  if (!std::isfinite(loss)) {
    why = format("the loss is {}", loss);
  } else if (!finite_gradients) {
    why = "a gradient is not finite";
  } else if (loss > most) {
    why = format("the loss {:.4f} is above {:.4f}, {} standard deviations over the last {} steps",
                 loss, most, settings_.spike, losses_.size());
  }
  const auto window = static_cast<size_t>(settings_.window);
  if (why.empty()) {
    losses_.push_back(loss);
    if (losses_.size() > window) losses_.pop_front();
  }
  bad_.push_back(!why.empty());
  if (bad_.size() > window) bad_.pop_front();
  return why;
}

int64_t Guard::recent_skips() const { return std::count(bad_.begin(), bad_.end(), true); }

Json Guard::state() const {
  Json out, losses(Json::Array{}), bad(Json::Array{});
  for (const double loss : losses_) losses.push_back(loss);
  for (const bool b : bad_) bad.push_back(b);
  out["losses"] = losses;
  out["bad"] = bad;
  return out;
}

void Guard::restore(const Json& state, const std::string& where) {
  const Fields fields(state, where);
  losses_.clear();
  bad_.clear();
  for (const Json& loss : fields.array("losses")) {
    require_data(loss.is_number(), "{}: losses: expected numbers, got {}", where, loss.kind());
    losses_.push_back(loss.number());
  }
  for (const Json& bad : fields.array("bad")) {
    require_data(bad.is_bool(), "{}: bad: expected booleans, got {}", where, bad.kind());
    bad_.push_back(bad.boolean());
  }
}

}  // namespace tephra
