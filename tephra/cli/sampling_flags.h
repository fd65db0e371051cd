// SPDX-License-Identifier: Apache-2.0
// The flags of commands that draw tokens.
#pragma once

#include "tephra/cli/command.h"
#include "tephra/infer/sampler.h"

namespace tephra {

void describe_sampling(Flags& flags, Sampling& sampling,
                       const std::string& temperature_help = "0 takes the likeliest token");

// As check_sampling, and refuses what would change nothing because the likeliest token is taken.
void check_sampling_flags(const Sampling& sampling);

}  // namespace tephra
