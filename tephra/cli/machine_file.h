// SPDX-License-Identifier: Apache-2.0
// The measured ceilings, kept in machine.json of the user's cache folder: measuring takes seconds.
#pragma once

#include <optional>
#include <string>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/device/ceilings.h"

namespace tephra {

// $XDG_CACHE_HOME/tephra or ~/.cache/tephra; nothing when neither is known.
std::optional<Path> cache_folder();

// What was measured with this CPU, this number of threads and this version. A file that is absent,
// broken or about another machine gives nothing.
std::optional<Ceilings> load_ceilings(const std::string& cpu, int threads);

// Where it was saved to; nothing, and a warning, when that failed.
std::optional<Path> save_ceilings(const std::string& cpu, int threads, const Ceilings& ceilings);

Json to_json(const Ceilings& ceilings);

}  // namespace tephra
