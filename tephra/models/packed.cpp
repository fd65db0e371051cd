// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/packed.h"

#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/models/weight_memory.h"

namespace tephra {
namespace {

constexpr const char* kSection = "quantization_config";
constexpr const char* kMethod = "tephra-packed";
constexpr int64_t kVersion = 1;

int64_t bits_of(PackedFormat format) { return format == PackedFormat::q8 ? 8 : 4; }

PackedFormat read_bits(const Fields& fields, const char* key) {
  const int64_t bits = fields.integer(key);
  require_data(bits == 8 || bits == 4, "{}: {}: expected 8 or 4, got {}", fields.where(), key,
               bits);
  return bits == 8 ? PackedFormat::q8 : PackedFormat::q4;
}

bool stays_as_stored(const TensorFolder& folder, const WeightSource& source, bool mapped) {
  if (source.packed) return true;
  return mapped && source.parameter.narrowing != Narrowing::none && source.from.size() == 1 &&
         folder.entry(source.from[0]).dtype == DType::bf16;
}

}  // namespace

PackedFormat Quantisation::of(ParameterKind kind) const {
  return kind == ParameterKind::embedding || kind == ParameterKind::head ? head : body;
}

std::optional<Quantisation> quantisation_of(const Json& config, const std::string& where) {
  const Json* section = config.find(kSection);
  if (section == nullptr || !section->is_object()) return {};
  const Fields fields(*section, format("{}: {}", where, kSection));
  if (fields.string_or("quant_method", "") != kMethod) return {};
  const int64_t version = fields.integer("version"), group = fields.integer("group_size");
  require_data(version == kVersion, "{}: expected version {}, got {}; a newer tephra may read it",
               fields.where(), kVersion, version);
  require_data(group == cpu::kGroupColumns, "{}: group_size: expected {}, got {}", fields.where(),
               cpu::kGroupColumns, group);
  return Quantisation{read_bits(fields, "bits"), read_bits(fields, "head_bits")};
}

Json quantisation_json(const Quantisation& q) {
  Json json;
  json["quant_method"] = kMethod;
  json["version"] = kVersion;
  json["bits"] = bits_of(q.body);
  json["head_bits"] = bits_of(q.head);
  json["group_size"] = cpu::kGroupColumns;
  return json;
}

void mark_packed(WeightPlan& plan, const Json& config, const std::string& where) {
  const std::optional<Quantisation> quantisation = quantisation_of(config, where);
  if (!quantisation) return;
  for (WeightSource& source : plan.sources) {
    if (source.parameter.narrowing != Narrowing::quantised) continue;
    source.packed = quantisation->of(source.parameter.kind);
  }
}

NamedWeights packed_room(const std::vector<ParameterSpec>& parameters,
                         const Quantisation& quantisation, Device device) {
  int64_t total = 0;
  const auto shape_of = [&](const ParameterSpec& p) {
    return packed_shape(quantisation.of(p.kind), p.shape);
  };
  for (const ParameterSpec& p : parameters) total += shape_of(p).numel();
  const Tensor room({total, 1}, DType::u8, device, Purpose::weights);
  NamedWeights weights;
  int64_t at = 0;
  for (const ParameterSpec& p : parameters) {
    const Shape shape = shape_of(p);
    const Tensor blocks = room.slice_rows(at, at + shape.numel()).view(shape);
    weights.emplace(p.name, Weight(PackedWeight(quantisation.of(p.kind), p.shape, blocks)));
    at += shape.numel();
  }
  return weights;
}

NamedWeights packed_on_device(const TensorFolder& folder, const WeightPlan& plan,
                              const Quantisation& quantisation, Device device) {
  std::vector<ParameterSpec> parameters;
  for (const WeightSource& source : plan.sources) {
    if (source.packed) parameters.push_back(source.parameter);
  }
  NamedWeights weights = packed_room(parameters, quantisation, device);
  for (const WeightSource& source : plan.sources) {
    if (!source.packed) continue;
    stop_if_interrupted();
    copy_into(weights.at(source.parameter.name).packed().blocks(), folder.tensor(source.from[0]));
    release(folder, source);
  }
  return weights;
}

NamedWeights draw_packed_weights(const std::vector<ParameterSpec>& parameters,
                                 const Quantisation& quantisation, uint64_t seed, Device device) {
  std::vector<ParameterSpec> drawn;
  for (const ParameterSpec& p : parameters) {
    if (p.narrowing == Narrowing::quantised) drawn.push_back(p);
  }
  NamedWeights weights = packed_room(drawn, quantisation, device);
  for (const ParameterSpec& p : drawn) {
    draw_packed(weights.at(p.name).packed(), {seed, stream_of(p.name), 0}, p.init_std);
  }
  return weights;
}

NamedWeights weights_in_place(const TensorFolder& folder, const WeightPlan& plan,
                              const LoadOptions& options) {
  std::vector<const WeightSource*> sources;
  std::vector<std::string> names;
  int64_t bytes = 0, other = 0;  // other: of weights that do not stay as they are stored
  for (const WeightSource& source : plan.sources) {
    if (!stays_as_stored(folder, source, options.mapped)) {
      other += source.parameter.shape.numel() * size_of(options.dtype);
      continue;
    }
    sources.push_back(&source);
    names.push_back(source.from[0]);
    bytes += folder.entry(names.back()).end - folder.entry(names.back()).begin;
  }
  Tensors tensors;
  if (belongs_in_memory(options.place, bytes)) {
    tensors = read_into_memory(folder, names);
  } else {
    if (options.copy_small_pages) copy_small_pages(folder, names, other);
    for (const std::string& name : names) tensors.push_back(folder.tensor(name));
  }
  NamedWeights weights;
  for (size_t i = 0; i < sources.size(); ++i) {
    const ParameterSpec& parameter = sources[i]->parameter;
    Weight weight = sources[i]->packed
                        ? Weight(PackedWeight(*sources[i]->packed, parameter.shape, tensors[i]))
                        : Weight(tensors[i]);
    weights.emplace(parameter.name, std::move(weight));
  }
  return weights;
}

}  // namespace tephra
