// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tephra/device/device.h"

namespace tephra::gpu {

// Why a GPU of status() cannot run this build's kernels; empty where it can. Kept apart from
// status(), because asking sets the device up, which takes memory and time: only those that
// somebody wants are asked, once each. Never throws.
const std::string& why_unusable(int index);

// Why none of this build's kernels runs on such a GPU ("sm_75", "gfx942").
std::string no_kernels_for(const std::string& architecture);

// Whether this build has Hopper's own code. Without it such GPUs run the portable kernels.
bool has_hopper_code();

// Whether a GPU that can be used starts a kernel while the one ahead still runs, as code for Hopper
// and later ones can.
bool starts_kernels_early(int index);

}  // namespace tephra::gpu
