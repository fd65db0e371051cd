// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/environments/draw.h"

#include "tephra/base/error.h"

namespace tephra {

uint64_t Draw::bits() {
  const auto r = philox(key_, next_++);
  return uint64_t{r[1]} << 32 | r[0];
}

// The high half of a 128-bit product: a bias of at most range / 2^64.
int64_t Draw::between(int64_t low, int64_t high) {
  TEPHRA_ASSERT(low <= high, "a range has at least one value");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  const auto wide = static_cast<unsigned __int128>(bits()) * range;
  return low + static_cast<int64_t>(static_cast<uint64_t>(wide >> 64));
}

char Draw::pick(std::string_view letters) {
  return letters[static_cast<size_t>(between(0, static_cast<int64_t>(letters.size()) - 1))];
}

std::string Draw::word(int64_t length, std::string_view letters) {
  std::string result;
  for (int64_t i = 0; i < length; ++i) result += pick(letters);
  return result;
}

std::string Draw::number(int64_t digits) {
  if (digits == 1) return word(1, "0123456789");
  return word(1, "123456789") + word(digits - 1, "0123456789");
}

}  // namespace tephra
