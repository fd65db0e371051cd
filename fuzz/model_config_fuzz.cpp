// SPDX-License-Identifier: Apache-2.0
// Any text as a config.json: what is accepted is written in the native layout and reads back alike.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/models/zaya1/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  fuzz::expect_reads_or_refuses([&] {
    const Json json = Json::parse(fuzz::text_of(data, size), "config.json");
    const zaya1::Config config = zaya1::parse_config(json, "config.json");
    const Json native = zaya1::native_config(config);
    if (zaya1::parse_config(native, "native config.json") != config) std::abort();
  });
  return 0;
}
