// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/integer_range.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tephra {
namespace {

using Place = ByteGrammar::Place;

unsigned char digit(const std::string& text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

Place any_digits(ByteGrammar& g, size_t count, Place next) {
  for (size_t i = 0; i < count; ++i) next = g.byte('0', '9', next);
  return next;
}

// Numbers of as many digits as both bounds have, from digit i on; `low` and `high` say whether what
// was written so far equals that bound's beginning.
Place same_length(ByteGrammar& g, const std::string& least, const std::string& most, size_t i,
                  bool low, bool high, Place next) {
  if (i == least.size()) return next;
  if (!low && !high) return any_digits(g, least.size() - i, next);
  const unsigned char from = low ? digit(least, i) : '0', to = high ? digit(most, i) : '9';
  if (from == to) {
    return g.byte(from, to, same_length(g, least, most, i + 1, low, high, next));
  }
  std::vector<Place> places;
  unsigned char begin = from, end = to;
  if (low) {
    places.push_back(g.byte(from, from, same_length(g, least, most, i + 1, true, false, next)));
    ++begin;
  }
  if (high) {
    places.push_back(g.byte(to, to, same_length(g, least, most, i + 1, false, true, next)));
    --end;
  }
  if (begin <= end) {
    places.push_back(g.byte(begin, end, any_digits(g, least.size() - i - 1, next)));
  }
  return g.any_of(places);
}

// Numbers of `least` to `most` digits, both at least 1.
Place any_natural(ByteGrammar& g, size_t least, size_t most, Place next) {
  Place more = next;
  for (size_t i = least; i < most; ++i) more = g.either(next, g.byte('0', '9', more));
  return g.byte('1', '9', any_digits(g, least - 1, more));
}

// Both bounds 0 or more.
Place natural_range(ByteGrammar& g, int64_t least, int64_t most, Place next) {
  const std::string low = std::to_string(least), high = std::to_string(most);
  if (low.size() == high.size()) return same_length(g, low, high, 0, true, true, next);
  const std::string nines(low.size(), '9'), round = "1" + std::string(high.size() - 1, '0');
  std::vector<Place> places = {same_length(g, low, nines, 0, true, true, next),
                               same_length(g, round, high, 0, true, true, next)};
  if (low.size() + 1 < high.size()) {
    places.push_back(any_natural(g, low.size() + 1, high.size() - 1, next));
  }
  return g.any_of(places);
}

}  // namespace

Place integer_range(ByteGrammar& g, int64_t least, int64_t most, Place next) {
  std::vector<Place> places;
  if (most >= 0) places.push_back(natural_range(g, std::max<int64_t>(0, least), most, next));
  if (least < 0) {
    const int64_t nearest = std::max<int64_t>(1, -most);
    places.push_back(g.literal("-", natural_range(g, nearest, -least, next)));
  }
  return g.any_of(places);
}

}  // namespace tephra
