// SPDX-License-Identifier: Apache-2.0
// A golden tokenizer in a folder that also says which token ends a text.
#pragma once

#include <memory>

#include "tephra/base/files.h"
#include "tephra/text/tokenizer.h"
#include "tests/support/scratch.h"

namespace tephra {

inline void write_tokenizer_folder(const Path& folder, const std::string& name) {
  make_writable_folder(folder);
  const Path golden = Path(TEPHRA_GOLDEN_DIR) / name / "tokenizer.json";
  write_file(folder / "tokenizer.json", read_file(golden));
  write_file(folder / "tokenizer_config.json", R"({"bos_token": "<bos>", "eos_token": "<eos>"})");
}

inline std::shared_ptr<const Tokenizer> test_tokenizer() {
  static const auto shared = [] {
    const Scratch scratch;
    write_tokenizer_folder(scratch.path(), "tokenizer-llama-style");
    return std::make_shared<const Tokenizer>(Tokenizer::load(scratch.path()));
  }();
  return shared;
}

}  // namespace tephra
