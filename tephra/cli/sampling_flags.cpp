// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/sampling_flags.h"

#include "tephra/base/error.h"

namespace tephra {

void describe_sampling(Flags& flags, Sampling& sampling, const std::string& temperature_help) {
  flags.add("--temperature", sampling.temperature, temperature_help);
  flags.add("--top-k", sampling.top_k, "keep this many of the likeliest tokens; 0 keeps all");
  flags.add("--top-p", sampling.top_p, "keep the likeliest tokens up to this share of the mass");
  flags.add("--min-p", sampling.min_p, "drop tokens below this share of the likeliest's mass");
}

void check_sampling_flags(const Sampling& sampling) {
  check_sampling(sampling);
  if (sampling.temperature > 0) return;
  const auto unused = [](bool given, const char* flag) {
    require(!given, "{} is for a --temperature above 0; at 0 the likeliest token is taken", flag);
  };
  unused(sampling.top_k > 0, "--top-k");
  unused(sampling.top_p < 1, "--top-p");
  unused(sampling.min_p > 0, "--min-p");
}

}  // namespace tephra
