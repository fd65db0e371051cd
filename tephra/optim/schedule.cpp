// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr int kRows = 8;  // of the sketch
constexpr const char* kNames[] = {"linear", "cosine", "sqrt"};

double done(Ramp shape, double t) {
  if (t >= 1) return 1;
  switch (shape) {
    case Ramp::cosine:
      return (1 - std::cos(std::numbers::pi * t)) / 2;
    case Ramp::sqrt:
      return std::sqrt(t);
    case Ramp::linear:
      break;
  }
  return t;
}

void check_rate(double rate) {
  require(std::isfinite(rate) && rate >= 0,
          "schedule: expected a learning rate of 0 or more, got {}", rate);
}

}  // namespace

std::string to_text(Ramp ramp) { return kNames[static_cast<size_t>(ramp)]; }

std::optional<Ramp> parse_ramp(std::string_view name) {
  for (const Ramp ramp : {Ramp::linear, Ramp::cosine, Ramp::sqrt}) {
    if (name == kNames[static_cast<size_t>(ramp)]) return ramp;
  }
  return std::nullopt;
}

Schedule Schedule::starting_at(double rate) {
  check_rate(rate);
  Schedule s;
  s.end_ = rate;
  return s;
}

Schedule& Schedule::ramp(double rate, int64_t length, Ramp shape) {
  check_rate(rate);
  require(length >= 0, "schedule: expected a length of 0 or more, got {}", length);
  if (length > 0) pieces_.push_back({end_, rate, length, shape});
  end_ = rate;
  return *this;
}

Schedule Schedule::warmup_stable_decay(const ScheduleOptions& o) {
  require(o.warmup >= 0 && o.decay >= 0 && o.warmup + o.decay <= o.total,
          "schedule: expected warm-up and decay to fit into the {} there are, got {} and {}",
          o.total, o.warmup, o.decay);
  return starting_at(o.start)
      .ramp(o.peak, o.warmup)
      .hold(o.total - o.warmup - o.decay)
      .ramp(o.decay > 0 ? o.floor : o.peak, o.decay, o.shape);
}

Schedule Schedule::cosine(const ScheduleOptions& o) {
  require(o.warmup >= 0 && o.warmup < o.total,
          "schedule: expected a warm-up shorter than the {} there are, got {}", o.total, o.warmup);
  return starting_at(o.start)
      .ramp(o.peak, o.warmup)
      .ramp(o.floor, o.total - o.warmup, Ramp::cosine);
}

double Schedule::at(int64_t position) const {
  int64_t before = 0;
  for (const Piece& p : pieces_) {
    if (position <= before + p.length) {
      const double t = static_cast<double>(std::max<int64_t>(0, position - before)) /
                       static_cast<double>(p.length);
      return p.from + (p.to - p.from) * done(p.shape, t);
    }
    before += p.length;
  }
  return end_;
}

int64_t Schedule::length() const {
  int64_t sum = 0;
  for (const Piece& p : pieces_) sum += p.length;
  return sum;
}

std::string Schedule::sketch(int width) const {
  const int64_t total = length();
  std::vector<double> rates;
  double top = 0;
  for (int c = 0; c < width; ++c) {
    // From the first position to the last.
    const double part = static_cast<double>(c) / static_cast<double>(std::max(1, width - 1));
    rates.push_back(
        at(1 + static_cast<int64_t>(std::llround(part * static_cast<double>(total - 1)))));
    top = std::max(top, rates.back());
  }
  std::string out;
  for (int row = kRows; row >= 1; --row) {
    std::string line = row == kRows ? format("{:>9.3g} |", top) : format("{:>9} |", "");
    for (const double rate : rates) {
      const int height = top > 0 ? static_cast<int>(std::lround(rate / top * kRows)) : 0;
      line += std::max(height, 1) == row ? '*' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Schedule::text(const std::string& unit, int width) const {
  if (pieces_.empty()) return format("learning rate {:g} throughout\n", end_);
  std::string out;
  int64_t before = 0;
  for (const Piece& p : pieces_) {
    const std::string span =
        format("{} {} to {}", unit, human_count(before + 1), human_count(before + p.length));
    out += p.from == p.to ? format("{}: {:g}\n", span, p.to)
                          : format("{}: {} from {:g} to {:g}\n", span, p.shape, p.from, p.to);
    before += p.length;
  }
  return out + sketch(width);
}

}  // namespace tephra
