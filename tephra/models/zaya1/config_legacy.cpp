// SPDX-License-Identifier: Apache-2.0
// The layout of the first release: an attention and an expert block are two half-layers, settings
// come as scalars or as lists with one entry per half-layer, and the lists win (a scalar beside one
// may be stale). The pre-release spelling of "zaya_" is "smoe_".
#include <optional>

#include "tephra/base/log.h"
#include "tephra/models/zaya1/config_fields.h"

namespace tephra::zaya1 {
namespace {

// The first of `keys` that is present.
std::string_view spelling(const Fields& fields, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (fields.has(key)) return key;
  }
  return *keys.begin();
}

// The half-layers: their number, and the experts of the odd ones where a list says so.
struct HalfLayers {
  int64_t count = 0;
  std::optional<int64_t> experts;
};

int64_t list_size(const Fields& fields, std::string_view key, const Json& value, int64_t most) {
  if (!value.is_int()) bad_setting(fields, key, "a list of integers", value.kind());
  if (value.integer() < 0 || value.integer() > most) {
    bad_setting(fields, key, format("sizes from 0 to {}", most), value.dump());
  }
  return value.integer();
}

HalfLayers read_block_list(const Fields& fields, std::string_view key) {
  const Json::Array& blocks = fields.array(key);
  HalfLayers half = {static_cast<int64_t>(blocks.size()), std::nullopt};
  for (size_t n = 0; n < blocks.size(); ++n) {
    const bool attention = blocks[n].is_string() && blocks[n].string() == "a";
    if (n % 2 == 0 ? !attention : !blocks[n].is_int()) {
      bad_setting(fields, key, "\"a\" and a number of experts in turn",
                  format("{} at entry {}", blocks[n].dump(), n));
    }
    if (n % 2 == 0) continue;
    const int64_t experts = list_size(fields, key, blocks[n], kMostCount);
    if (experts == 0) bad_setting(fields, key, "at least one expert", format("0 at entry {}", n));
    if (experts != half.experts.value_or(experts)) {
      bad_setting(fields, key, "the same number of experts in every layer",
                  format("{} and {}", *half.experts, experts));
    }
    half.experts = experts;
  }
  return half;
}

HalfLayers read_half_layers(const Fields& fields) {
  const std::string_view list = spelling(fields, {"zaya_layers", "smoe_layers"});
  HalfLayers half = {80, std::nullopt};
  std::string_view key = "num_hidden_layers";
  if (fields.has(list)) {
    half = read_block_list(fields, list);
    key = list;
  } else {
    half.count = size_or(fields, key, half.count, 2 * kMostCount);
  }
  if (half.count < 2 || half.count % 2 != 0 || half.count > 2 * kMostCount) {
    bad_setting(fields, key, "an even number of half-layers", format("{}", half.count));
  }
  return half;
}

// A setting that may be a scalar or a list with 0 on the half-layers it does not concern.
// `odd`: which half-layers those are not.
std::optional<int64_t> scalar_or_list(const Fields& fields, std::string_view key,
                                      const HalfLayers& half, bool odd, int64_t most) {
  if (!fields.has(key)) return std::nullopt;
  if (!fields.json().find(key)->is_array()) return size_or(fields, key, 0, most);
  const Json::Array& list = fields.array(key);
  if (static_cast<int64_t>(list.size()) != half.count) {
    bad_setting(fields, key, format("one entry for each of {} half-layers", half.count),
                format("{} entries", list.size()));
  }
  std::optional<int64_t> common;
  for (size_t n = odd ? 1 : 0; n < list.size(); n += 2) {
    const int64_t value = list_size(fields, key, list[n], most);
    if (value == 0 || value != common.value_or(value)) {
      bad_setting(fields, key,
                  format("one size above 0 on all {} half-layers", odd ? "expert" : "attention"),
                  format("{} at entry {}", value, n));
    }
    common = value;
  }
  return common;
}

void read_heads(const Fields& fields, const HalfLayers& half, Config& c) {
  const int64_t heads = size_or(fields, "num_attention_heads", c.query_heads, kMostCount);
  // Early configs count the heads of an uncompressed model there, and the true ones here.
  c.query_heads =
      scalar_or_list(fields, "cca_num_q_heads", half, false, kMostCount).value_or(heads);
  const int64_t kv_heads =
      size_or(fields, spelling(fields, {"num_query_groups", "num_key_value_heads"}), c.kv_heads,
              kMostCount);
  c.kv_heads =
      scalar_or_list(fields, "num_query_groups_list", half, false, kMostCount).value_or(kv_heads);
  const std::string_view key = spelling(fields, {"head_dim", "kv_channels"});
  c.head_dim = size_or(fields, key, c.hidden / heads, kMostCount);
}

void read_experts(const Fields& fields, const HalfLayers& half, Config& c) {
  c.num_experts =
      half.experts ? *half.experts : size_or(fields, "num_experts", c.num_experts, kMostCount);
  const std::string_view width = spelling(fields, {"ffn_hidden_size_list", "ffn_hidden_size"});
  const int64_t both =
      scalar_or_list(fields, width, half, true, 2 * kMostWidth).value_or(2 * c.expert_hidden);
  if (both % 2 != 0) {
    bad_setting(fields, width, "an even size: gate and up side by side", format("{}", both));
  }
  c.expert_hidden = both / 2;
  const std::string_view router = spelling(fields, {"zaya_mlp_expansion", "smoe_mlp_expansion"});
  c.router_hidden =
      scalar_or_list(fields, router, half, true, kMostWidth).value_or(c.router_hidden);
}

// swa_layers: the window of each half-layer without the current token, 0 for none.
std::vector<int64_t> read_windows(const Fields& fields, const HalfLayers& half) {
  std::vector<int64_t> windows(static_cast<size_t>(half.count / 2), 0);
  if (!fields.has("swa_layers")) return windows;
  const Json::Array& list = fields.array("swa_layers");
  if (static_cast<int64_t>(list.size()) != half.count) {
    bad_setting(fields, "swa_layers", format("one entry for each of {} half-layers", half.count),
                format("{} entries", list.size()));
  }
  for (size_t n = 0; n < list.size(); ++n) {
    const int64_t before = list_size(fields, "swa_layers", list[n], kMostPositions);
    if (before == 0) continue;
    if (n % 2 != 0) {
      bad_setting(fields, "swa_layers", "0 on the expert half-layers",
                  format("{} at entry {}", before, n));
    }
    windows[n / 2] = before + 1;
  }
  return windows;
}

void read_layers(const Fields& fields, const HalfLayers& half, Config& c) {
  const std::string_view base = spelling(fields, {"rope_theta", "rotary_base"});
  if (!fields.has(base)) {
    // The releases differ in nothing else, so a guess could not be noticed.
    bad_setting(fields, base, "the base of the rotary embedding", "none");
  }
  const double theta = positive_or(fields, base, 0);
  const double sliding_theta = positive_or(fields, "swa_rotary_base", 1e4);
  const std::string_view share = spelling(fields, {"partial_rotary_factor", "rope_pct"});
  c.partial_rotary = positive_or(fields, share, c.partial_rotary);
  if (c.partial_rotary > 1) {
    bad_setting(fields, share, "a share of at most 1", format("{}", c.partial_rotary));
  }
  int64_t common = 0;
  for (int64_t window : read_windows(fields, half)) {
    if (window > 0 && common > 0 && window != common) {
      bad_setting(fields, "swa_layers", "the same window in every sliding layer",
                  format("{} and {}", common - 1, window - 1));
    }
    if (window > 0) common = window;
    c.layers.push_back({window, window > 0 ? sliding_theta : theta});
  }
}

void check_fixed_settings(const Fields& fields) {
  const std::string_view top_k = spelling(fields, {"moe_router_topk", "num_experts_per_tok"});
  if (const int64_t k = fields.integer_or(top_k, 1); k != 1) {
    bad_setting(fields, top_k, "1: a token meets one expert", format("{}", k));
  }
  for (const char* key : {"cca", "gated_linear_unit", "zaya_use_mod", "zaya_use_eda",
                          "smoe_use_mod", "smoe_use_eda", "scale_residual_merge"}) {
    require_flag(fields, key, true);
  }
  require_flag(fields, "add_bias_linear", false);
  require_flag(fields, "clamp_temp", false);
  require_string(fields, "activation_func", "swiglu");
  require_string(fields, "normalization", "RMSNorm");
  if (!fields.boolean_or("residual_in_fp32", true)) {
    log_warning("{}: residual_in_fp32 is false; the residual stream is kept in fp32 all the same",
                fields.where());
  }
}

}  // namespace

Config parse_legacy(const Fields& fields) {
  Config c;
  read_shared(fields, c);
  check_fixed_settings(fields);
  const HalfLayers half = read_half_layers(fields);
  c.num_layers = half.count / 2;
  read_heads(fields, half, c);
  read_experts(fields, half, c);
  c.norm_eps = positive_or(fields, spelling(fields, {"norm_epsilon", "rms_norm_eps"}), c.norm_eps);
  read_layers(fields, half, c);
  return c;
}

}  // namespace tephra::zaya1
