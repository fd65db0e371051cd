// SPDX-License-Identifier: Apache-2.0
// Quantised model folders (docs/formats/packed-weights.md): what config.json says of them, and the
// weights that a model reads where they lie in the mapped files.
#pragma once

#include <optional>
#include <string>

#include "tephra/base/json.h"
#include "tephra/models/model.h"

namespace tephra {

// How the quantised parameters of a model are stored.
struct Quantisation {
  PackedFormat body = PackedFormat::q8;
  PackedFormat head = PackedFormat::q8;  // of the embedding and the output projection

  PackedFormat of(ParameterKind kind) const;
};

// What the config says; nothing when the model is not quantised by us. Fault::data when it cannot
// be read by this version.
std::optional<Quantisation> quantisation_of(const Json& config, const std::string& where);
Json quantisation_json(const Quantisation& quantisation);

// Tells `plan` which parameters the config says are packed.
void mark_packed(WeightPlan& plan, const Json& config, const std::string& where);

// The weights that can stay as they are stored: packed ones and, when `mapped`, bf16 ones of
// parameters that may; views of the files, or copies where `place` says so. `plan` has been
// checked.
NamedWeights weights_in_place(const TensorFolder& folder, const WeightPlan& plan, bool mapped,
                              WeightPlace place = WeightPlace::mapped);

}  // namespace tephra
