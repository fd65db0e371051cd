// SPDX-License-Identifier: Apache-2.0
// What the readers of the native and of the legacy config.json share.
#pragma once

#include <string>
#include <string_view>

#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {

// "config.json: key: expected ..., got ..." as a Fault::data.
[[noreturn]] void bad_setting(const Fields& fields, std::string_view key,
                              const std::string& expected, const std::string& got);

// A size: an integer in [1, most]. Bounds keep every later product within 64 bits.
int64_t size_or(const Fields& fields, std::string_view key, int64_t fallback, int64_t most);
// A finite number above 0.
double positive_or(const Fields& fields, std::string_view key, double fallback);
// A setting that has one supported value; absent is fine.
void require_flag(const Fields& fields, std::string_view key, bool supported);
void require_string(const Fields& fields, std::string_view key, std::string_view supported);

constexpr int64_t kMostVocabulary = int64_t{1} << 28;
constexpr int64_t kMostWidth = int64_t{1} << 20;
constexpr int64_t kMostCount = int64_t{1} << 14;  // layers, heads, experts
constexpr int64_t kMostPositions = int64_t{1} << 40;

// Settings of the same name in both layouts.
void read_shared(const Fields& fields, Config& config);
// rope_theta and partial_rotary_factor of one object; any type but the default is an error.
struct Rope {
  double theta;
  double partial;
};
Rope read_rope(const Fields& fields, Rope fallback);
// The settings that transformers does not know, config_variants.cpp. They are read after all others
// and written only where they differ from the published architecture.
void read_variants(const Fields& fields, Config& config);
void write_variants(const Config& config, Json& json);
void refuse_variants(const Fields& fields);
// That the sizes fit each other.
void check_sizes(const Config& config, const Fields& fields);

Config parse_legacy(const Fields& fields);  // config_legacy.cpp

}  // namespace tephra::zaya1
