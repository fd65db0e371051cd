// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/api_keys.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/serve/http_parser.h"

namespace tephra {
namespace {

// Every byte of `given` is looked at, whatever `key` is.
bool equal_in_constant_time(std::string_view given, std::string_view key) {
  unsigned char difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = key.empty() ? '\0' : key[i % key.size()];
    difference =
        static_cast<unsigned char>(difference | static_cast<unsigned char>(given[i] ^ other));
  }
  return difference == 0;
}

}  // namespace

ApiKeys ApiKeys::load(const Path& file) {
  const std::string text = read_file(file, int64_t{1} << 20);
  ApiKeys keys;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view key = trim(line);
    if (key.empty() || key.starts_with('#')) continue;
    keys.keys_.emplace_back(key);
  }
  require_data(keys.required(), "{}: expected at least one key, one a line", file.string());
  return keys;
}

bool ApiKeys::admits(std::string_view authorization) const {
  if (!required()) return true;
  constexpr std::string_view kBearer = "bearer ";  // in any case, by RFC 9110
  if (ascii_lower(authorization.substr(0, kBearer.size())) != kBearer) return false;
  const std::string_view given = trim(authorization.substr(kBearer.size()));
  bool found = false;
  for (const std::string& key : keys_) {
    if (equal_in_constant_time(given, key)) found = true;
  }
  return found;
}

}  // namespace tephra
