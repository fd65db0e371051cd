// SPDX-License-Identifier: Apache-2.0
// The table of models: one row each, and the configs that have a name.
#include "tephra/models/model.h"
#include "tephra/models/packed.h"
#include "tephra/models/zaya1/config.h"
#include "tephra/models/zaya1/model.h"

namespace tephra {
namespace {

WeightPlan zaya1_plan(const TensorFolder& folder, const Json& config, const std::string& where) {
  WeightPlan plan =
      zaya1::weight_plan(folder, zaya1::parse_config(config, where), zaya1::is_legacy(config));
  mark_packed(plan, config, where);
  return plan;
}

const ModelKind kKinds[] = {
    {
        .model_type = "zaya",
        .summary = "ZAYA1: compressed convolutional attention, top-1 mixture of experts",
        .layout = [](const Json& config) -> std::string {
          return zaya1::is_legacy(config) ? "legacy" : "native";
        },
        .parameters =
            [](const Json& config, const std::string& where) {
              return zaya1::parameters(zaya1::parse_config(config, where));
            },
        .layer_kinds =
            [](const Json& config, const std::string& where) {
              return zaya1::layer_kinds(zaya1::parse_config(config, where));
            },
        .figures =
            [](const Json& config, const std::string& where, int64_t context) {
              return zaya1::figures(zaya1::parse_config(config, where), context);
            },
        .native_config =
            [](const Json& config, const std::string& where) {
              return zaya1::native_config(zaya1::parse_config(config, where));
            },
        .weights = [](const TensorFolder& folder, const Json& config,
                      const std::string& where) { return zaya1_plan(folder, config, where); },
        .load =
            [](const TensorFolder& folder, const Json& config, const std::string& where,
               ParameterStore& store) {
              zaya1::load_weights(folder, zaya1::parse_config(config, where),
                                  zaya1_plan(folder, config, where), store);
            },
        .create =
            [](const Json& config, const std::string& where, const LoadOptions& options) {
              return zaya1::create(zaya1::parse_config(config, where), options);
            },
    },
};

struct Preset {
  const char* name;
  const char* dtype;
  zaya1::Config (*config)();
};

const Preset kPresets[] = {
    {"zaya1-8b", "bfloat16", zaya1::preset_8b},
    {"zaya1-74b", "bfloat16", zaya1::preset_74b},
    {"tiny", "float32", zaya1::preset_tiny},
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const ModelKind& model_kind(const Json& config, const std::string& where) {
  const std::string type = Fields(config, where).string("model_type");
  std::vector<std::string> known;
  for (const ModelKind& kind : kKinds) {
    if (type == kind.model_type) return kind;
    known.push_back(kind.model_type);
  }
  const bool vision = type.find("zaya") != type.npos && type.find("vl") != type.npos;
  throw Error(Fault::data, format("{}: model_type '{}' is not supported{}; known: {}", where, type,
                                  vision ? " (the vision-language layout)" : "", joined(known)));
}

Json preset_config(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    Json config = zaya1::native_config(preset.config());
    config["dtype"] = preset.dtype;
    return config;
  }
  throw Error(Fault::usage,
              format("'{}' is not the name of a config; known: {}", name, joined(preset_names())));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

}  // namespace tephra
