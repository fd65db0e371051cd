// SPDX-License-Identifier: Apache-2.0
// Configs as texts and in folders, and what is wrong with them.
#pragma once

#include <string>

#include "tephra/models/zaya1/config.h"
#include "tests/support/error_of.h"

namespace tephra::zaya1 {

inline Config parse(const std::string& text) {
  return parse_config(Json::parse(text, "config.json"), "config.json");
}

// What parsing `text` complains about.
inline std::string complaint(const std::string& text) {
  const Error error = error_of([&] { parse(text); });
  EXPECT_EQ(error.fault(), Fault::data);
  return error.what();
}

inline Json config_of(const Path& folder) {
  return Json::parse(read_file(folder / "config.json"), "config.json");
}

}  // namespace tephra::zaya1
