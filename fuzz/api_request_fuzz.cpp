// SPDX-License-Identifier: Apache-2.0
// Any text as the body of an API request: it is read, or refused with a 4xx that is JSON.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/api_request.h"

namespace {

using namespace tephra;

template <class Read>
void read_or_refuse(Read&& read) {
  try {
    read();
  } catch (const ApiError& e) {
    if (e.status() < 400 || e.status() > 499) std::abort();
    (void)Json::parse(e.json().dump(), "error");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect_reads_or_refuses([&] {
    const Json body = Json::parse(fuzz::text_of(data, size), "body");
    read_or_refuse([&] { (void)read_completion_request(body, {}); });
    read_or_refuse([&] { (void)read_chat_request(body, {}); });
  });
  return 0;
}
