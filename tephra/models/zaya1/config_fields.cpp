// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/zaya1/config_fields.h"

#include <cmath>

namespace tephra::zaya1 {
namespace {

constexpr double kMostParameters = 1e15;  // far above any model, far below what int64 holds

int64_t token_id(const Fields& fields, std::string_view key, const Json& value, int64_t vocab) {
  if (!value.is_int()) bad_setting(fields, key, "a token id", value.kind());
  if (value.integer() < 0 || value.integer() >= vocab) {
    bad_setting(fields, key, format("a token id below vocab_size {}", vocab), value.dump());
  }
  return value.integer();
}

int64_t token_id_or(const Fields& fields, std::string_view key, int64_t fallback, int64_t vocab) {
  const Json* value = fields.json().find(key);
  if (!value || value->is_null()) return fallback;
  return token_id(fields, key, *value, vocab);
}

std::vector<int64_t> eos_ids(const Fields& fields, std::vector<int64_t> fallback, int64_t vocab) {
  const Json* value = fields.json().find("eos_token_id");
  if (!value || value->is_null()) return fallback;
  if (!value->is_array()) return {token_id(fields, "eos_token_id", *value, vocab)};
  std::vector<int64_t> ids;
  for (const Json& id : value->array()) {
    ids.push_back(token_id(fields, "eos_token_id", id, vocab));
  }
  return ids;
}

void read_own_rules(const Fields& fields, Config& config) {
  const std::string skip = fields.string_or("tephra_skip_rule", "zero");
  if (skip != "zero" && skip != "identity") {
    bad_setting(fields, "tephra_skip_rule", "zero or identity", skip);
  }
  config.skip_rule = skip == "zero" ? SkipRule::zero : SkipRule::identity;
  const std::string pad = fields.string_or("tephra_pad_row_rule", "ordinary");
  if (pad != "ordinary" && pad != "no_input_gradient") {
    bad_setting(fields, "tephra_pad_row_rule", "ordinary or no_input_gradient", pad);
  }
  config.pad_row_gets_no_input_gradient = pad == "no_input_gradient";
}

// Weights of one layer's attention, biases and norms left out; in double, which does not overflow.
double attention_size(const Config& c) {
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  const double hidden = real(c.hidden), heads = real(c.query_heads);
  if (c.attention == AttentionType::mla) {
    const MlaDims& m = c.mla;
    const double query = heads * real(m.nope_dim + m.rope_dim);
    const double queries = m.q_rank > 0 ? real(m.q_rank) * (hidden + query) : hidden * query;
    return queries + hidden * real(m.kv_rank + m.rope_dim) +
           heads * real(m.kv_rank) * real(m.nope_dim + m.value_dim) +
           heads * real(m.value_dim) * hidden;
  }
  const double channels = (heads + real(c.kv_heads)) * real(c.head_dim);
  const bool convolves = c.attention == AttentionType::cca;
  const double taps = convolves ? real(c.conv0_width + c.conv1_width * c.head_dim) : 0;
  return channels * (2 * hidden + taps);
}

double mlp_size(const Config& c) {
  const auto real = [](int64_t size) { return static_cast<double>(size); };
  if (c.mlp == MlpType::dense) return 3 * real(c.dense_hidden) * real(c.hidden);
  const double router =
      real(c.router_hidden) * real(2 * c.router_hidden + c.hidden + c.num_experts);
  return 3 * real(c.num_experts) * real(c.expert_hidden) * real(c.hidden) + router;
}

}  // namespace

void bad_setting(const Fields& fields, std::string_view key, const std::string& expected,
                 const std::string& got) {
  throw Error(Fault::data,
              format("{}: {}: expected {}, got {}", fields.where(), key, expected, got));
}

int64_t size_or(const Fields& fields, std::string_view key, int64_t fallback, int64_t most) {
  const int64_t value = fields.integer_or(key, fallback);
  if (value < 1 || value > most) {
    bad_setting(fields, key, format("a size from 1 to {}", most), format("{}", value));
  }
  return value;
}

double positive_or(const Fields& fields, std::string_view key, double fallback) {
  const double value = fields.number_or(key, fallback);
  if (!std::isfinite(value) || value <= 0) {
    bad_setting(fields, key, "a number above 0", format("{}", value));
  }
  return value;
}

void require_flag(const Fields& fields, std::string_view key, bool supported) {
  if (fields.boolean_or(key, supported) != supported) {
    bad_setting(fields, key, format("{}, the only supported value", supported),
                format("{}", !supported));
  }
}

void require_string(const Fields& fields, std::string_view key, std::string_view supported) {
  const std::string value = fields.string_or(key, std::string(supported));
  if (value != supported) {
    bad_setting(fields, key, format("'{}', the only supported value", supported),
                format("'{}'", value));
  }
}

void read_shared(const Fields& fields, Config& config) {
  config.vocab_size = size_or(fields, "vocab_size", config.vocab_size, kMostVocabulary);
  config.hidden = size_or(fields, "hidden_size", config.hidden, kMostWidth);
  config.conv0_width = size_or(fields, "cca_time0", config.conv0_width, kMostCount);
  config.conv1_width = size_or(fields, "cca_time1", config.conv1_width, kMostCount);
  config.max_positions =
      size_or(fields, "max_position_embeddings", config.max_positions, kMostPositions);
  config.attention_bias = fields.boolean_or("attention_bias", config.attention_bias);
  config.lm_head_bias = fields.boolean_or("lm_head_bias", config.lm_head_bias);
  config.tied_embedding = fields.boolean_or("tie_word_embeddings", config.tied_embedding);
  config.init_std = positive_or(fields, "initializer_range", config.init_std);
  config.pad_id = token_id_or(fields, "pad_token_id", config.pad_id, config.vocab_size);
  config.bos_id = token_id_or(fields, "bos_token_id", config.bos_id, config.vocab_size);
  config.eos_ids = eos_ids(fields, config.eos_ids, config.vocab_size);
  read_own_rules(fields, config);
}

Rope read_rope(const Fields& fields, Rope fallback) {
  require_string(fields, "rope_type", "default");
  const Rope rope = {positive_or(fields, "rope_theta", fallback.theta),
                     positive_or(fields, "partial_rotary_factor", fallback.partial)};
  if (rope.partial > 1) {
    bad_setting(fields, "partial_rotary_factor", "a share of at most 1",
                format("{}", rope.partial));
  }
  return rope;
}

void check_sizes(const Config& c, const Fields& fields) {
  const std::string& where = fields.where();
  require_data(c.query_heads % c.kv_heads == 0,
               "{}: {} query heads do not divide into groups over {} key/value heads", where,
               c.query_heads, c.kv_heads);
  const bool shifts = c.attention == AttentionType::cca && c.value_shift;
  require_data(!shifts || c.kv_heads * c.head_dim % 2 == 0,
               "{}: key/value heads x head_dim must be even, since half of each value is the "
               "previous token's; got {} x {}",
               where, c.kv_heads, c.head_dim);
  const bool own_rotary = c.attention == AttentionType::mla;
  require_data(own_rotary || (c.rotary_dim() >= 2 && c.rotary_dim() % 2 == 0),
               "{}: partial_rotary_factor {} of head_dim {} gives {} rotated dimensions; expected "
               "an even number of at least 2",
               where, c.partial_rotary, c.head_dim, c.rotary_dim());
  const double layer = attention_size(c) + mlp_size(c);
  const double embeddings = 2 * static_cast<double>(c.vocab_size) * static_cast<double>(c.hidden);
  const double total = static_cast<double>(c.num_layers) * layer + embeddings;
  require_data(total < kMostParameters, "{}: the sizes make {:.3g} parameters; expected under {:g}",
               where, total, kMostParameters);
}

}  // namespace tephra::zaya1
