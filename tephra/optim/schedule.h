// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: a list of ramps, one after the other, each from where the last one
// ended. The rate is a pure function of the position, so that a resumed run follows the same curve.
//
//   Schedule::warmup_stable_decay({.peak = 3e-3, .warmup = 100, .total = 5000, .decay = 1000})
//   Schedule::cosine({.peak = 3e-3, .warmup = 100, .total = 5000, .floor = 3e-4})
//   Schedule::starting_at(3e-4).ramp(2.25e-3, 500).ramp(0, 4500, Ramp::sqrt)   // annealing
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

// How the way from one rate to the next is shared out over a ramp; t is the part of it done.
enum class Ramp {
  linear,  // t
  cosine,  // (1 - cos pi t) / 2
  sqrt,    // sqrt t: downwards this is the "1 - sqrt" decay
};

std::string to_text(Ramp ramp);
std::optional<Ramp> parse_ramp(std::string_view name);

// Lengths are in steps or tokens, whichever `at` is asked in.
struct ScheduleOptions {
  double peak = 0;
  int64_t warmup = 0;
  int64_t total = 0;
  int64_t decay = 0;        // of warmup_stable_decay: the last so many
  double floor = 0;         // where the decay ends
  double start = 0;         // where the warm-up begins
  Ramp shape = Ramp::sqrt;  // of warmup_stable_decay's decay
};

class Schedule {
 public:
  static Schedule starting_at(double rate);
  static Schedule constant(double rate) { return starting_at(rate); }
  // Up, level, down.
  static Schedule warmup_stable_decay(const ScheduleOptions& options);
  // Up, then half a cosine down to the floor.
  static Schedule cosine(const ScheduleOptions& options);

  // Adds a way from the present end to `rate`. A ramp to the same rate is a level stretch.
  Schedule& ramp(double rate, int64_t length, Ramp shape = Ramp::linear);
  Schedule& hold(int64_t length) { return ramp(end_, length); }

  // `position`: what will have been done when this step ends, so that the first of W warm-up steps
  // has 1/W of the peak, not nothing, and the last step of a decay reaches the floor. Beyond the
  // end the last rate holds.
  double at(int64_t position) const;
  int64_t length() const;

  // A line for each ramp, and the curve drawn with letters, `width` columns wide.
  std::string text(const std::string& unit, int width = 64) const;

 private:
  struct Piece {
    double from, to;
    int64_t length;
    Ramp shape;
  };

  std::string sketch(int width) const;

  std::vector<Piece> pieces_;
  double end_ = 0;
};

}  // namespace tephra
