// SPDX-License-Identifier: Apache-2.0
// Any bytes as UTF-8: the check agrees with a decoder written from the standard's table, and JSON
// strings survive a round trip.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"

namespace {

// The well-formed byte sequences of the Unicode standard, table 3-7.
size_t length_by_table(const unsigned char* s, size_t n) {
  const auto in = [&](size_t i, int low, int high) { return i < n && s[i] >= low && s[i] <= high; };
  if (in(0, 0x00, 0x7f)) return 1;
  if (in(0, 0xc2, 0xdf)) return in(1, 0x80, 0xbf) ? 2 : 0;
  if (in(0, 0xe0, 0xef)) {
    const bool second = in(0, 0xe0, 0xe0)   ? in(1, 0xa0, 0xbf)
                        : in(0, 0xed, 0xed) ? in(1, 0x80, 0x9f)
                                            : in(1, 0x80, 0xbf);
    return second && in(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (in(0, 0xf0, 0xf4)) {
    const bool second = in(0, 0xf0, 0xf0)   ? in(1, 0x90, 0xbf)
                        : in(0, 0xf4, 0xf4) ? in(1, 0x80, 0x8f)
                                            : in(1, 0x80, 0xbf);
    return second && in(2, 0x80, 0xbf) && in(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const std::string_view text = fuzz::text_of(data, size);
  bool valid = true;
  for (size_t i = 0; i < size && valid;) {
    const size_t length = length_by_table(data + i, size - i);
    valid = length > 0;
    i += length;
  }
  if (is_utf8(text) != valid) std::abort();
  const std::string dumped = Json(std::string(text)).dump();
  if (!is_utf8(dumped)) std::abort();
  const Json back = Json::parse(dumped, "round trip");
  if (valid && back.string() != text) std::abort();
  return 0;
}
