// SPDX-License-Identifier: Apache-2.0
// The native layout, as transformers reads and writes it. Absent keys take ZAYA1-8B's values.
#include "tephra/models/zaya1/config.h"

#include "tephra/models/zaya1/config_fields.h"

namespace tephra::zaya1 {
namespace {

constexpr const char* kFull = "hybrid";
constexpr const char* kSliding = "hybrid_sliding";
constexpr Rope kFullRope = {5e6, 0.5};
constexpr Rope kSlidingRope = {1e4, 0.5};

bool has_any(const Json& config, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (config.find(key)) return true;
  }
  return false;
}

// Which layers slide.
std::vector<bool> read_layer_types(const Fields& fields, int64_t num_layers) {
  if (!fields.has("layer_types")) return std::vector<bool>(static_cast<size_t>(num_layers), false);
  const Json::Array& types = fields.array("layer_types");
  if (static_cast<int64_t>(types.size()) != num_layers) {
    bad_setting(fields, "layer_types", format("one entry for each of {} layers", num_layers),
                format("{} entries", types.size()));
  }
  std::vector<bool> sliding;
  for (const Json& type : types) {
    const bool known = type.is_string() && (type.string() == kFull || type.string() == kSliding);
    if (!known) {
      bad_setting(fields, "layer_types", format("'{}' or '{}'", kFull, kSliding), type.dump());
    }
    sliding.push_back(type.string() == kSliding);
  }
  return sliding;
}

Rope rope_of(const Fields& fields, const char* layer_type, Rope fallback) {
  if (fields.has("rope_parameters")) {
    const Fields parameters = fields.object("rope_parameters");
    if (has_any(parameters.json(), {kFull, kSliding})) {
      return read_rope(parameters.object(layer_type), fallback);
    }
    return read_rope(parameters, fallback);
  }
  return read_rope(fields, fallback);
}

// One base for both kinds of layer is not what transformers means by a flat setting.
void refuse_flat_rope(const Fields& fields) {
  const bool nested = fields.has("rope_parameters") &&
                      has_any(fields.object("rope_parameters").json(), {kFull, kSliding});
  if (nested || !(fields.has("rope_parameters") || fields.has("rope_theta"))) return;
  throw Error(
      Fault::data,
      format("{}: rope_parameters: expected an object for each of '{}' and '{}', since both "
             "kinds of layer occur, got one setting for all",
             fields.where(), kFull, kSliding));
}

void read_layers(const Fields& fields, Config& config) {
  const std::vector<bool> sliding = read_layer_types(fields, config.num_layers);
  const bool slides = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  const bool full = std::find(sliding.begin(), sliding.end(), false) != sliding.end();
  if (slides) refuse_flat_rope(fields);
  const Rope full_rope = full ? rope_of(fields, kFull, kFullRope) : kFullRope;
  const Rope sliding_rope = slides ? rope_of(fields, kSliding, kSlidingRope) : kSlidingRope;
  if (slides && full && full_rope.partial != sliding_rope.partial) {
    bad_setting(fields, "rope_parameters", "one partial_rotary_factor for all layers",
                format("{} and {}", full_rope.partial, sliding_rope.partial));
  }
  config.partial_rotary = full ? full_rope.partial : sliding_rope.partial;
  int64_t window = 0;
  if (slides) {
    if (!fields.has("sliding_window")) {
      bad_setting(fields, "sliding_window", format("a size, since a layer is '{}'", kSliding),
                  "none");
    }
    window = size_or(fields, "sliding_window", 0, kMostPositions);
  }
  for (bool slide : sliding) {
    config.layers.push_back(slide ? LayerConfig{window, sliding_rope.theta}
                                  : LayerConfig{0, full_rope.theta});
  }
}

void refuse_rope_scaling(const Fields& fields) {
  const Json* scaling = fields.json().find("rope_scaling");
  if (!scaling || scaling->is_null()) return;
  if (scaling->is_bool() && !scaling->boolean()) return;  // as the legacy configs have it
  bool plain = scaling->is_object();
  for (const auto& [key, value] : plain ? scaling->object() : Json::Object{}) {
    const bool names_type = key == "rope_type" || key == "type";
    const bool not_scaling = key == "rope_theta" || key == "partial_rotary_factor";
    plain =
        plain && (not_scaling || (names_type && value.is_string() && value.string() == "default"));
  }
  if (plain) return;
  bad_setting(fields, "rope_scaling", "null: scaled rotary embeddings are not supported",
              scaling->dump());
}

Config parse_native(const Fields& fields) {
  Config c;
  read_shared(fields, c);
  c.num_layers = size_or(fields, "num_hidden_layers", c.num_layers, kMostCount);
  c.query_heads = size_or(fields, "num_attention_heads", c.query_heads, kMostCount);
  c.kv_heads = size_or(fields, "num_key_value_heads", c.kv_heads, kMostCount);
  c.head_dim = size_or(fields, "head_dim", c.head_dim, kMostCount);
  c.expert_hidden = size_or(fields, "moe_intermediate_size", c.expert_hidden, kMostWidth);
  c.num_experts = size_or(fields, "num_experts", c.num_experts, kMostCount);
  c.router_hidden = size_or(fields, "router_hidden_size", c.router_hidden, kMostWidth);
  c.norm_eps = positive_or(fields, "rms_norm_eps", c.norm_eps);
  const int64_t top_k = fields.integer_or("num_experts_per_tok", 1);
  if (top_k != 1) {
    bad_setting(fields, "num_experts_per_tok", "1: a token meets one expert", format("{}", top_k));
  }
  require_string(fields, "hidden_act", "silu");
  read_layers(fields, c);
  read_variants(fields, c);
  return c;
}

Json rope_json(Rope rope) {
  Json json;
  json["partial_rotary_factor"] = rope.partial;
  json["rope_theta"] = rope.theta;
  json["rope_type"] = "default";
  return json;
}

void write_layers(const Config& config, Json& json) {
  Rope full = {kFullRope.theta, config.partial_rotary};
  Rope sliding = {kSlidingRope.theta, config.partial_rotary};
  Json types(Json::Array{});
  Json window;
  for (const LayerConfig& layer : config.layers) {
    types.push_back(layer.window > 0 ? kSliding : kFull);
    (layer.window > 0 ? sliding : full).theta = layer.rope_theta;
    if (layer.window > 0) window = layer.window;
  }
  json["layer_types"] = types;
  json["rope_parameters"][kFull] = rope_json(full);
  json["rope_parameters"][kSliding] = rope_json(sliding);
  json["sliding_window"] = window;
}

Json ids_json(const std::vector<int64_t>& ids) {
  if (ids.size() == 1) return ids[0];
  return Json::Array(ids.begin(), ids.end());
}

}  // namespace

bool is_legacy(const Json& config) {
  if (has_any(config, {"layer_types", "moe_intermediate_size"})) return false;
  return has_any(config, {"cca", "zaya_layers", "smoe_layers", "ffn_hidden_size",
                          "ffn_hidden_size_list", "zaya_mlp_expansion", "smoe_mlp_expansion"});
}

Config parse_config(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  if (has_any(json, {"vision_config", "vision_tower"})) {
    throw Error(
        Fault::data,
        format("{}: this is the vision-language layout (ZAYA1-VL), which is not supported", where),
        "the text models of the family are: ZAYA1-base, ZAYA1-8B, ZAYA1-74B");
  }
  refuse_rope_scaling(fields);
  if (is_legacy(json)) refuse_variants(fields);
  const Config config = is_legacy(json) ? parse_legacy(fields) : parse_native(fields);
  check_sizes(config, fields);
  return config;
}

Json native_config(const Config& c) {
  Json json;
  json["architectures"].push_back("ZayaForCausalLM");
  json["attention_bias"] = c.attention_bias;
  json["attention_dropout"] = 0.0;
  json["bos_token_id"] = c.bos_id;
  json["cca_time0"] = c.conv0_width;
  json["cca_time1"] = c.conv1_width;
  json["eos_token_id"] = ids_json(c.eos_ids);
  json["head_dim"] = c.head_dim;
  json["hidden_act"] = "silu";
  json["hidden_size"] = c.hidden;
  json["initializer_range"] = c.init_std;
  json["lm_head_bias"] = c.lm_head_bias;
  json["max_position_embeddings"] = c.max_positions;
  json["model_type"] = "zaya";
  json["moe_intermediate_size"] = c.expert_hidden;
  json["num_attention_heads"] = c.query_heads;
  json["num_experts"] = c.num_experts;
  json["num_experts_per_tok"] = 1;
  json["num_hidden_layers"] = c.num_layers;
  json["num_key_value_heads"] = c.kv_heads;
  json["output_router_logits"] = false;
  json["pad_token_id"] = c.pad_id;
  json["rms_norm_eps"] = c.norm_eps;
  json["router_hidden_size"] = c.router_hidden;
  json["tie_word_embeddings"] = c.tied_embedding;
  json["use_cache"] = true;
  json["vocab_size"] = c.vocab_size;
  write_layers(c, json);
  if (c.skip_rule == SkipRule::identity) json["tephra_skip_rule"] = "identity";
  if (c.pad_row_gets_no_input_gradient) json["tephra_pad_row_rule"] = "no_input_gradient";
  write_variants(c, json);
  return json;
}

}  // namespace tephra::zaya1
