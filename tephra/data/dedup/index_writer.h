// SPDX-License-Identifier: Apache-2.0
// Adds the documents that a run kept to an index: a new segment, which counts from the moment that
// index.json names it.
#pragma once

#include "tephra/data/dedup/dedup_index.h"
#include "tephra/data/dedup/signature_files.h"

namespace tephra {

struct IndexSettings {
  IndexKind kind = IndexKind::full;
  double bloom_rate = 1e-5;
};

// Fault::usage when an index of another kind or of other signatures is there.
void check_index_to_save(const Path& folder, const SignaturePreset& preset,
                         const IndexSettings& settings);

// Documents for which `left_out` is set are not added. The same documents once more change nothing.
void add_to_index(const Path& folder, const SignaturePreset& preset, const IndexSettings& settings,
                  const SignatureFiles& signatures, const std::vector<bool>& left_out);

}  // namespace tephra
