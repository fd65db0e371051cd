// SPDX-License-Identifier: Apache-2.0
// What the making of a token shard came to.
#pragma once

#include <string>

#include "tephra/base/json.h"
#include "tephra/data/corpus/tally.h"

namespace tephra {

struct TokenizeReport {
  int64_t files = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
  int64_t earlier_bytes = 0;  // of them, done by a run before
  int64_t empty = 0;          // documents without a token, left out
  Tally troubles{0};          // as other stages count them (counted::), and the first ones' texts

  void add(const TokenizeReport& part);  // of other files

  Json to_json() const;
  static TokenizeReport from_json(const Json& json, const std::string& where);
};

}  // namespace tephra
