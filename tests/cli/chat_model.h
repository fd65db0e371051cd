// SPDX-License-Identifier: Apache-2.0
// A folder with random weights, a tokenizer and ZAYA1's chat template.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tephra/base/files.h"
#include "tests/support/program.h"

namespace tephra {

inline void make_chat_model(const Path& folder, int seed = 0) {
  const std::string config = std::string(TEPHRA_SOURCE_DIR) + "/tests/eval/config.json";
  const Ran made =
      Program{.path = TEPHRA_BINARY}({"checkpoint", "random", "--quiet", "--config", config,
                                      "--seed", std::to_string(seed), "--out", folder.string()});
  ASSERT_EQ(made.code, 0) << made.err;
  const Path golden(TEPHRA_GOLDEN_DIR);
  std::filesystem::copy_file(golden / "tokenizer-byte-level/tokenizer.json",
                             folder / "tokenizer.json");
  std::filesystem::copy_file(golden / "chat/zaya1.jinja", folder / "chat_template.jinja");
}

}  // namespace tephra
