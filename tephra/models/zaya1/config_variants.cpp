// SPDX-License-Identifier: Apache-2.0
// What may differ from the published architecture: the kind of attention, CCA's parts, and a dense
// feed-forward layer. transformers does not know these keys, so they are written only where they
// differ. Sizes that are not given follow the comparisons of the CCA paper (docs/models/zaya1.md).
#include <array>

#include "tephra/base/log.h"
#include "tephra/models/zaya1/config_fields.h"

namespace tephra::zaya1 {
namespace {

struct Key {
  const char* name;
  const char* of;    // the setting that decides whether it is read; null: always
  const char* when;  // its value then
};

constexpr Key kKeys[] = {{"attention_type", nullptr, nullptr},
                         {"cca_conv_count", "attention_type", "cca"},
                         {"cca_qk_mean", "attention_type", "cca"},
                         {"cca_value_shift", "attention_type", "cca"},
                         {"cca_temperature", "attention_type", "cca"},
                         {"q_lora_rank", "attention_type", "mla"},
                         {"kv_lora_rank", "attention_type", "mla"},
                         {"qk_nope_head_dim", "attention_type", "mla"},
                         {"qk_rope_head_dim", "attention_type", "mla"},
                         {"v_head_dim", "attention_type", "mla"},
                         {"mlp_type", nullptr, nullptr},
                         {"intermediate_size", "mlp_type", "dense"}};

constexpr std::array<std::string_view, 4> kAttentionTypes = {"cca", "mha", "gqa", "mla"};
constexpr std::array<std::string_view, 2> kMlpTypes = {"moe", "dense"};
constexpr std::array<std::string_view, 3> kTemperatures = {"linear", "exp", "none"};

// The enumerator whose name the setting gives; names are in the order of the enumerators.
template <class Enum, size_t n>
Enum choice_or(const Fields& fields, std::string_view key,
               const std::array<std::string_view, n>& names, Enum fallback) {
  const std::string given =
      fields.string_or(key, std::string(names[static_cast<size_t>(fallback)]));
  std::string known;
  for (size_t i = 0; i < n; ++i) {
    if (given == names[i]) return static_cast<Enum>(i);
    known += (i == 0 ? "'" : i + 1 == n ? " or '" : ", '") + std::string(names[i]) + "'";
  }
  bad_setting(fields, key, known, format("'{}'", given));
}

// A size that may be 0.
int64_t count_or(const Fields& fields, std::string_view key, int64_t fallback, int64_t most) {
  const int64_t value = fields.integer_or(key, fallback);
  if (value < 0 || value > most) {
    bad_setting(fields, key, format("a number from 0 to {}", most), format("{}", value));
  }
  return value;
}

void read_cca(const Fields& fields, Config& c) {
  c.conv_count = count_or(fields, "cca_conv_count", c.conv_count, 2);
  c.qk_mean = fields.boolean_or("cca_qk_mean", c.qk_mean);
  c.value_shift = fields.boolean_or("cca_value_shift", c.value_shift);
  c.temperature = choice_or(fields, "cca_temperature", kTemperatures, c.temperature);
}

// Queries through half of the stream's width, keys and values through a quarter; heads as they are,
// with a rotated part half as wide.
void read_mla(const Fields& fields, Config& c) {
  const auto at_least = [](int64_t least, int64_t size) { return std::max(least, size); };
  MlaDims& m = c.mla;
  const bool direct = fields.json().find("q_lora_rank") && !fields.has("q_lora_rank");  // null
  m.q_rank = direct ? 0 : count_or(fields, "q_lora_rank", at_least(1, c.hidden / 2), kMostWidth);
  m.kv_rank = size_or(fields, "kv_lora_rank", at_least(1, c.hidden / 4), kMostWidth);
  m.nope_dim = size_or(fields, "qk_nope_head_dim", c.head_dim, kMostCount);
  m.rope_dim = size_or(fields, "qk_rope_head_dim", at_least(2, c.head_dim / 4 * 2), kMostCount);
  m.value_dim = size_or(fields, "v_head_dim", c.head_dim, kMostCount);
  if (m.rope_dim % 2 != 0) {
    bad_setting(fields, "qk_rope_head_dim", "an even number, since pairs are rotated",
                format("{}", m.rope_dim));
  }
}

void warn_of_unread(const Fields& fields, const Config& c) {
  for (const Key& key : kKeys) {
    if (!key.of || !fields.has(key.name)) continue;
    const std::string type =
        std::string_view(key.of) == "mlp_type" ? to_text(c.mlp) : to_text(c.attention);
    if (type == key.when) continue;
    warn_once(key.name, "{}: {} is not read: it is for {} '{}', and this is '{}'", fields.where(),
              key.name, key.of, key.when, type);
  }
}

// Every query head has a key and a value of its own.
void give_each_head_its_key(const Fields& fields, Config& c) {
  if (fields.has("num_key_value_heads") && c.kv_heads != c.query_heads) {
    warn_once("num_key_value_heads",
              "{}: num_key_value_heads is {}, but with attention_type '{}' "
              "each of the {} query heads has its own; taking {}",
              fields.where(), c.kv_heads, to_text(c.attention), c.query_heads, c.query_heads);
  }
  c.kv_heads = c.query_heads;
}

}  // namespace

std::string to_text(AttentionType type) {
  return std::string(kAttentionTypes[static_cast<size_t>(type)]);
}

std::string to_text(MlpType type) { return std::string(kMlpTypes[static_cast<size_t>(type)]); }

void read_variants(const Fields& fields, Config& c) {
  c.attention = choice_or(fields, "attention_type", kAttentionTypes, c.attention);
  switch (c.attention) {
    case AttentionType::cca:
      read_cca(fields, c);
      break;
    case AttentionType::mha:
      give_each_head_its_key(fields, c);
      break;
    case AttentionType::gqa:
      break;
    case AttentionType::mla:
      give_each_head_its_key(fields, c);
      read_mla(fields, c);
      break;
  }
  c.mlp = choice_or(fields, "mlp_type", kMlpTypes, c.mlp);
  if (c.mlp == MlpType::dense) {
    c.dense_hidden = size_or(fields, "intermediate_size", c.expert_hidden, kMostWidth);
  }
  warn_of_unread(fields, c);
}

void refuse_variants(const Fields& fields) {
  for (const Key& key : kKeys) {
    if (!fields.has(key.name)) continue;
    bad_setting(fields, key.name,
                "a native config.json for it: the legacy layout has one architecture",
                fields.json().find(key.name)->dump());
  }
}

void write_variants(const Config& c, Json& json) {
  if (c.attention != AttentionType::cca) json["attention_type"] = to_text(c.attention);
  if (c.attention == AttentionType::cca) {
    const Config published;
    if (c.conv_count != published.conv_count) json["cca_conv_count"] = c.conv_count;
    if (c.qk_mean != published.qk_mean) json["cca_qk_mean"] = c.qk_mean;
    if (c.value_shift != published.value_shift) json["cca_value_shift"] = c.value_shift;
    if (c.temperature != published.temperature) {
      json["cca_temperature"] = std::string(kTemperatures[static_cast<size_t>(c.temperature)]);
    }
  }
  if (c.attention == AttentionType::mla) {
    json["q_lora_rank"] = c.mla.q_rank;
    json["kv_lora_rank"] = c.mla.kv_rank;
    json["qk_nope_head_dim"] = c.mla.nope_dim;
    json["qk_rope_head_dim"] = c.mla.rope_dim;
    json["v_head_dim"] = c.mla.value_dim;
  }
  if (c.mlp == MlpType::dense) {
    json["mlp_type"] = to_text(c.mlp);
    json["intermediate_size"] = c.dense_hidden;
  }
}

}  // namespace tephra::zaya1
