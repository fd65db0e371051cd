// SPDX-License-Identifier: Apache-2.0
// Any bytes as a hub's listing of a repository: no name that is taken leads out of the folder.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/hub/repository.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  fuzz::expect_reads_or_refuses([&] {
    const HubListing listing = read_listing(Json::parse(fuzz::text_of(data, size), "hub"), "hub");
    for (const HubFile& file : listing.files) {
      const Path whole = Path("/folder") / file.name;
      if (whole.lexically_normal() != whole) std::abort();
      if (!whole.string().starts_with("/folder/")) std::abort();
    }
  });
  return 0;
}
