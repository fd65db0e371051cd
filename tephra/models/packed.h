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

// Room for these parameters on `device`, packed as `quantisation` says, one after another in one
// block of memory, so that projections of one layer adjoin as they do in bf16.
NamedWeights packed_room(const std::vector<ParameterSpec>& parameters,
                         const Quantisation& quantisation, Device device);
// A checkpoint's packed weights in such room. `plan` has been checked.
NamedWeights packed_on_device(const TensorFolder& folder, const WeightPlan& plan,
                              const Quantisation& quantisation, Device device);
// Random ones, for measuring, drawn where they will be read (see draw_packed); those of
// `parameters` that can be quantised.
NamedWeights draw_packed_weights(const std::vector<ParameterSpec>& parameters,
                                 const Quantisation& quantisation, uint64_t seed, Device device);

// The weights that can stay as they are stored: packed ones and, when options.mapped, bf16 ones of
// parameters that may; views of the files, or copies where options.place says so. `plan` has been
// checked.
NamedWeights weights_in_place(const TensorFolder& folder, const WeightPlan& plan,
                              const LoadOptions& options);

}  // namespace tephra
